-- name: live_runs
-- Each count reads a partial index that holds only those runs.
SELECT (SELECT COUNT(*) FROM run_heads WHERE status = 'pending') AS pending,
       (SELECT COUNT(*) FROM run_heads WHERE status = 'waiting') AS waiting,
       (SELECT COUNT(*) FROM run_heads WHERE status = 'running' AND lease_owner IS NOT NULL) AS running,
       (SELECT COUNT(*) FROM run_heads WHERE status = 'queued' AND wait_until IS NULL) AS ready,
       (SELECT COUNT(*) FROM run_heads WHERE status = 'queued' AND wait_until IS NOT NULL AND wait_until <= :now) AS due,
       (SELECT COUNT(*) FROM run_heads WHERE status = 'queued' AND wait_until IS NOT NULL AND wait_until > :now) AS delayed,
       (SELECT MIN(queued_at) FROM run_heads WHERE status = 'queued' AND wait_until IS NULL) AS oldest;

-- name: queued_runs_of_space
-- Reads the same indexes: ended runs cost nothing.
SELECT (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'queued' AND h.wait_until IS NULL AND r.space_key = :space_key)
     + (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'queued' AND h.wait_until IS NOT NULL AND r.space_key = :space_key)
     + (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'pending' AND r.space_key = :space_key) AS queued;
