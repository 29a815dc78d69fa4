-- name: check_write
INSERT INTO write_check (write_check_key, data, checked_at) VALUES (1, :data, :now)
ON CONFLICT (write_check_key) DO UPDATE SET data = excluded.data, checked_at = excluded.checked_at;
