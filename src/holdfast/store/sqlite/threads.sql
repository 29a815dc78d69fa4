-- name: add_threads
INSERT INTO threads (space_key, id, title, folded_title, agent_type, status, locale, context_window, metadata, listed_at,
                     created_by, created_at)
VALUES (:space_key, :id, :title, :folded_title, :agent_type, 'active', :locale, :context_window, :metadata, :now,
        :created_by, :now)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING *;

-- name: threads_with_newest_run
SELECT t.*, s.id AS space_id, (SELECT MAX(r.run_key) FROM runs r WHERE r.thread_key = t.thread_key) AS newest_run
  FROM threads t JOIN spaces s ON s.space_key = t.space_key
 WHERE s.id = :space AND t.id = :id;

-- name: begin_runs_on_threads
-- Moves a thread up in its list, and gives the run's input its places.
UPDATE threads SET last_run_at = :now, listed_at = :now, next_sequence = next_sequence + :count
 WHERE thread_key = :thread_key
RETURNING thread_key, next_sequence;

-- name: mark_made_for_runs
UPDATE threads SET made_for_run = :run_key WHERE thread_key = :thread_key;
