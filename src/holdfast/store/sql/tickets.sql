-- name: add_ticket
INSERT INTO tickets (secret_hash, path, api_key_id, principal, expires_at)
VALUES (:secret_hash, :path, :api_key_id, :principal, :expires_at);

-- name: ticket
SELECT * FROM tickets WHERE secret_hash = :secret_hash;

-- name: drop_expired_tickets
DELETE FROM tickets WHERE expires_at < :now;
