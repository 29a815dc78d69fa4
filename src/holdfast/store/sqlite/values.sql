-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value) VALUES (:run_key, :name, :at_sequence, :value);

-- name: last_sequences
SELECT run_key, COALESCE((SELECT MAX(sequence) FROM messages WHERE run_key = :run_key), -1) AS last_sequence
  FROM runs
 WHERE run_key = :run_key;
