-- name: worker_lease
SELECT w.* FROM worker_leases w WHERE w.run_key = (
    SELECT i.run_key FROM run_ids i JOIN spaces s ON s.space_key = i.space_key WHERE s.id = :space AND i.id = :id
);

-- name: drop_worker_lease
DELETE FROM worker_leases WHERE run_key = :run_key;
