-- name: interrupt
SELECT i.*, r.id AS run_id, t.id AS thread_id, COALESCE(o.id, r.id) AS root_run_id, t.title, r.agent_type
  FROM interrupts i
  JOIN spaces s ON s.space_key = i.space_key
  JOIN runs r ON r.run_key = i.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE s.id = :space AND i.id = :id;

-- name: interrupts_of_run
SELECT i.*, r.id AS run_id, t.id AS thread_id, COALESCE(o.id, r.id) AS root_run_id, t.title, r.agent_type
  FROM interrupts i
  JOIN runs r ON r.run_key = i.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE i.run_key = :run_key
 ORDER BY i.interrupt_key;

-- name: interrupts_below
WITH RECURSIVE tree (run_key) AS (
    SELECT CAST(:run_key AS BIGINT)
    UNION ALL
    SELECT c.run_key FROM tree t JOIN runs c ON c.parent_key = t.run_key
)
SELECT i.*, r.id AS run_id, t.id AS thread_id, COALESCE(o.id, r.id) AS root_run_id, t.title, r.agent_type
  FROM interrupts i
  JOIN runs r ON r.run_key = i.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE i.run_key IN (SELECT run_key FROM tree)
 ORDER BY i.interrupt_key;

-- name: list_interrupts
SELECT i.*, r.id AS run_id, t.id AS thread_id, COALESCE(o.id, r.id) AS root_run_id, t.title, r.agent_type
  FROM interrupts i
  JOIN runs r ON r.run_key = i.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE i.space_key = :space_key AND i.interrupt_key < :before
   AND (CAST(:status AS TEXT) IS NULL OR i.status = :status)
   AND (CAST(:kind AS TEXT) IS NULL OR i.kind = :kind)
   AND (CAST(:agent_type AS TEXT) IS NULL OR r.agent_type = :agent_type)
   AND (CAST(:thread_id AS TEXT) IS NULL OR t.id = :thread_id)
   AND (CAST(:run_id AS TEXT) IS NULL OR r.id = :run_id)
 ORDER BY i.interrupt_key DESC
 LIMIT :limit;



-- name: list_open_interrupts
-- Reads the index of open interrupts, so that answered ones cost nothing.
SELECT i.*, r.id AS run_id, t.id AS thread_id, COALESCE(o.id, r.id) AS root_run_id, t.title, r.agent_type
  FROM interrupts i
  JOIN runs r ON r.run_key = i.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE i.space_key = :space_key AND i.status = 'open'
   AND ((:oldest = 1 AND i.interrupt_key > :place) OR (:oldest = 0 AND i.interrupt_key < :place))
   AND (CAST(:kind AS TEXT) IS NULL OR i.kind = :kind)
   AND (CAST(:agent_type AS TEXT) IS NULL OR r.agent_type = :agent_type)
   AND (CAST(:thread_id AS TEXT) IS NULL OR t.id = :thread_id)
   AND (CAST(:run_id AS TEXT) IS NULL OR r.id = :run_id)
 ORDER BY CASE WHEN :oldest = 1 THEN i.interrupt_key ELSE -i.interrupt_key END
 LIMIT :limit;

-- name: count_open_interrupts
SELECT COUNT(*) AS open FROM interrupts WHERE space_key = :space_key AND status = 'open';

-- name: open_interrupts_by_thread
-- Those of a sub-agent count for the thread of the root of its tree.
SELECT t.id, COUNT(*) AS open
  FROM interrupts i
  JOIN runs r ON r.run_key = i.run_key
  JOIN runs o ON o.run_key = COALESCE(r.root_key, r.run_key)
  JOIN threads t ON t.thread_key = o.thread_key
 WHERE i.space_key = :space_key AND i.status = 'open'
 GROUP BY t.id;

-- name: due_interrupts
SELECT i.id, i.run_key, s.id AS space_id FROM interrupts i JOIN spaces s ON s.space_key = i.space_key
 WHERE i.status = 'open' AND i.expires_at <= :now
 ORDER BY i.expires_at LIMIT :limit;

-- name: next_expiry
SELECT MIN(expires_at) AS expires_at FROM interrupts WHERE status = 'open';

-- name: expire_interrupt
UPDATE interrupts SET status = 'expired' WHERE interrupt_key = :interrupt_key;

-- name: answer_interrupt
UPDATE interrupts SET status = 'answered', response = :response, answered_by = :by, answered_at = :now
 WHERE interrupt_key = :interrupt_key;
