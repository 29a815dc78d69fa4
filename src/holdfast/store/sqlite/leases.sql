-- name: wake_delayed
UPDATE run_heads SET wait_until = NULL WHERE status = 'queued' AND wait_until <= :now;

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
       EXISTS (SELECT 1 FROM run_heads h WHERE h.status = 'queued' AND h.wait_until <= :now) AS due,
       EXISTS (SELECT 1 FROM run_heads h WHERE h.pool < :pool AND h.status = 'queued' AND h.wait_until IS NULL)
       OR EXISTS (SELECT 1 FROM run_heads h WHERE h.pool > :pool AND h.status = 'queued' AND h.wait_until IS NULL) AS others
  FROM found LEFT JOIN space_queues q ON q.space_key = found.space_key
 ORDER BY found.place;

-- name: ready_pools_of_spaces
WITH wanted (pool, space) AS (VALUES (:pool, :space))
SELECT s.space_key, w.pool, q.weight, q.max_running,
       (SELECT h.queue_key FROM run_heads h
         WHERE h.pool = w.pool AND h.space_key = s.space_key AND h.status = 'queued' AND h.wait_until IS NULL
         ORDER BY h.queue_key LIMIT 1) AS queue_key
  FROM wanted w CROSS JOIN spaces s ON s.id = w.space LEFT JOIN space_queues q ON q.space_key = s.space_key;

-- name: lock_space_queues
WITH wanted (space_key) AS (VALUES (:space_key))
SELECT q.space_key, q.max_running FROM wanted w CROSS JOIN space_queues q ON q.space_key = w.space_key;

-- name: running_of_spaces
WITH wanted (space_key) AS (VALUES (:space_key))
SELECT w.space_key, (SELECT COUNT(*) FROM run_heads h WHERE h.space_key = w.space_key AND h.status = 'running') AS running
  FROM wanted w;

-- name: claim_heads
UPDATE run_heads
   SET status = 'running', status_reason = NULL, lease_owner = :owner, lease_number = lease_number + 1,
       lease_expires_at = :now + :lease, attempt = attempt + 1, started_at = COALESCE(started_at, :now),
       session_id = :owner || '.' || (lease_number + 1), leased_at = :now
 WHERE run_key IN (
       SELECT h.run_key FROM run_heads h
        WHERE h.pool = :pool AND h.space_key = :space_key AND h.status = 'queued' AND h.wait_until IS NULL
          AND (h.preferred_owner IS NULL OR h.preferred_owner = :owner OR h.queued_at <= :now - :patience)
        ORDER BY h.queue_key, h.run_key LIMIT :limit)
RETURNING run_key, space_key, pool, queue_key, lease_number, lease_expires_at, attempt, started_at, session_id, unread,
       EXISTS (SELECT 1 FROM reminders WHERE status = 'triggered')
       OR EXISTS (SELECT 1 FROM conditions WHERE met_at IS NOT NULL) AS reminders_due,
       (SELECT b.space_key FROM space_budgets b WHERE b.space_key = run_heads.space_key) AS budgeted_space,
       EXISTS (SELECT 1 FROM space_queues q
                WHERE q.space_key = run_heads.space_key AND q.max_running IS NOT NULL) AS space_limited;

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
