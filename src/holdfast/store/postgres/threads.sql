-- name: add_threads
INSERT INTO threads (space_key, id, title, folded_title, agent_type, status, locale, context_window, metadata, listed_at,
                     created_by, created_at)
SELECT space_key, id, title, folded_title, agent_type, 'active', locale, context_window, metadata, now, created_by, now
  FROM unnest(:space_key::BIGINT[], :id::TEXT[], :title::TEXT[], :folded_title::TEXT[], :agent_type::TEXT[], :locale::TEXT[],
              :context_window::BIGINT[], :metadata::JSON[], :now::BIGINT[], :created_by::TEXT[])
       AS n (space_key, id, title, folded_title, agent_type, locale, context_window, metadata, now, created_by)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING *;

-- name: threads_with_newest_run
SELECT t.*, s.id AS space_id, (SELECT MAX(r.run_key) FROM runs r WHERE r.thread_key = t.thread_key) AS newest_run
  FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
  JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id;

-- name: begin_runs_on_threads
-- Moves a thread to the top of its list, reserves sequences for the run's input, and gives a thread without runs a title.
-- It is marked if its space has a recall index.
UPDATE threads t SET last_run_at = b.now, listed_at = b.now, next_sequence = t.next_sequence + b.count,
       title = CASE WHEN t.last_run_at IS NULL THEN COALESCE(t.title, b.title) ELSE t.title END,
       folded_title = CASE WHEN t.last_run_at IS NULL THEN COALESCE(t.folded_title, b.folded_title)
                           ELSE t.folded_title END,
       recalled = CASE WHEN EXISTS (SELECT 1 FROM recall_indexes x WHERE x.space_key = t.space_key AND x.active = 1)
                       THEN 1 ELSE t.recalled END
  FROM unnest(:now::BIGINT[], :count::BIGINT[], :title::TEXT[], :folded_title::TEXT[], :thread_key::BIGINT[])
       AS b (now, count, title, folded_title, thread_key)
 WHERE t.thread_key = b.thread_key
RETURNING t.thread_key, t.next_sequence, t.title;

-- name: mark_made_for_runs
UPDATE threads t SET made_for_run = m.run_key, of_child = m.of_child
  FROM unnest(:run_key::BIGINT[], :of_child::BIGINT[], :thread_key::BIGINT[]) AS m (run_key, of_child, thread_key)
 WHERE t.thread_key = m.thread_key;
