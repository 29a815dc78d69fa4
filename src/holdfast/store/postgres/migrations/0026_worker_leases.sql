-- Leases of workers without a database: the token of each, and the result of its last numbered commit.
CREATE TABLE worker_leases (
    run_key       BIGINT PRIMARY KEY,
    lease_number  BIGINT NOT NULL,
    token_hash    BYTEA NOT NULL,
    api_key       TEXT,
    commit_number BIGINT NOT NULL DEFAULT 0,
    commit_digest BYTEA,
    commit_result TEXT
);
