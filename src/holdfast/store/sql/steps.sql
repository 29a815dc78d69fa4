-- name: steps_of_run
SELECT * FROM steps WHERE run_key = :run_key ORDER BY number;
