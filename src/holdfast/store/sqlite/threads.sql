-- name: add_threads
INSERT INTO threads (space_key, id, title, folded_title, agent_type, status, locale, context_window, metadata, listed_at,
                     created_by, created_at)
VALUES (:space_key, :id, :title, :folded_title, :agent_type, 'active', :locale, :context_window, :metadata, :now,
        :created_by, :now)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING *;

-- name: threads_with_newest_run
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT t.*, s.id AS space_id, (SELECT MAX(r.run_key) FROM runs r WHERE r.thread_key = t.thread_key) AS newest_run
  FROM wanted w
  CROSS JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id;

-- name: begin_runs_on_threads
-- Moves a thread to the top of its list, reserves sequences for the run's input, and gives a thread without runs a title.
-- It is marked if its space has a recall index.
WITH begun (now, count, title, folded_title, thread_key) AS (VALUES (:now, :count, :title, :folded_title, :thread_key))
UPDATE threads SET last_run_at = b.now, listed_at = b.now, next_sequence = next_sequence + b.count,
       title = CASE WHEN last_run_at IS NULL THEN COALESCE(threads.title, b.title) ELSE threads.title END,
       folded_title = CASE WHEN last_run_at IS NULL THEN COALESCE(threads.folded_title, b.folded_title)
                           ELSE threads.folded_title END,
       recalled = CASE WHEN EXISTS (SELECT 1 FROM recall_indexes x WHERE x.space_key = threads.space_key AND x.active = 1)
                       THEN 1 ELSE threads.recalled END
  FROM begun b
 WHERE threads.thread_key = b.thread_key
RETURNING thread_key, next_sequence, title;

-- name: mark_made_for_runs
WITH made (run_key, of_child, thread_key) AS (VALUES (:run_key, :of_child, :thread_key))
UPDATE threads SET made_for_run = m.run_key, of_child = m.of_child FROM made m WHERE threads.thread_key = m.thread_key;
