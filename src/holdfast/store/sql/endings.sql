-- name: tree
-- A run and all its descendants, parents first.
WITH RECURSIVE tree (run_key) AS (
    SELECT CAST(:run_key AS BIGINT)
    UNION ALL
    SELECT r.run_key FROM tree t JOIN runs r ON r.parent_key = t.run_key
)
SELECT r.run_key, r.space_key, r.thread_key, r.parent_key, h.status, h.lease_owner
  FROM tree t JOIN runs r ON r.run_key = t.run_key JOIN run_heads h ON h.run_key = r.run_key
 ORDER BY r.run_key;

-- name: end_head
UPDATE run_heads
   SET status = :status, status_reason = :reason, lease_number = lease_number + 1, wait_until = NULL,
       last_event_seq = last_event_seq + :events, unread = unread - :read
 WHERE run_key = :run_key
RETURNING last_event_seq, lease_owner, queued_at;

-- name: end_run
UPDATE runs SET error = :error, cancelled_by = :cancelled_by, completed_at = :now WHERE run_key = :run_key;

-- name: queue_pending
UPDATE run_heads
   SET status = 'queued', queued_at = :now,
       queue_key = CASE WHEN wait_until > :now THEN wait_until ELSE :now END - head_start
 WHERE run_key = :run_key AND status = 'pending';
