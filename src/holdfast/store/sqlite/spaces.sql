-- name: lock_space_shared
-- There is one writer, so no lock is needed.
SELECT * FROM spaces WHERE id = :id;

-- name: lock_space
SELECT * FROM spaces WHERE id = :id;
