-- name: add_api_key
INSERT INTO api_keys (id, name, scope, secret_hash, every_space, pools, rate_limit, created_by, created_at, expires_at)
VALUES (:id, :name, :scope, :secret_hash, :every_space, :pools, :rate_limit, :created_by, :now, :expires_at)
ON CONFLICT (secret_hash) DO NOTHING
RETURNING *;

-- name: bind_api_key
INSERT INTO api_key_spaces (api_key, space_key) VALUES (:api_key, :space_key);

-- name: any_api_key
SELECT api_key FROM api_keys LIMIT 1;

-- name: api_keys
SELECT * FROM api_keys ORDER BY api_key;

-- name: api_keys_of_space
SELECT k.* FROM api_keys k JOIN api_key_spaces b ON b.api_key = k.api_key JOIN spaces s ON s.space_key = b.space_key
 WHERE s.id = :space
 ORDER BY k.api_key;

-- name: api_key
SELECT * FROM api_keys WHERE id = :id;

-- name: spaces_of_api_key
SELECT s.id FROM api_key_spaces b JOIN spaces s ON s.space_key = b.space_key WHERE b.api_key = :api_key ORDER BY s.space_key;

-- name: revoke_api_key
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, :now) WHERE api_key = :api_key RETURNING *;
