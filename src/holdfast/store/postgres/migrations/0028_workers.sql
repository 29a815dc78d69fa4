-- The processes that execute runs, and since when a run is leased.
CREATE TABLE workers (
    id                 TEXT NOT NULL PRIMARY KEY,
    host               TEXT NOT NULL,
    pid                BIGINT NOT NULL,
    version            TEXT NOT NULL,
    concurrency        BIGINT NOT NULL,
    lost_leases        BIGINT NOT NULL,
    started_at         BIGINT NOT NULL,
    last_beat_at       BIGINT NOT NULL
);
ALTER TABLE run_heads ADD COLUMN leased_at BIGINT;
