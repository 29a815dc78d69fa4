-- Snapshots of working folders, for workers without a shared disk.
CREATE TABLE folders (
    folder_key INTEGER PRIMARY KEY,
    space_key  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 0,
    place      TEXT,
    unsaved    INTEGER NOT NULL DEFAULT 0,
    saved_at   INTEGER,
    UNIQUE (space_key, name)
);
CREATE TABLE folder_entries (
    folder_key INTEGER NOT NULL,
    path       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    executable INTEGER NOT NULL,
    target     TEXT NOT NULL,
    blob_key   INTEGER,
    PRIMARY KEY (folder_key, path)
);
CREATE INDEX folder_entries_of_blob ON folder_entries (blob_key) WHERE blob_key IS NOT NULL;
-- Contents that a run holds for its next snapshot.
CREATE TABLE staged_blobs (
    run_key  INTEGER NOT NULL,
    blob_key INTEGER NOT NULL,
    PRIMARY KEY (run_key, blob_key)
);
CREATE INDEX staged_blobs_of_blob ON staged_blobs (blob_key);
-- The worker that used the folder of the run last; others leave the run to it for a moment.
ALTER TABLE run_heads ADD COLUMN preferred_owner TEXT;
