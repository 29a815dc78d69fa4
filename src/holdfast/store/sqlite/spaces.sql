-- name: lock_space_shared
-- One writer: nobody else deletes it.
SELECT * FROM spaces WHERE id = :id;

-- name: lock_space
SELECT * FROM spaces WHERE id = :id;
