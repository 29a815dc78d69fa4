-- The processes that execute runs, and since when a run is leased.
CREATE TABLE workers (
    id                 TEXT NOT NULL PRIMARY KEY,
    host               TEXT NOT NULL,
    pid                INTEGER NOT NULL,
    version            TEXT NOT NULL,
    concurrency        INTEGER NOT NULL,
    lost_leases        INTEGER NOT NULL,
    started_at         INTEGER NOT NULL,
    last_beat_at       INTEGER NOT NULL
);
ALTER TABLE run_heads ADD COLUMN leased_at INTEGER;
