-- name: budget_path
-- The budgets that a run spends from, its own first.
WITH RECURSIVE up (run_key, parent_key, above) AS (
    SELECT run_key, parent_key, 0 FROM runs WHERE run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.parent_key, u.above + 1 FROM up u JOIN runs r ON r.run_key = u.parent_key
)
SELECT b.run_key FROM up u JOIN budgets b ON b.run_key = u.run_key ORDER BY u.above;

-- name: budget
SELECT b.tokens, b.cost_nanodollars, r.limits FROM budgets b JOIN runs r ON r.run_key = b.run_key WHERE b.run_key = :run_key;
