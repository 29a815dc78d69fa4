-- What is done when. `due_at` is the next due time, without jitter; the timer with the same id has the time to look.
CREATE TABLE schedules (
    schedule_key       INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    kind               TEXT NOT NULL,
    name               TEXT,
    state              TEXT NOT NULL,
    plan               TEXT NOT NULL,
    due_at             INTEGER,
    thread_id          TEXT,
    last_run_id        TEXT,
    last_outcome       TEXT,
    hook_hash          BLOB UNIQUE,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE UNIQUE INDEX schedules_of_daemons ON schedules (space_key, name) WHERE kind = 'daemon';
CREATE INDEX schedules_listed ON schedules (space_key, kind, schedule_key);

-- What came of each due time.
CREATE TABLE firings (
    firing_key         INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_key       INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    due_at             INTEGER NOT NULL,
    cause              TEXT NOT NULL,
    outcome            TEXT NOT NULL,
    reason             TEXT,
    run_id             TEXT,
    hook_id            TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (schedule_key, hook_id)
);
CREATE INDEX firings_of_schedule ON firings (schedule_key, firing_key);
CREATE UNIQUE INDEX firings_due ON firings (schedule_key, due_at) WHERE cause = 'due';

-- Daemons that a person stopped or started, by agent.
CREATE TABLE daemons (
    space_key          INTEGER NOT NULL,
    agent              TEXT NOT NULL,
    stopped            INTEGER NOT NULL,
    changed_by         TEXT,
    changed_at         INTEGER NOT NULL,
    UNIQUE (space_key, agent)
);
