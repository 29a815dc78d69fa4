-- Leases of workers without a database: the token of each, and the result of its last numbered commit.
CREATE TABLE worker_leases (
    run_key       INTEGER PRIMARY KEY,
    lease_number  INTEGER NOT NULL,
    token_hash    BLOB NOT NULL,
    api_key       TEXT,
    commit_number INTEGER NOT NULL DEFAULT 0,
    commit_digest BLOB,
    commit_result TEXT
);
