-- name: add_to_usage_ledger
-- The rows come sorted, so that two transactions lock them in the same order.
INSERT INTO usage_ledger AS u (space_key, day, agent_type, model, author, calls, unpriced_calls, input_tokens,
                               output_tokens, cached_input_tokens, cost_nanodollars)
SELECT * FROM unnest(:space_key::BIGINT[], :day::BIGINT[], :agent_type::TEXT[], :model::TEXT[], :author::TEXT[],
                     :calls::BIGINT[], :unpriced_calls::BIGINT[], :input_tokens::BIGINT[], :output_tokens::BIGINT[],
                     :cached_input_tokens::BIGINT[], :cost_nanodollars::BIGINT[])
ON CONFLICT (space_key, day, agent_type, model, author) DO UPDATE
   SET calls = u.calls + excluded.calls,
       unpriced_calls = u.unpriced_calls + excluded.unpriced_calls,
       input_tokens = u.input_tokens + excluded.input_tokens,
       output_tokens = u.output_tokens + excluded.output_tokens,
       cached_input_tokens = u.cached_input_tokens + excluded.cached_input_tokens,
       cost_nanodollars = u.cost_nanodollars + excluded.cost_nanodollars;
