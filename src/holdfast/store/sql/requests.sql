-- name: keyed_request
SELECT digest, result FROM keyed_requests WHERE space_key = :space_key AND operation = :operation AND key = :key;

-- name: take_request_key
-- Waits for a concurrent transaction that takes the same key. No row: the key was taken.
INSERT INTO keyed_requests (space_key, operation, key, digest, created_at)
VALUES (:space_key, :operation, :key, :digest, :now)
ON CONFLICT (space_key, operation, key) DO NOTHING
RETURNING key;

-- name: settle_request_key
UPDATE keyed_requests SET result = :result WHERE space_key = :space_key AND operation = :operation AND key = :key;

-- name: drop_keyed_requests_of_space
DELETE FROM keyed_requests WHERE space_key = :space_key;
