-- name: add_to_outbox
INSERT INTO outbox (space_key, kind, run_id, thread_id, data, created_at)
VALUES (:space_key, :kind, :run_id, :thread_id, :data, :now);

-- name: lock_outbox
-- There is one writer, so no lock is needed.
SELECT 1;

-- name: take_notification_numbers
WITH taken (count, space_key) AS (VALUES (:count, :space_key))
UPDATE spaces SET last_notification = last_notification + t.count FROM taken t WHERE spaces.space_key = t.space_key
RETURNING space_key, id, last_notification;

-- name: add_notifications
INSERT INTO notifications (space_key, number, kind, run_id, thread_id, data, created_at)
VALUES (:space_key, :number, :kind, :run_id, :thread_id, :data, :created_at);

-- name: drop_from_outbox
DELETE FROM outbox WHERE outbox_key IN (VALUES (:outbox_key));
