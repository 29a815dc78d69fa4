-- name: issue_worker_leases
INSERT INTO worker_leases (run_key, lease_number, token_hash, api_key)
SELECT run_key, lease_number, token_hash, api_key
  FROM unnest(:run_key::BIGINT[], :lease_number::BIGINT[], :token_hash::BYTEA[], :api_key::TEXT[])
       AS n (run_key, lease_number, token_hash, api_key)
ON CONFLICT (run_key) DO UPDATE
   SET lease_number = excluded.lease_number, token_hash = excluded.token_hash, api_key = excluded.api_key,
       commit_number = 0, commit_digest = NULL, commit_result = NULL;

-- name: last_numbered_commits
SELECT * FROM worker_leases WHERE run_key = ANY (:run_key::BIGINT[]);

-- name: keep_commit_results
UPDATE worker_leases l SET commit_number = d.number, commit_digest = d.digest, commit_result = d.result
  FROM unnest(:number::BIGINT[], :digest::BYTEA[], :result::TEXT[], :run_key::BIGINT[], :lease_number::BIGINT[])
       AS d (number, digest, result, run_key, lease_number)
 WHERE l.run_key = d.run_key AND l.lease_number = d.lease_number;
