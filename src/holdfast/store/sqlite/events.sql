-- name: heads_of
SELECT s.id AS space_id, r.id, h.status, h.last_event_seq
  FROM spaces s
  JOIN run_ids i ON i.space_key = s.space_key
  JOIN runs r ON r.run_key = i.run_key AND r.erased = 0
  JOIN run_heads h ON h.run_key = r.run_key
 WHERE s.id = :space AND i.id = :id;

-- name: events_of_types_after
SELECT seq, type, data, created_at FROM events
 WHERE run_key = :run_key AND seq > :seq AND type IN (SELECT value FROM json_each(:types))
 ORDER BY seq
 LIMIT :limit;
