-- name: add_agent_file
INSERT INTO agent_files (owner_key, digest, content) VALUES (:owner_key, :digest, :content)
ON CONFLICT (owner_key, digest) DO NOTHING;

-- name: add_agent_version
INSERT INTO agent_versions (owner_key, agent, digest, bundle, published_by, published_at)
VALUES (:owner_key, :agent, :digest, :bundle, :published_by, :now)
ON CONFLICT (owner_key, agent, digest) DO NOTHING;

-- name: publish_agent_version
-- No row: the version was published last already, and stays active or not.
INSERT INTO agent_heads (owner_key, agent, published, active, changed_by, changed_at)
VALUES (:owner_key, :agent, :digest, :digest, :changed_by, :now)
ON CONFLICT (owner_key, agent) DO UPDATE
   SET published = :digest, active = :digest, changed_by = :changed_by, changed_at = :now, deleted_at = NULL
 WHERE agent_heads.published <> :digest OR agent_heads.deleted_at IS NOT NULL
RETURNING agent;

-- name: create_agent
-- No row: the agent exists.
INSERT INTO agent_heads (owner_key, agent, published, active, changed_by, changed_at)
VALUES (:owner_key, :agent, :digest, :digest, :changed_by, :now)
ON CONFLICT (owner_key, agent) DO UPDATE
   SET published = :digest, active = :digest, changed_by = :changed_by, changed_at = :now, deleted_at = NULL
 WHERE agent_heads.deleted_at IS NOT NULL
RETURNING agent;

-- name: replace_agent
-- No row: another version is active, or the agent was deleted.
UPDATE agent_heads SET published = :digest, active = :digest, changed_by = :changed_by, changed_at = :now
 WHERE owner_key = :owner_key AND agent = :agent AND deleted_at IS NULL
   AND (CAST(:active AS TEXT) IS NULL OR active = :active)
RETURNING agent;

-- name: delete_agent
-- No row: another version is active, or the agent was deleted.
UPDATE agent_heads SET deleted_at = :now, changed_by = :changed_by, changed_at = :now
 WHERE owner_key = :owner_key AND agent = :agent AND deleted_at IS NULL
   AND (CAST(:active AS TEXT) IS NULL OR active = :active)
RETURNING agent;

-- name: count_agents
SELECT COUNT(*) AS number FROM agent_heads WHERE owner_key = :owner_key AND deleted_at IS NULL;

-- name: activate_agent_version
UPDATE agent_heads SET active = :digest, changed_by = :changed_by, changed_at = :now
 WHERE owner_key = :owner_key AND agent = :agent AND active <> :digest AND deleted_at IS NULL;

-- name: agent_head
SELECT * FROM agent_heads WHERE owner_key = :owner_key AND agent = :agent AND deleted_at IS NULL;

-- name: agent_heads
SELECT * FROM agent_heads WHERE owner_key = :owner_key AND deleted_at IS NULL ORDER BY agent;

-- name: find_agent_versions
-- The versions whose digests begin with a prefix: a longer text begins with it if it is below the prefix and a `g`.
SELECT * FROM agent_versions
 WHERE owner_key = :owner_key AND agent = :agent AND digest >= :prefix AND digest < :prefix || 'g'
 ORDER BY digest LIMIT 2;

-- name: list_agent_versions
SELECT * FROM agent_versions
 WHERE owner_key = :owner_key AND agent = :agent AND version_key < :before
 ORDER BY version_key DESC LIMIT :limit;

-- name: agent_file
SELECT content FROM agent_files WHERE owner_key = :owner_key AND digest = :digest;

-- name: drop_agent_heads_of_space
DELETE FROM agent_heads WHERE owner_key = :space_key;

-- name: drop_agent_versions_of_space
DELETE FROM agent_versions WHERE owner_key = :space_key;

-- name: drop_agent_files_of_space
DELETE FROM agent_files WHERE owner_key = :space_key;
