-- name: events_after
SELECT seq, type, data, created_at FROM events
 WHERE run_key = :run_key AND seq > :seq
 ORDER BY seq
 LIMIT :limit;

-- name: events_of_types_after
SELECT seq, type, data, created_at FROM events
 WHERE run_key = :run_key AND seq > :seq AND holdfast_has(:types, type)
 ORDER BY seq
 LIMIT :limit;
