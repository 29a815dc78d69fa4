-- name: add_api_key
INSERT INTO api_keys (id, name, scope, secret_hash, created_by, created_at, expires_at)
VALUES (:id, :name, :scope, :secret_hash, :created_by, :now, :expires_at)
ON CONFLICT (secret_hash) DO NOTHING
RETURNING *;

-- name: bind_api_key
INSERT INTO api_key_spaces (api_key, space_key) VALUES (:api_key, :space_key);

-- name: api_key_by_hash
SELECT * FROM api_keys WHERE secret_hash = :secret_hash;

-- name: api_keys_of_space
SELECT k.* FROM api_keys k JOIN api_key_spaces b ON b.api_key = k.api_key JOIN spaces s ON s.space_key = b.space_key
 WHERE s.id = :space
 ORDER BY k.api_key;

-- name: api_key
SELECT k.* FROM api_keys k JOIN api_key_spaces b ON b.api_key = k.api_key JOIN spaces s ON s.space_key = b.space_key
 WHERE s.id = :space AND k.id = :id;

-- name: spaces_of_api_key
SELECT s.id FROM api_key_spaces b JOIN spaces s ON s.space_key = b.space_key WHERE b.api_key = :api_key ORDER BY s.space_key;

-- name: revoke_api_key
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, :now) WHERE api_key = :api_key RETURNING *;
