-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value) VALUES (:run_key, :name, :at_sequence, :value);

-- name: last_sequences
SELECT thread_key, next_sequence - 1 AS last_sequence FROM threads WHERE thread_key = :thread_key;
