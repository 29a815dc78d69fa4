-- name: add_grant
-- A rule that is in force already is not added again.
INSERT INTO grants (space_key, id, agent, rule, run_id, interrupt_id, created_by, created_at)
VALUES (:space_key, :id, :agent, :rule, :run_id, :interrupt_id, :created_by, :now)
ON CONFLICT (space_key, agent, rule) WHERE revoked_at IS NULL DO NOTHING;

-- name: list_grants
SELECT * FROM grants WHERE space_key = :space_key AND grant_key < :before ORDER BY grant_key DESC LIMIT :limit;

-- name: grants_in_force
SELECT agent, rule FROM grants WHERE space_key = :space_key AND revoked_at IS NULL ORDER BY grant_key;

-- name: grant
SELECT g.* FROM grants g JOIN spaces s ON s.space_key = g.space_key WHERE s.id = :space AND g.id = :id;

-- name: revoke_grant
-- A grant that somebody else revoked first keeps who and when.
UPDATE grants SET revoked_by = :by, revoked_at = :now WHERE grant_key = :grant_key AND revoked_at IS NULL RETURNING *;

-- name: drop_grants_of_space
DELETE FROM grants WHERE space_key = :space_key;
