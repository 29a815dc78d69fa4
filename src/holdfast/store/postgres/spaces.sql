-- name: lock_space_shared
-- Until the end of this transaction nobody deletes it.
SELECT * FROM spaces WHERE id = :id FOR KEY SHARE;

-- name: lock_space
-- Waits for those who hold it.
SELECT * FROM spaces WHERE id = :id FOR UPDATE;
