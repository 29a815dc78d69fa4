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
