-- name: events_after
SELECT seq, type, data, created_at FROM events
 WHERE run_key = :run_key AND seq > :seq
 ORDER BY seq
 LIMIT :limit;
