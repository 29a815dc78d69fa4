-- name: add_space
INSERT INTO spaces (id, name, metadata, created_at) VALUES (:id, :name, :metadata, :now)
ON CONFLICT (id) DO NOTHING
RETURNING *;

-- name: space
SELECT * FROM spaces WHERE id = :id;

-- name: list_spaces
SELECT * FROM spaces WHERE space_key > :after ORDER BY space_key LIMIT :limit;

-- name: update_space
UPDATE spaces SET name = :name, metadata = :metadata WHERE space_key = :space_key RETURNING *;

-- name: live_run_of_space
-- Includes an ended run whose worker is still stopping.
SELECT r.id, h.status FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.space_key = :space_key AND (h.status IN ('pending', 'queued', 'running', 'waiting') OR h.lease_owner IS NOT NULL)
 LIMIT 1;

-- name: drop_space
DELETE FROM spaces WHERE space_key = :space_key;

-- name: drop_threads_of_space
DELETE FROM threads WHERE space_key = :space_key;

-- name: drop_runs_of_space
DELETE FROM runs WHERE space_key = :space_key;

-- name: drop_run_ids_of_space
DELETE FROM run_ids WHERE space_key = :space_key;

-- name: drop_idempotency_keys_of_space
DELETE FROM idempotency_keys WHERE space_key = :space_key;

-- name: drop_heads_of_space
DELETE FROM run_heads WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_messages_of_space
DELETE FROM messages WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_events_of_space
DELETE FROM events WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_steps_of_space
DELETE FROM steps WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_values_of_space
DELETE FROM run_values WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_uses_of_space
DELETE FROM run_uses WHERE space_key = :space_key;

-- name: drop_inbox_of_space
DELETE FROM inbox WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_interrupts_of_space
DELETE FROM interrupts WHERE space_key = :space_key;

-- name: drop_artifacts_of_space
DELETE FROM artifacts WHERE space_key = :space_key;

-- name: drop_files_of_space
DELETE FROM files WHERE space_key = :space_key;

-- name: drop_blobs_of_space
DELETE FROM blobs WHERE space_key = :space_key;

-- name: drop_timers_of_space
DELETE FROM timers WHERE space_key = :space_key;

-- name: drop_outbox_of_space
DELETE FROM outbox WHERE space_key = :space_key;

-- name: drop_notifications_of_space
DELETE FROM notifications WHERE space_key = :space_key;

-- name: revoke_keys_of_space
-- Keys that open no other space. They are kept, because a server without any key is open to everybody on its machine.
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, :now)
 WHERE api_key IN (SELECT api_key FROM api_key_spaces WHERE space_key = :space_key)
   AND NOT EXISTS (SELECT 1 FROM api_key_spaces o WHERE o.api_key = api_keys.api_key AND o.space_key <> :space_key);

-- name: drop_key_bindings_of_space
DELETE FROM api_key_spaces WHERE space_key = :space_key;

-- name: drop_budgets_of_space
DELETE FROM budgets WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_contexts_of_space
DELETE FROM contexts WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);

-- name: drop_task_numbers_of_space
DELETE FROM task_numbers WHERE thread_key IN (SELECT thread_key FROM threads WHERE space_key = :space_key);

-- name: drop_texts_of_space
DELETE FROM texts WHERE space_key = :space_key;
