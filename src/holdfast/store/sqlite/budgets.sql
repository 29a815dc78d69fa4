-- name: add_budgets
INSERT INTO budgets (run_key) VALUES (:run_key);

-- name: spend
UPDATE budgets SET tokens = tokens + :tokens, cost_nanodollars = cost_nanodollars + :cost WHERE run_key = :run_key;
