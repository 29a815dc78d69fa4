-- What someone wants to be told again. The schedule and the timer of a reminder have the same id.
CREATE TABLE reminders (
    reminder_key       INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    content            TEXT NOT NULL,
    context            TEXT,
    trigger_type       TEXT NOT NULL,
    trigger_value      TEXT,
    timezone           TEXT,
    priority           INTEGER NOT NULL,
    status             TEXT NOT NULL,
    recurrence         TEXT,
    action             TEXT,
    thread_id          TEXT,
    owner              TEXT,
    run_id             TEXT,
    taint              TEXT NOT NULL,
    snoozed_until      INTEGER,
    triggered_at       INTEGER,
    trigger_reason     TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE INDEX reminders_listed ON reminders (space_key, priority, reminder_key);
CREATE INDEX reminders_triggered ON reminders (space_key, priority, reminder_key) WHERE status = 'triggered';

-- The conditions of reminders. An armed one is found by event, agent and thread; '' stands for any.
CREATE TABLE conditions (
    reminder_key       INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    event              TEXT NOT NULL,
    agent              TEXT NOT NULL,
    thread_id          TEXT NOT NULL,
    spec               TEXT NOT NULL,
    armed              INTEGER NOT NULL,
    armed_at           INTEGER NOT NULL,
    matches            TEXT NOT NULL,
    met_at             INTEGER,
    reason             TEXT
);
CREATE INDEX conditions_armed ON conditions (space_key, event, agent, thread_id) WHERE armed = 1;
CREATE INDEX conditions_met ON conditions (space_key) WHERE met_at IS NOT NULL;

-- The terms of what a context is about.
CREATE TABLE reminder_terms (
    space_key          INTEGER NOT NULL,
    term               TEXT NOT NULL,
    reminder_key       INTEGER NOT NULL,
    PRIMARY KEY (space_key, term, reminder_key)
) WITHOUT ROWID;
CREATE INDEX terms_of_reminder ON reminder_terms (reminder_key);
