-- name: lock_space_budget
SELECT * FROM space_budgets WHERE space_key = :space_key;
