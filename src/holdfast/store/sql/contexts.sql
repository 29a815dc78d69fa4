-- name: context
SELECT snapshot FROM contexts WHERE run_key = :run_key AND step = :step;

-- name: contexts_of_run
SELECT step FROM contexts WHERE run_key = :run_key ORDER BY step;

-- name: text
SELECT content FROM texts WHERE space_key = :space_key AND digest = :digest;
