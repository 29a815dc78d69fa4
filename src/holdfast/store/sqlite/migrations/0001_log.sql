-- Times are milliseconds since 1970, JSON is text. Rows of a run are written only under its lock and removed with it,
-- so the hot tables carry no foreign keys. AUTOINCREMENT: a key is never used again.

CREATE TABLE spaces (
    space_key          INTEGER PRIMARY KEY AUTOINCREMENT,
    id                 TEXT NOT NULL UNIQUE,
    name               TEXT NOT NULL,
    metadata           TEXT NOT NULL,
    last_notification  INTEGER NOT NULL DEFAULT 0,
    created_at         INTEGER NOT NULL
);

CREATE TABLE threads (
    thread_key         INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    title              TEXT,
    folded_title       TEXT,              -- as it is searched, whatever its case and the locale of the database
    agent_type         TEXT NOT NULL,
    status             TEXT NOT NULL,
    locale             TEXT,
    summary            TEXT,
    key_points         TEXT NOT NULL DEFAULT '[]',
    retrieval_index    TEXT,
    indexed_sequence   INTEGER NOT NULL DEFAULT -1,
    context_window     INTEGER NOT NULL,
    metadata           TEXT NOT NULL,
    next_sequence      INTEGER NOT NULL DEFAULT 0,
    last_run_at        INTEGER,
    listed_at          INTEGER NOT NULL,  -- last_run_at, or created_at while there is no run
    made_for_run       INTEGER,           -- the run it was made with, and goes with
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE INDEX threads_by_latest_run ON threads (space_key, listed_at, thread_key);

-- Every id ever used for a run, with its key, also of those that are gone.
CREATE TABLE run_ids (
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    run_key            INTEGER NOT NULL,
    UNIQUE (space_key, id)
);

CREATE TABLE idempotency_keys (
    space_key          INTEGER NOT NULL,
    key                TEXT NOT NULL,
    digest             TEXT NOT NULL,
    run_key            INTEGER,           -- null: the run was deleted
    UNIQUE (space_key, key)
);
CREATE INDEX idempotency_keys_of_run ON idempotency_keys (run_key);

CREATE TABLE runs (
    run_key            INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    thread_key         INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    mode               TEXT NOT NULL,
    agent_type         TEXT NOT NULL,
    model              TEXT,
    base_key           INTEGER,
    base_sequence      INTEGER,
    chain_depth        INTEGER NOT NULL,
    jump_key           INTEGER,           -- an ancestor further up: see domain/lineage.py
    parent_key         INTEGER,
    root_key           INTEGER,           -- null: itself
    nesting            INTEGER NOT NULL,
    input              TEXT,
    output             TEXT,
    error              TEXT,
    input_tokens       INTEGER NOT NULL DEFAULT 0,
    output_tokens      INTEGER NOT NULL DEFAULT 0,
    cached_input_tokens INTEGER NOT NULL DEFAULT 0,
    cost_nanodollars   INTEGER DEFAULT 0, -- null: a part of it is unknown
    iterations         INTEGER NOT NULL DEFAULT 0,
    priority           TEXT NOT NULL,
    tags               TEXT NOT NULL,
    limits             TEXT NOT NULL,
    idempotency_key    TEXT,
    erased             INTEGER NOT NULL DEFAULT 0,
    created_by         TEXT,
    cancelled_by       TEXT,
    created_at         INTEGER NOT NULL,
    completed_at       INTEGER
);
CREATE INDEX runs_of_space ON runs (space_key, run_key);
CREATE INDEX runs_of_thread ON runs (thread_key, run_key);
CREATE INDEX runs_on_base ON runs (base_key) WHERE base_key IS NOT NULL;
CREATE INDEX runs_of_parent ON runs (parent_key) WHERE parent_key IS NOT NULL;
CREATE INDEX runs_of_root ON runs (root_key) WHERE root_key IS NOT NULL;

-- What moves of a run, in one narrow row: the row that is locked to change it.
CREATE TABLE run_heads (
    run_key            INTEGER PRIMARY KEY,
    status             TEXT NOT NULL,
    status_reason      TEXT,
    head_start         INTEGER NOT NULL,
    queue_key          INTEGER NOT NULL DEFAULT 0,
    queued_at          INTEGER,
    wait_until         INTEGER,
    started_at         INTEGER,
    session_id         TEXT,
    attempt            INTEGER NOT NULL DEFAULT 0,
    lease_owner        TEXT,
    lease_number       INTEGER NOT NULL DEFAULT 0,
    lease_expires_at   INTEGER,
    last_event_seq     INTEGER NOT NULL,
    last_inbox_number  INTEGER NOT NULL DEFAULT 0,
    unread             INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX run_heads_ready ON run_heads (queue_key) WHERE status = 'queued' AND wait_until IS NULL;
CREATE INDEX run_heads_delayed ON run_heads (wait_until) WHERE status = 'queued' AND wait_until IS NOT NULL;
CREATE INDEX run_heads_leased ON run_heads (lease_expires_at) WHERE lease_owner IS NOT NULL;

CREATE TABLE messages (
    message_key        INTEGER PRIMARY KEY,
    thread_key         INTEGER NOT NULL,
    run_key            INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    sequence           INTEGER,           -- null: it has not entered the conversation
    role               TEXT NOT NULL,
    content            TEXT NOT NULL,
    tool_calls         TEXT,
    tool_call_id       TEXT,
    revises            TEXT,
    metadata           TEXT NOT NULL,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (thread_key, id, run_key),
    UNIQUE (thread_key, sequence)
);
CREATE INDEX messages_of_run ON messages (run_key, sequence);

CREATE TABLE events (
    event_key          INTEGER PRIMARY KEY,
    run_key            INTEGER NOT NULL,
    seq                INTEGER NOT NULL,
    type               TEXT NOT NULL,
    data               TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    UNIQUE (run_key, seq)
);

CREATE TABLE steps (
    step_key           INTEGER PRIMARY KEY,
    run_key            INTEGER NOT NULL,
    number             INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    name               TEXT NOT NULL,
    key                TEXT NOT NULL,
    state              TEXT NOT NULL,
    attempt            INTEGER NOT NULL,
    tool_call_id       TEXT,
    effectful          INTEGER NOT NULL,
    request_digest     TEXT,
    usage              TEXT,
    started_at         INTEGER NOT NULL,
    settled_at         INTEGER,
    UNIQUE (run_key, number)
);

-- A value is valid from a sequence on; one that came with the base names its source.
CREATE TABLE run_values (
    value_key          INTEGER PRIMARY KEY,
    run_key            INTEGER NOT NULL,
    name               TEXT NOT NULL,
    at_sequence        INTEGER NOT NULL,
    value              TEXT,
    source_key         INTEGER
);
CREATE INDEX run_values_of_run ON run_values (run_key, name, at_sequence);
CREATE INDEX run_values_of_source ON run_values (source_key) WHERE source_key IS NOT NULL;

CREATE TABLE inbox (
    item_key           INTEGER PRIMARY KEY,
    run_key            INTEGER NOT NULL,
    number             INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    data               TEXT NOT NULL,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (run_key, number)
);

CREATE TABLE interrupts (
    interrupt_key      INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    run_key            INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    kind               TEXT NOT NULL,
    status             TEXT NOT NULL,
    message            TEXT,
    tool_call_id       TEXT,
    arguments          TEXT,
    digest             TEXT,
    response_schema    TEXT,
    default_outcome    TEXT,
    metadata           TEXT NOT NULL,
    response           TEXT,
    answered_by        TEXT,
    answered_at        INTEGER,
    expires_at         INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE INDEX interrupts_of_run ON interrupts (run_key);
CREATE INDEX interrupts_open ON interrupts (space_key, interrupt_key) WHERE status = 'open';

CREATE TABLE artifacts (
    artifact_key       INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    run_key            INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    version            INTEGER NOT NULL,
    type               TEXT NOT NULL,
    title              TEXT NOT NULL,
    content            TEXT,
    file_key           INTEGER,
    media_type         TEXT NOT NULL,
    digest             TEXT NOT NULL,
    size               INTEGER NOT NULL,
    metadata           TEXT NOT NULL,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, id, version)
);
CREATE INDEX artifacts_of_run ON artifacts (run_key, artifact_key);
CREATE INDEX artifacts_of_file ON artifacts (file_key) WHERE file_key IS NOT NULL;

CREATE TABLE blobs (
    blob_key           INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    digest             TEXT NOT NULL,
    size               INTEGER NOT NULL,
    content            BLOB NOT NULL,
    UNIQUE (space_key, digest)
);

CREATE TABLE files (
    file_key           INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    blob_key           INTEGER NOT NULL,
    name               TEXT NOT NULL,
    media_type         TEXT NOT NULL,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE INDEX files_of_blob ON files (blob_key);

CREATE TABLE timers (
    timer_key          INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    run_key            INTEGER,
    id                 TEXT NOT NULL,
    kind               TEXT NOT NULL,
    due_at             INTEGER NOT NULL,
    data               TEXT,
    state              TEXT NOT NULL,
    claim_owner        TEXT,
    claim_number       INTEGER NOT NULL DEFAULT 0,
    claim_expires_at   INTEGER,
    fired_at           INTEGER,
    created_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE INDEX timers_due ON timers (due_at) WHERE state = 'scheduled';
CREATE INDEX timers_of_run ON timers (run_key) WHERE run_key IS NOT NULL;

CREATE TABLE api_keys (
    api_key            INTEGER PRIMARY KEY AUTOINCREMENT,
    id                 TEXT NOT NULL UNIQUE,
    name               TEXT NOT NULL,
    scope              TEXT NOT NULL,
    secret_hash        BLOB NOT NULL UNIQUE,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    expires_at         INTEGER,
    revoked_at         INTEGER
);

CREATE TABLE api_key_spaces (
    api_key            INTEGER NOT NULL,
    space_key          INTEGER NOT NULL,
    PRIMARY KEY (api_key, space_key)
);
CREATE INDEX api_key_spaces_of_space ON api_key_spaces (space_key);

-- News are written here with what they tell of, and numbered later by the dispatcher.
CREATE TABLE outbox (
    outbox_key         INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    run_id             TEXT,
    thread_id          TEXT,
    data               TEXT,
    created_at         INTEGER NOT NULL
);

CREATE TABLE notifications (
    space_key          INTEGER NOT NULL,
    number             INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    run_id             TEXT,
    thread_id          TEXT,
    data               TEXT,
    created_at         INTEGER NOT NULL,
    read_at            INTEGER,
    UNIQUE (space_key, number)
);
CREATE INDEX notifications_unread ON notifications (space_key, number) WHERE read_at IS NULL;

-- A run as it is read: everything but tombstones.
CREATE VIEW run_view AS
SELECT r.run_key, r.space_key, r.thread_key, r.base_key, r.parent_key, r.root_key, r.nesting, h.head_start, h.lease_owner,
       r.id, t.id AS thread_id, s.id AS space_id, r.mode, r.agent_type, r.model, h.status, h.status_reason,
       b.id AS base_run_id, r.base_sequence, p.id AS parent_run_id, COALESCE(o.id, r.id) AS root_run_id,
       COALESCE(ot.id, t.id) AS root_thread_id, CASE WHEN r.parent_key IS NULL THEN NULL ELSE t.id END AS child_thread_id,
       h.session_id, r.input, r.output, r.error, r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cost_nanodollars,
       r.priority, r.tags, r.limits, r.iterations, h.attempt, h.wait_until, r.idempotency_key, h.last_event_seq,
       r.created_by, r.cancelled_by, r.created_at, h.queued_at, h.started_at, r.completed_at
  FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  JOIN spaces s ON s.space_key = r.space_key
  LEFT JOIN runs b ON b.run_key = r.base_key
  LEFT JOIN runs p ON p.run_key = r.parent_key
  LEFT JOIN runs o ON o.run_key = r.root_key
  LEFT JOIN threads ot ON ot.thread_key = o.thread_key
 WHERE r.erased = 0;
