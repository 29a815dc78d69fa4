-- Requests with an idempotency key that create something other than a run, and their results.
CREATE TABLE keyed_requests (
    space_key          BIGINT NOT NULL,
    operation          TEXT NOT NULL,
    key                TEXT NOT NULL,
    digest             TEXT NOT NULL,
    result             JSON,             -- null only inside the transaction that takes the key
    created_at         BIGINT NOT NULL,
    UNIQUE (space_key, operation, key)
);
