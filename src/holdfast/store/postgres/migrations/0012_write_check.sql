-- One row that the readiness check rewrites, with enough random bytes that a full disk cannot take them in passing.
CREATE TABLE write_check (
    write_check_key    BIGINT NOT NULL PRIMARY KEY,
    data               BYTEA NOT NULL,
    checked_at         BIGINT NOT NULL
);
