-- name: values_at
-- The latest value of each name up to the sequence `cut`, its own or inherited.
SELECT v.name, COALESCE(s.value, v.value) AS value
  FROM run_values v LEFT JOIN run_values s ON s.value_key = v.source_key
 WHERE v.run_key = :run_key AND v.at_sequence <= :cut
   AND NOT EXISTS (SELECT 1 FROM run_values n
                    WHERE n.run_key = v.run_key AND n.name = v.name AND n.at_sequence <= :cut
                      AND (n.at_sequence, n.value_key) > (v.at_sequence, v.value_key));

-- name: value_at_end
SELECT COALESCE(s.value, v.value) AS value
  FROM run_values v LEFT JOIN run_values s ON s.value_key = v.source_key
 WHERE v.run_key = :run_key AND v.name = :name
 ORDER BY v.at_sequence DESC, v.value_key DESC LIMIT 1;

-- name: drop_values_in_tombstones
DELETE FROM run_values
 WHERE source_key IN (SELECT s.value_key FROM run_values s WHERE s.run_key = :run_key)
   AND run_key IN (SELECT r.run_key FROM runs r WHERE r.erased = 1);

-- name: keep_inherited_values
-- Before a run is deleted, the runs that inherited its values get copies.
UPDATE run_values
   SET value = (SELECT s.value FROM run_values s WHERE s.value_key = run_values.source_key), source_key = NULL
 WHERE source_key IN (SELECT s.value_key FROM run_values s WHERE s.run_key = :run_key);
