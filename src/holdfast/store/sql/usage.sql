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

-- name: usage_of_threads
-- Of the runs from a key on that were created in these days; a sub-agent counts for the thread of the root of its tree.
-- Like the ledger it leaves out what used nothing, and counts a first call that was cut off.
SELECT t.id AS name, t.title,
       CAST(SUM(CASE WHEN r.iterations > 0 THEN r.iterations ELSE 1 END) AS BIGINT) AS calls,
       CAST(SUM(CASE WHEN r.cost_nanodollars IS NOT NULL THEN 0 WHEN r.iterations > 0 THEN r.iterations ELSE 1 END)
            AS BIGINT) AS unpriced_calls,
       CAST(SUM(r.input_tokens) AS BIGINT) AS input_tokens,
       CAST(SUM(r.output_tokens) AS BIGINT) AS output_tokens,
       CAST(SUM(r.cached_input_tokens) AS BIGINT) AS cached_input_tokens,
       CAST(SUM(COALESCE(r.cost_nanodollars, 0)) AS BIGINT) AS cost_nanodollars
  FROM runs r
  JOIN runs o ON o.run_key = COALESCE(r.root_key, r.run_key)
  JOIN threads t ON t.thread_key = o.thread_key
 WHERE r.space_key = :space_key AND r.run_key >= :first_key AND r.created_at >= :after AND r.created_at < :before
   AND (r.cost_nanodollars IS NULL OR r.cost_nanodollars > 0 OR r.input_tokens > 0 OR r.output_tokens > 0)
 GROUP BY t.id, t.title;

-- name: drop_usage_of_space
DELETE FROM usage_ledger WHERE space_key = :space_key;

-- name: drop_thread_usage_of_space
DELETE FROM thread_usage WHERE thread_key IN (SELECT thread_key FROM threads WHERE space_key = :space_key);

-- name: drop_usage_of_thread
DELETE FROM thread_usage WHERE thread_key = :thread_key;
