-- Requests with an idempotency key that create something other than a run, and their results.
CREATE TABLE keyed_requests (
    space_key          INTEGER NOT NULL,
    operation          TEXT NOT NULL,
    key                TEXT NOT NULL,
    digest             TEXT NOT NULL,
    result             TEXT,             -- null only inside the transaction that takes the key
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, operation, key)
);
