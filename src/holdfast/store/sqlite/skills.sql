-- name: lock_skill
-- There is one writer, so no lock is needed.
SELECT k.*, s.id AS space_id FROM skills k JOIN spaces s ON s.space_key = k.space_key WHERE s.id = :space AND k.id = :id;
