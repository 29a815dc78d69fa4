-- name: lock_skill
SELECT k.*, s.id AS space_id FROM skills k JOIN spaces s ON s.space_key = k.space_key WHERE s.id = :space AND k.id = :id
   FOR UPDATE OF k;
