-- name: wake_delayed
UPDATE run_heads SET wait_until = NULL
 WHERE run_key = ANY(ARRAY(
       SELECT run_key FROM run_heads WHERE status = 'queued' AND wait_until <= COALESCE(:now, holdfast_now())
        ORDER BY run_key FOR UPDATE SKIP LOCKED));

-- name: claim_heads
-- The array is computed once; a plain IN might be evaluated again and claim more than the limit.
UPDATE run_heads
   SET status = 'running', status_reason = NULL, lease_owner = :owner, lease_number = lease_number + 1,
       lease_expires_at = COALESCE(:now, holdfast_now()) + :lease, attempt = attempt + 1,
       started_at = COALESCE(started_at, :now, holdfast_now()), session_id = :owner || '.' || (lease_number + 1),
       leased_at = COALESCE(:now, holdfast_now())
 WHERE run_key = ANY(ARRAY(
       SELECT run_key FROM run_heads WHERE status = 'queued' AND wait_until IS NULL ORDER BY queue_key, run_key LIMIT :limit
          FOR UPDATE SKIP LOCKED))
RETURNING run_key, queue_key, lease_number, lease_expires_at, attempt, started_at, session_id, unread,
       EXISTS (SELECT 1 FROM reminders WHERE status = 'triggered')
       OR EXISTS (SELECT 1 FROM conditions WHERE met_at IS NOT NULL) AS reminders_due,
       (SELECT b.space_key FROM runs r JOIN space_budgets b ON b.space_key = r.space_key
         WHERE r.run_key = run_heads.run_key) AS budgeted_space;

-- name: runs_by_key
SELECT * FROM run_view WHERE run_key = ANY(:run_key::BIGINT[]);

-- name: renew_leases
WITH wanted AS (
    SELECT * FROM unnest(:now::BIGINT[], :lease::BIGINT[], :run_key::BIGINT[], :lease_number::BIGINT[], :owner::TEXT[])
           AS w (now, lease, run_key, lease_number, owner)
), locked AS (
    SELECT h.run_key FROM run_heads h WHERE h.run_key = ANY(:run_key::BIGINT[]) ORDER BY h.run_key FOR UPDATE
)
UPDATE run_heads h SET lease_expires_at = COALESCE(w.now, holdfast_now()) + w.lease
  FROM wanted w JOIN locked l ON l.run_key = w.run_key
 WHERE h.run_key = w.run_key AND h.lease_number = w.lease_number AND h.lease_owner = w.owner
RETURNING h.run_key, h.lease_number, h.lease_expires_at;

-- name: expired_heads
SELECT h.run_key, r.id, r.thread_key, h.status, h.attempt, h.lease_owner, h.lease_number, h.lease_expires_at
  FROM run_heads h JOIN runs r ON r.run_key = h.run_key
 WHERE h.lease_owner IS NOT NULL AND h.lease_expires_at <= COALESCE(:now, holdfast_now())
 ORDER BY h.run_key;

-- name: queue_state
-- Whether a run may be claimed now, and when the next delayed run becomes claimable.
SELECT EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until IS NULL)
    OR EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until <= COALESCE(:now, holdfast_now())) AS ready,
       (SELECT MIN(wait_until) FROM run_heads WHERE status = 'queued' AND wait_until > COALESCE(:now, holdfast_now())) AS next_at;

-- name: leases_of_running
SELECT run_key, lease_number FROM run_heads WHERE run_key = ANY (:run_key::BIGINT[]) AND status = 'running';
