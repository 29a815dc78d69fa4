-- name: thread
SELECT t.* FROM threads t JOIN spaces s ON s.space_key = t.space_key WHERE s.id = :space AND t.id = :id;

-- name: task_number
SELECT number FROM task_numbers WHERE thread_key = :thread_key AND step = :step;

-- name: take_task_number
INSERT INTO task_numbers (thread_key, number, step)
SELECT CAST(:thread_key AS BIGINT), COALESCE(MAX(number), 0) + 1, CAST(:step AS TEXT) FROM task_numbers WHERE thread_key = :thread_key
RETURNING number;

-- name: drop_task_numbers
DELETE FROM task_numbers WHERE thread_key = :thread_key;

-- name: list_threads
SELECT t.* FROM threads t JOIN spaces s ON s.space_key = t.space_key
 WHERE s.id = :space AND (t.listed_at, t.thread_key) < (:before_at, :before_key)
   AND CASE WHEN CAST(:status AS TEXT) IS NULL THEN t.status <> 'deleted' ELSE t.status = :status END
   AND (CAST(:agent_type AS TEXT) IS NULL OR t.agent_type = :agent_type)
   AND (CAST(:title AS TEXT) IS NULL OR holdfast_contains(t.folded_title, :title))
   AND t.of_child <= :children
 ORDER BY t.listed_at DESC, t.thread_key DESC
 LIMIT :limit;

-- name: threads_with_tasks
-- The threads of a space that ever had a plan item, from the given one on, latest run first.
SELECT t.thread_key, t.listed_at FROM threads t JOIN spaces s ON s.space_key = t.space_key
 WHERE s.id = :space AND (t.listed_at, t.thread_key) <= (:listed_at, :thread_key)
   AND t.status <> 'deleted'
   AND (CAST(:thread_id AS TEXT) IS NULL OR t.id = :thread_id)
   AND EXISTS (SELECT 1 FROM task_numbers n WHERE n.thread_key = t.thread_key)
 ORDER BY t.listed_at DESC, t.thread_key DESC
 LIMIT :limit;

-- name: newest_run_of_thread
SELECT * FROM run_view WHERE thread_key = :thread_key ORDER BY run_key DESC LIMIT 1;

-- name: update_thread
UPDATE threads
   SET title = :title, folded_title = :folded_title, agent_type = :agent_type, status = :status, locale = :locale,
       summary = :summary, key_points = :key_points, retrieval_index = :retrieval_index,
       context_window = :context_window, metadata = :metadata
 WHERE thread_key = :thread_key
RETURNING *;

-- name: live_run_of_thread
SELECT r.id, h.status FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.thread_key = :thread_key AND h.status IN ('pending', 'queued', 'running', 'waiting')
 LIMIT 1;

-- name: drop_thread
DELETE FROM threads WHERE thread_key = :thread_key;
