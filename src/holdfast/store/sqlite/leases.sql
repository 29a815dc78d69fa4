-- name: wake_delayed
UPDATE run_heads SET wait_until = NULL WHERE status = 'queued' AND wait_until <= :now;

-- name: claim_heads
UPDATE run_heads
   SET status = 'running', status_reason = NULL, lease_owner = :owner, lease_number = lease_number + 1,
       lease_expires_at = :now + :lease, attempt = attempt + 1, started_at = COALESCE(started_at, :now),
       session_id = :owner || '.' || (lease_number + 1), leased_at = :now
 WHERE run_key IN (
       SELECT run_key FROM run_heads WHERE status = 'queued' AND wait_until IS NULL ORDER BY queue_key, run_key LIMIT :limit)
RETURNING run_key, queue_key, lease_number, lease_expires_at, attempt, started_at, session_id, unread,
       EXISTS (SELECT 1 FROM reminders WHERE status = 'triggered')
       OR EXISTS (SELECT 1 FROM conditions WHERE met_at IS NOT NULL) AS reminders_due,
       (SELECT b.space_key FROM runs r JOIN space_budgets b ON b.space_key = r.space_key
         WHERE r.run_key = run_heads.run_key) AS budgeted_space;

-- name: runs_by_key
WITH wanted (run_key) AS (VALUES (:run_key))
SELECT v.* FROM wanted w CROSS JOIN run_view v ON v.run_key = w.run_key;

-- name: renew_leases
WITH wanted (now, lease, run_key, lease_number, owner) AS (VALUES (:now, :lease, :run_key, :lease_number, :owner))
UPDATE run_heads SET lease_expires_at = w.now + w.lease
  FROM wanted w
 WHERE run_heads.run_key = w.run_key AND run_heads.lease_number = w.lease_number AND lease_owner = w.owner
RETURNING run_key, lease_number, lease_expires_at;

-- name: expired_heads
SELECT h.run_key, r.id, r.thread_key, h.status, h.attempt, h.lease_owner, h.lease_number, h.lease_expires_at
  FROM run_heads h JOIN runs r ON r.run_key = h.run_key
 WHERE h.lease_owner IS NOT NULL AND h.lease_expires_at <= :now
 ORDER BY h.run_key;

-- name: queue_state
-- Whether a run may be claimed now, and when the next delayed run becomes claimable.
SELECT EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until IS NULL)
    OR EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until <= :now) AS ready,
       (SELECT MIN(wait_until) FROM run_heads WHERE status = 'queued' AND wait_until > :now) AS next_at;

-- name: leases_of_running
WITH wanted (run_key) AS (VALUES (:run_key))
SELECT h.run_key, h.lease_number FROM wanted w CROSS JOIN run_heads h ON h.run_key = w.run_key
 WHERE h.status = 'running';
