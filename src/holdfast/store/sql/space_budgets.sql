-- name: space_budget
SELECT * FROM space_budgets WHERE space_key = :space_key;

-- name: put_space_budget
INSERT INTO space_budgets (space_key, period, tokens, cost_nanodollars)
VALUES (:space_key, :period, :tokens, :cost)
ON CONFLICT (space_key) DO UPDATE
   SET period = excluded.period, tokens = excluded.tokens, cost_nanodollars = excluded.cost_nanodollars,
       warned_day = -1, warned_percent = 0;

-- name: drop_space_budget
DELETE FROM space_budgets WHERE space_key = :space_key RETURNING space_key;

-- name: drop_budget_of_space
DELETE FROM space_budgets WHERE space_key = :space_key;

-- name: note_budget_warning
UPDATE space_budgets SET warned_day = :day, warned_percent = :percent WHERE space_key = :space_key;

-- name: spent_since
SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) AS tokens,
       CAST(COALESCE(SUM(cost_nanodollars), 0) AS BIGINT) AS cost_nanodollars,
       CAST(COALESCE(SUM(unpriced_calls), 0) AS BIGINT) AS unpriced_calls
  FROM usage_ledger
 WHERE space_key = :space_key AND day >= :day;
