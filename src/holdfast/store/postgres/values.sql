-- name: add_values
INSERT INTO run_values (run_key, name, at_sequence, value)
SELECT * FROM unnest(:run_key::BIGINT[], :name::TEXT[], :at_sequence::BIGINT[], :value::JSON[]);

-- name: add_run_uses
INSERT INTO run_uses (space_key, kind, name, run_key)
SELECT * FROM unnest(:space_key::BIGINT[], :kind::TEXT[], :name::TEXT[], :run_key::BIGINT[])
ON CONFLICT DO NOTHING;

-- name: last_sequences
SELECT r.run_key, COALESCE((SELECT MAX(m.sequence) FROM messages m WHERE m.run_key = r.run_key), -1) AS last_sequence
  FROM runs r
 WHERE r.run_key = ANY(:run_key::BIGINT[]);

-- name: inherit_values
-- Values given at creation (sequence -1) take precedence over inherited ones, until the run is erased.
INSERT INTO run_values (run_key, name, at_sequence, source_key)
SELECT i.run_key, v.name, -2, COALESCE(v.source_key, v.value_key)
  FROM unnest(:run_key::BIGINT[], :base_key::BIGINT[], :cut::BIGINT[]) AS i (run_key, base_key, cut)
  JOIN run_values v ON v.run_key = i.base_key AND v.at_sequence <= i.cut
 WHERE NOT EXISTS (SELECT 1 FROM run_values n
                    WHERE n.run_key = v.run_key AND n.name = v.name AND n.at_sequence <= i.cut
                      AND (n.at_sequence, n.value_key) > (v.at_sequence, v.value_key));
