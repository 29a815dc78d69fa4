-- name: worker_lease
SELECT w.* FROM worker_leases w WHERE w.run_key = (
    SELECT i.run_key FROM run_ids i JOIN spaces s ON s.space_key = i.space_key WHERE s.id = :space AND i.id = :id
);

-- name: drop_worker_lease
DELETE FROM worker_leases WHERE run_key = :run_key;

-- name: held_head
-- A head as a claim returns it: where nothing says otherwise, a reminder may be due.
SELECT h.*, 1 AS reminders_due,
       (SELECT b.space_key FROM space_budgets b WHERE b.space_key = h.space_key) AS budgeted_space,
       EXISTS (SELECT 1 FROM space_queues q WHERE q.space_key = h.space_key AND q.max_running IS NOT NULL) AS space_limited
  FROM run_heads h WHERE h.run_key = :run_key;

-- name: heads_of_worker
-- As `expired_heads`, but of a worker whose leases were claimed with a key; '' is none.
SELECT h.run_key, r.id, r.thread_key, h.status, h.attempt, h.lease_owner, h.lease_number, h.lease_expires_at
  FROM run_heads h JOIN runs r ON r.run_key = h.run_key JOIN worker_leases w ON w.run_key = h.run_key
 WHERE h.lease_owner = :owner AND COALESCE(w.api_key, '') = :api_key
 ORDER BY h.run_key;
