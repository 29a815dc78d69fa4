-- name: add_to_outbox
INSERT INTO outbox (space_key, kind, run_id, thread_id, data, created_at)
VALUES (:space_key, :kind, :run_id, :thread_id, :data, :now);

-- name: lock_outbox
-- One writer: nobody else dispatches.
SELECT 1;
