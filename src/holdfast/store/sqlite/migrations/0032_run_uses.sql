-- The memories that were in the prompts of a run, and the skills that were active in it.
CREATE TABLE run_uses (
    space_key          INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    name               TEXT NOT NULL,
    run_key            INTEGER NOT NULL,
    PRIMARY KEY (space_key, kind, name, run_key)
) WITHOUT ROWID;
CREATE INDEX run_uses_by_run ON run_uses (run_key);
