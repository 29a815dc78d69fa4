-- What tools of others said of themselves when they were trusted.
CREATE TABLE tool_trust (
    space_key  BIGINT NOT NULL,
    source     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    trusted_at BIGINT NOT NULL,
    PRIMARY KEY (space_key, source, tool)
);
