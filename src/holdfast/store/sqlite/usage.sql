-- name: add_to_usage_ledger
INSERT INTO usage_ledger (space_key, day, agent_type, model, author, calls, unpriced_calls, input_tokens, output_tokens,
                          cached_input_tokens, cost_nanodollars)
VALUES (:space_key, :day, :agent_type, :model, :author, :calls, :unpriced_calls, :input_tokens, :output_tokens,
        :cached_input_tokens, :cost_nanodollars)
ON CONFLICT (space_key, day, agent_type, model, author) DO UPDATE
   SET calls = calls + excluded.calls,
       unpriced_calls = unpriced_calls + excluded.unpriced_calls,
       input_tokens = input_tokens + excluded.input_tokens,
       output_tokens = output_tokens + excluded.output_tokens,
       cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
       cost_nanodollars = cost_nanodollars + excluded.cost_nanodollars;

-- name: add_to_thread_usage
-- To the thread of each run, and to that of its root. Sorted, so that two transactions lock the rows in the same order.
WITH spent (run_key, unpriced, input_tokens, output_tokens, cached_input_tokens, cost_nanodollars) AS (VALUES (:run_key, :unpriced, :input_tokens, :output_tokens, :cached_input_tokens, :cost_nanodollars))
INSERT INTO thread_usage AS u (thread_key, unpriced, input_tokens, output_tokens, cached_input_tokens, cost_nanodollars)
SELECT t.thread_key, CAST(SUM(t.unpriced) AS BIGINT), CAST(SUM(t.input_tokens) AS BIGINT),
       CAST(SUM(t.output_tokens) AS BIGINT), CAST(SUM(t.cached_input_tokens) AS BIGINT),
       CAST(SUM(t.cost_nanodollars) AS BIGINT)
  FROM (SELECT r.thread_key, s.unpriced, s.input_tokens, s.output_tokens, s.cached_input_tokens, s.cost_nanodollars
          FROM spent s CROSS JOIN runs r ON r.run_key = s.run_key
        UNION ALL
        SELECT o.thread_key, s.unpriced, s.input_tokens, s.output_tokens, s.cached_input_tokens, s.cost_nanodollars
          FROM spent s CROSS JOIN runs r ON r.run_key = s.run_key CROSS JOIN runs o ON o.run_key = r.root_key
         WHERE o.thread_key <> r.thread_key) t
 WHERE true
 GROUP BY t.thread_key
 ORDER BY t.thread_key
ON CONFLICT (thread_key) DO UPDATE
   SET unpriced = u.unpriced + excluded.unpriced,
       input_tokens = u.input_tokens + excluded.input_tokens,
       output_tokens = u.output_tokens + excluded.output_tokens,
       cached_input_tokens = u.cached_input_tokens + excluded.cached_input_tokens,
       cost_nanodollars = u.cost_nanodollars + excluded.cost_nanodollars;

-- name: thread_usage
-- The kept usage of threads; a part of unknown cost makes the sum unknown.
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT t.id, COALESCE(u.input_tokens, 0) AS input_tokens, COALESCE(u.output_tokens, 0) AS output_tokens,
       COALESCE(u.cached_input_tokens, 0) AS cached_input_tokens,
       CASE WHEN COALESCE(u.unpriced, 0) = 0 THEN COALESCE(u.cost_nanodollars, 0) END AS cost_nanodollars
  FROM wanted w
 CROSS JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id
  LEFT JOIN thread_usage u ON u.thread_key = t.thread_key;
