-- name: steps_of_run
SELECT * FROM steps WHERE run_key = :run_key ORDER BY number;

-- name: steps_after
SELECT * FROM steps WHERE run_key = :run_key AND number > :number ORDER BY number LIMIT :limit;

-- name: run_tree
-- A run and its descendants.
WITH RECURSIVE tree (run_key) AS (
    SELECT CAST(:run_key AS BIGINT)
    UNION ALL
    SELECT c.run_key FROM tree t JOIN runs c ON c.parent_key = t.run_key
)
SELECT r.run_key, r.id FROM tree t JOIN runs r ON r.run_key = t.run_key WHERE r.erased = 0;
