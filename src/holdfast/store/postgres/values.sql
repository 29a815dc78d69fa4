-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value)
SELECT * FROM unnest(:run_key::BIGINT[], :name::TEXT[], :at_sequence::BIGINT[], :value::JSON[]);

-- name: last_sequences
SELECT thread_key, next_sequence - 1 AS last_sequence FROM threads WHERE thread_key = ANY(:thread_key::BIGINT[]);
