-- name: issue_worker_leases
INSERT INTO worker_leases (run_key, lease_number, token_hash, api_key)
VALUES (:run_key, :lease_number, :token_hash, :api_key)
ON CONFLICT (run_key) DO UPDATE
   SET lease_number = excluded.lease_number, token_hash = excluded.token_hash, api_key = excluded.api_key,
       commit_number = 0, commit_digest = NULL, commit_result = NULL;

-- name: last_numbered_commits
WITH wanted (run_key) AS (VALUES (:run_key))
SELECT l.* FROM wanted w CROSS JOIN worker_leases l ON l.run_key = w.run_key;

-- name: keep_commit_results
WITH done (number, digest, result, run_key, lease_number) AS (
    VALUES (:number, :digest, :result, :run_key, :lease_number)
)
UPDATE worker_leases SET commit_number = d.number, commit_digest = d.digest, commit_result = d.result
  FROM done d
 WHERE worker_leases.run_key = d.run_key AND worker_leases.lease_number = d.lease_number;
