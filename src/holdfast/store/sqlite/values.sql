-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value) VALUES (:run_key, :name, :at_sequence, :value);

-- name: add_run_uses
INSERT INTO run_uses (space_key, kind, name, run_key) VALUES (:space_key, :kind, :name, :run_key)
ON CONFLICT DO NOTHING;

-- name: last_sequences
SELECT run_key, COALESCE((SELECT MAX(sequence) FROM messages WHERE run_key = :run_key), -1) AS last_sequence
  FROM runs
 WHERE run_key = :run_key;

-- name: inherit_values
-- Values given at creation (sequence -1) take precedence over inherited ones, until the run is erased.
INSERT INTO run_values (run_key, name, at_sequence, source_key)
SELECT :run_key, v.name, -2, COALESCE(v.source_key, v.value_key)
  FROM run_values v
 WHERE v.run_key = :base_key AND v.at_sequence <= :cut
   AND NOT EXISTS (SELECT 1 FROM run_values n
                    WHERE n.run_key = v.run_key AND n.name = v.name AND n.at_sequence <= :cut
                      AND (n.at_sequence, n.value_key) > (v.at_sequence, v.value_key));
