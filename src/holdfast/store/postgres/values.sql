-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value)
SELECT * FROM unnest(:run_key::BIGINT[], :name::TEXT[], :at_sequence::BIGINT[], :value::JSON[]);

-- name: last_sequences
SELECT r.run_key, COALESCE((SELECT MAX(m.sequence) FROM messages m WHERE m.run_key = r.run_key), -1) AS last_sequence
  FROM runs r
 WHERE r.run_key = ANY(:run_key::BIGINT[]);
