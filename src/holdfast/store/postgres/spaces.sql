-- name: lock_space_shared
-- Locks the row against deletion until the end of the transaction.
SELECT * FROM spaces WHERE id = :id FOR KEY SHARE;

-- name: lock_space
-- Waits for transactions that hold the shared lock.
SELECT * FROM spaces WHERE id = :id FOR UPDATE;
