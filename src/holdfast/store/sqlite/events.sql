-- name: heads_of
-- SQLite reads the left side of a CROSS JOIN first, row by row, without a temporary table.
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT s.id AS space_id, r.id, h.status, h.last_event_seq
  FROM wanted w
  CROSS JOIN spaces s ON s.id = w.space
  JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
  JOIN runs r ON r.run_key = i.run_key AND r.erased = 0
  JOIN run_heads h ON h.run_key = r.run_key;

-- name: events_of_types_after
SELECT seq, type, data, created_at FROM events
 WHERE run_key = :run_key AND seq > :seq AND type IN (SELECT value FROM json_each(:types))
 ORDER BY seq
 LIMIT :limit;
