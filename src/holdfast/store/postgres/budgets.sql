-- name: add_budgets
INSERT INTO budgets (run_key) SELECT * FROM unnest(:run_key::BIGINT[]);

-- name: spend
WITH spent AS (
    SELECT * FROM unnest(:tokens::BIGINT[], :cost::BIGINT[], :run_key::BIGINT[]) AS s (tokens, cost, run_key)
), locked AS (
    SELECT b.run_key FROM budgets b WHERE b.run_key = ANY(:run_key::BIGINT[]) ORDER BY b.run_key FOR UPDATE
)
UPDATE budgets b SET tokens = b.tokens + s.tokens, cost_nanodollars = b.cost_nanodollars + s.cost
  FROM spent s JOIN locked l ON l.run_key = s.run_key
 WHERE b.run_key = s.run_key;
