-- Rules that people granted with the response "always". A revoked one is kept for the record.
CREATE TABLE grants (
    grant_key    INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key    INTEGER NOT NULL,
    id           TEXT NOT NULL,
    agent        TEXT NOT NULL,
    rule         TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    interrupt_id TEXT NOT NULL,
    created_by   TEXT,
    created_at   INTEGER NOT NULL,
    revoked_by   TEXT,
    revoked_at   INTEGER,
    UNIQUE (space_key, id)
);
CREATE UNIQUE INDEX grants_in_force ON grants (space_key, agent, rule) WHERE revoked_at IS NULL;
