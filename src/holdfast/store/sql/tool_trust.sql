-- name: trusted_tools
SELECT t.tool, t.digest FROM tool_trust t JOIN spaces s ON s.space_key = t.space_key
 WHERE s.id = :space AND t.source = :source;

-- name: trust_new_tool
-- The first digest wins.
INSERT INTO tool_trust (space_key, source, tool, digest, trusted_at)
VALUES (:space_key, :source, :tool, :digest, :now)
ON CONFLICT (space_key, source, tool) DO NOTHING;

-- name: trust_tool
INSERT INTO tool_trust (space_key, source, tool, digest, trusted_at)
VALUES (:space_key, :source, :tool, :digest, :now)
ON CONFLICT (space_key, source, tool) DO UPDATE SET digest = excluded.digest, trusted_at = excluded.trusted_at;
