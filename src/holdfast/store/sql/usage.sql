-- name: usage_totals
SELECT CASE CAST(:group_by AS TEXT)
           WHEN 'day' THEN CAST(day AS TEXT)
           WHEN 'agent' THEN agent_type
           WHEN 'model' THEN model
           ELSE author
       END AS name,
       CAST(SUM(calls) AS BIGINT) AS calls,
       CAST(SUM(unpriced_calls) AS BIGINT) AS unpriced_calls,
       CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
       CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
       CAST(SUM(cached_input_tokens) AS BIGINT) AS cached_input_tokens,
       CAST(SUM(cost_nanodollars) AS BIGINT) AS cost_nanodollars
  FROM usage_ledger
 WHERE space_key = :space_key AND day BETWEEN :first_day AND :last_day
 GROUP BY 1;

-- name: drop_usage_of_space
DELETE FROM usage_ledger WHERE space_key = :space_key;
