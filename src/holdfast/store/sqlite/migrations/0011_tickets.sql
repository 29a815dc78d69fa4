-- Tickets for streams, by the hash of their secret. They are few: a new one removes those that have expired.
CREATE TABLE tickets (
    secret_hash        BLOB NOT NULL PRIMARY KEY,
    path               TEXT NOT NULL,
    api_key_id         TEXT,
    principal          TEXT NOT NULL,
    expires_at         INTEGER NOT NULL
);
CREATE INDEX tickets_by_expiry ON tickets (expires_at);
