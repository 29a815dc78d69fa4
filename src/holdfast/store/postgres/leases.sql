-- name: wake_delayed
UPDATE run_heads SET wait_until = NULL
 WHERE run_key = ANY(ARRAY(
       SELECT run_key FROM run_heads WHERE status = 'queued' AND wait_until <= COALESCE(:now, holdfast_now())
        ORDER BY run_key FOR UPDATE SKIP LOCKED));

-- name: ready_pools
-- The first spaces from `first` on that wait in a pool, one probe of the index for each; at least one row. `due`: a delay
-- has ended. `others`: runs wait in other pools.
WITH RECURSIVE found (space_key, place) AS (
    SELECT (SELECT h.space_key FROM run_heads h
             WHERE h.pool = :pool AND h.space_key >= :first AND h.status = 'queued' AND h.wait_until IS NULL
             ORDER BY h.space_key LIMIT 1), 1
    UNION ALL
    SELECT (SELECT h.space_key FROM run_heads h
             WHERE h.pool = :pool AND h.space_key > found.space_key AND h.status = 'queued' AND h.wait_until IS NULL
             ORDER BY h.space_key LIMIT 1), place + 1
      FROM found WHERE found.space_key IS NOT NULL AND place < :limit
)
SELECT found.space_key, q.weight, q.max_running,
       (SELECT h.queue_key FROM run_heads h
         WHERE h.pool = :pool AND h.space_key = found.space_key AND h.status = 'queued' AND h.wait_until IS NULL
         ORDER BY h.queue_key LIMIT 1) AS queue_key,
       EXISTS (SELECT 1 FROM run_heads h WHERE h.status = 'queued' AND h.wait_until <= COALESCE(:now, holdfast_now())) AS due,
       EXISTS (SELECT 1 FROM run_heads h WHERE h.pool < :pool AND h.status = 'queued' AND h.wait_until IS NULL)
       OR EXISTS (SELECT 1 FROM run_heads h WHERE h.pool > :pool AND h.status = 'queued' AND h.wait_until IS NULL) AS others
  FROM found LEFT JOIN space_queues q ON q.space_key = found.space_key
 ORDER BY found.place;

-- name: ready_pools_of_spaces
SELECT s.space_key, w.pool, q.weight, q.max_running,
       (SELECT h.queue_key FROM run_heads h
         WHERE h.pool = w.pool AND h.space_key = s.space_key AND h.status = 'queued' AND h.wait_until IS NULL
         ORDER BY h.queue_key LIMIT 1) AS queue_key
  FROM unnest(:pool::TEXT[], :space::TEXT[]) AS w (pool, space)
  JOIN spaces s ON s.id = w.space LEFT JOIN space_queues q ON q.space_key = s.space_key;

-- name: lock_space_queues
-- A space that another claim is serving is left out: to wait for it could be to wait for each other.
SELECT space_key, max_running FROM space_queues WHERE space_key = ANY (:space_key::BIGINT[]) ORDER BY space_key
   FOR UPDATE SKIP LOCKED;

-- name: running_of_spaces
SELECT w.space_key, (SELECT COUNT(*) FROM run_heads h WHERE h.space_key = w.space_key AND h.status = 'running') AS running
  FROM unnest(:space_key::BIGINT[]) AS w (space_key);

-- name: claim_heads
-- The array is computed once; a plain IN might be evaluated again and claim more than the limit.
UPDATE run_heads
   SET status = 'running', status_reason = NULL, lease_owner = (:owner::TEXT[])[1], lease_number = lease_number + 1,
       lease_expires_at = COALESCE((:now::BIGINT[])[1], holdfast_now()) + (:lease::BIGINT[])[1], attempt = attempt + 1,
       started_at = COALESCE(started_at, (:now::BIGINT[])[1], holdfast_now()),
       session_id = (:owner::TEXT[])[1] || '.' || (lease_number + 1),
       leased_at = COALESCE((:now::BIGINT[])[1], holdfast_now())
 WHERE run_key = ANY(ARRAY(
       SELECT next.run_key
         FROM unnest(:pool::TEXT[], :space_key::BIGINT[], :patience::BIGINT[], :limit::BIGINT[])
           AS w (pool, space_key, patience, share)
        CROSS JOIN LATERAL (
              SELECT h.run_key FROM run_heads h
               WHERE h.pool = w.pool AND h.space_key = w.space_key AND h.status = 'queued' AND h.wait_until IS NULL
                 AND (h.preferred_owner IS NULL OR h.preferred_owner = (:owner::TEXT[])[1]
                      OR h.queued_at <= COALESCE((:now::BIGINT[])[1], holdfast_now()) - w.patience)
               ORDER BY h.queue_key, h.run_key LIMIT w.share
                 FOR UPDATE SKIP LOCKED) next))
RETURNING run_key, space_key, pool, queue_key, lease_number, lease_expires_at, attempt, started_at, session_id, unread,
       EXISTS (SELECT 1 FROM reminders WHERE status = 'triggered')
       OR EXISTS (SELECT 1 FROM conditions WHERE met_at IS NOT NULL) AS reminders_due,
       (SELECT b.space_key FROM space_budgets b WHERE b.space_key = run_heads.space_key) AS budgeted_space,
       EXISTS (SELECT 1 FROM space_queues q
                WHERE q.space_key = run_heads.space_key AND q.max_running IS NOT NULL) AS space_limited;

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
