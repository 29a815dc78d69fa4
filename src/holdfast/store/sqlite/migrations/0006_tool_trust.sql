-- What tools of others said of themselves when they were trusted.
CREATE TABLE tool_trust (
    space_key  INTEGER NOT NULL,
    source     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (space_key, source, tool)
);
