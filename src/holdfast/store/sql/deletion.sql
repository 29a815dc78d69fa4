-- name: runs_on_base
SELECT run_key FROM runs WHERE base_key = :run_key;

-- name: bare_tombstone
-- A tombstone that no run is based on any more.
SELECT run_key FROM runs r
 WHERE r.run_key = :run_key AND r.erased = 1 AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.base_key = r.run_key);

-- name: erase_run
UPDATE runs SET erased = 1, input = NULL, output = NULL, error = NULL, tags = '[]', model = NULL, created_by = NULL,
                cancelled_by = NULL, parent_key = NULL, root_key = NULL
 WHERE run_key = :run_key;

-- name: erase_head
UPDATE run_heads SET last_event_seq = 0, status_reason = NULL, session_id = NULL WHERE run_key = :run_key;

-- name: forget_title
UPDATE threads SET title = NULL, folded_title = NULL WHERE thread_key = :thread_key AND title = :title;

-- name: drop_run
DELETE FROM runs WHERE run_key = :run_key;

-- name: drop_head
DELETE FROM run_heads WHERE run_key = :run_key;

-- name: forget_idempotency_key
UPDATE idempotency_keys SET run_key = NULL WHERE run_key = :run_key;

-- name: drop_messages
DELETE FROM messages WHERE run_key = :run_key;

-- name: drop_events
DELETE FROM events WHERE run_key = :run_key;

-- name: drop_steps
DELETE FROM steps WHERE run_key = :run_key;

-- name: drop_own_values
-- Inherited values stay for runs that continue from the tombstone.
DELETE FROM run_values WHERE run_key = :run_key AND source_key IS NULL;

-- name: drop_uses
DELETE FROM run_uses WHERE run_key = :run_key;

-- name: drop_values
DELETE FROM run_values WHERE run_key = :run_key;

-- name: drop_inbox
DELETE FROM inbox WHERE run_key = :run_key;

-- name: drop_interrupts
DELETE FROM interrupts WHERE run_key = :run_key;

-- name: drop_artifacts
DELETE FROM artifacts WHERE run_key = :run_key;

-- name: drop_timers
DELETE FROM timers WHERE run_key = :run_key;

-- name: drop_budget
DELETE FROM budgets WHERE run_key = :run_key;

-- name: drop_contexts
DELETE FROM contexts WHERE run_key = :run_key;

-- name: run_identity
SELECT r.base_key, r.thread_key, t.made_for_run FROM runs r JOIN threads t ON t.thread_key = r.thread_key
 WHERE r.run_key = :run_key;

-- name: any_run_of_thread
SELECT run_key FROM runs WHERE thread_key = :thread_key LIMIT 1;
