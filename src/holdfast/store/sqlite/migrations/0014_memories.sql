-- Memories. Ids of threads, runs and messages are text: a memory outlives what it came from.
CREATE TABLE memories (
    memory_key         INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    key                TEXT,
    type               TEXT NOT NULL,
    text               TEXT NOT NULL,
    digest             TEXT NOT NULL,     -- of the folded text: equal statements share it
    title              TEXT,
    category           TEXT,
    importance         REAL NOT NULL,
    tags               TEXT NOT NULL,
    status             TEXT NOT NULL,
    superseded_by      TEXT,
    supersedes         TEXT NOT NULL,
    standing           INTEGER NOT NULL,
    occurred_from      INTEGER,
    occurred_until     INTEGER,
    valid_from         INTEGER,
    valid_until        INTEGER,
    expires_at         INTEGER,
    happened_at        INTEGER NOT NULL,  -- occurred_from, or created_at: the order of a timeline
    origin             TEXT NOT NULL,
    taint              TEXT NOT NULL,
    author             TEXT,
    agent              TEXT,
    thread_id          TEXT,
    run_id             TEXT,
    sources            TEXT NOT NULL,
    entities           TEXT NOT NULL,
    relations          TEXT NOT NULL,
    version            INTEGER NOT NULL,
    changed_by         TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);
CREATE UNIQUE INDEX memories_by_key ON memories (space_key, key) WHERE key IS NOT NULL;
CREATE INDEX memories_of_space ON memories (space_key, memory_key);
CREATE INDEX memories_by_digest ON memories (space_key, digest);
CREATE INDEX memories_standing ON memories (space_key, memory_key) WHERE standing = 1 AND status = 'active';
CREATE INDEX memories_by_time ON memories (space_key, happened_at);

-- Earlier versions, as JSON.
CREATE TABLE memory_versions (
    memory_key         INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    memory             TEXT NOT NULL,
    changed_by         TEXT,
    changed_at         INTEGER NOT NULL,
    PRIMARY KEY (memory_key, version)
);

CREATE TABLE memory_sources (
    memory_key         INTEGER NOT NULL,
    position           INTEGER NOT NULL,
    space_key          INTEGER NOT NULL,
    thread_id          TEXT NOT NULL,
    message_id         TEXT NOT NULL,
    PRIMARY KEY (memory_key, position)
);
CREATE INDEX memories_of_message ON memory_sources (space_key, message_id);

CREATE TABLE entities (
    entity_key         INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    label              TEXT NOT NULL,
    folded             TEXT NOT NULL,
    kind               TEXT NOT NULL,
    UNIQUE (space_key, folded)
);
CREATE INDEX entities_by_id ON entities (space_key, id);

-- Edges between memories, messages and entities, by their ids; each belongs to the memory that states it.
CREATE TABLE memory_edges (
    edge_key           INTEGER PRIMARY KEY,
    space_key          INTEGER NOT NULL,
    memory_key         INTEGER NOT NULL,
    source             TEXT NOT NULL,
    predicate          TEXT NOT NULL,
    target             TEXT NOT NULL,
    weight             REAL NOT NULL
);
CREATE INDEX memory_edges_from ON memory_edges (space_key, source);
CREATE INDEX memory_edges_to ON memory_edges (space_key, target);
CREATE INDEX memory_edges_of_memory ON memory_edges (memory_key);

-- The row to lock before memories of a space change, so that supersession cannot run into a cycle.
CREATE TABLE memory_spaces (
    space_key          INTEGER PRIMARY KEY,
    changes            INTEGER NOT NULL
);
