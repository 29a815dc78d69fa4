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
