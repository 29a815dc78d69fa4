-- The index of recall: one that is searched per space, and one that is built beside it while it is rebuilt.
CREATE TABLE recall_indexes (
    index_key          INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    active             INTEGER NOT NULL,  -- 1: searched; 0: being built; negative: replaced, its rows are being dropped
    analyser           TEXT NOT NULL,
    embedder           TEXT,              -- null: without vectors
    next_seq           INTEGER NOT NULL DEFAULT 1,
    items              INTEGER NOT NULL DEFAULT 0,
    length             INTEGER NOT NULL DEFAULT 0,
    epoch              INTEGER NOT NULL DEFAULT 0,  -- grows when items are removed
    UNIQUE (space_key, active)
);

-- A passage of a message, memory or document. Its text stays where it is.
CREATE TABLE recall_items (
    index_key          INTEGER NOT NULL,
    seq                INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    source_key         INTEGER NOT NULL,  -- the message, memory or document
    position           INTEGER NOT NULL,  -- sequence of the message; version of the memory or document
    thread_key         INTEGER,
    passage            INTEGER NOT NULL,
    start              INTEGER NOT NULL,
    chars              INTEGER NOT NULL,
    role               TEXT,
    speaker            TEXT,
    at                 INTEGER NOT NULL,
    status             TEXT,
    importance         REAL,
    expires_at         INTEGER,
    revises            TEXT,              -- keys of the messages that this one revises, as JSON
    length             INTEGER NOT NULL,  -- terms of the passage
    terms              BLOB NOT NULL,     -- keys of its terms, so that its postings can be removed without its text
    tokens             BLOB NOT NULL,
    vector             BLOB,
    PRIMARY KEY (index_key, seq)
) WITHOUT ROWID;
CREATE INDEX recall_items_of_source ON recall_items (source_key, kind, index_key);

CREATE TABLE recall_terms (
    term_key           INTEGER PRIMARY KEY AUTOINCREMENT,
    index_key          INTEGER NOT NULL,
    term               TEXT NOT NULL,
    df                 INTEGER NOT NULL,
    UNIQUE (index_key, term)
);

CREATE TABLE recall_postings (
    term_key           INTEGER NOT NULL,
    seq                INTEGER NOT NULL,
    tf                 INTEGER NOT NULL,
    length             INTEGER NOT NULL,
    PRIMARY KEY (term_key, seq)
) WITHOUT ROWID;

-- How far an index that is being built has come. The cursors of the active one are in threads, memories and documents.
CREATE TABLE recall_cursors (
    index_key          INTEGER NOT NULL,
    kind               TEXT NOT NULL,
    source_key         INTEGER NOT NULL,
    position           INTEGER NOT NULL,
    PRIMARY KEY (index_key, kind, source_key)
) WITHOUT ROWID;

-- Texts that are only searched, such as memory files.
CREATE TABLE recall_documents (
    document_key       INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    text               TEXT NOT NULL,
    at                 INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    indexed_version    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (space_key, id)
);
CREATE INDEX recall_documents_to_index ON recall_documents (space_key, document_key) WHERE indexed_version < version;

ALTER TABLE memories ADD COLUMN indexed_version INTEGER NOT NULL DEFAULT 0;
CREATE INDEX memories_to_index ON memories (space_key, memory_key) WHERE indexed_version < version;
CREATE INDEX threads_to_index ON threads (space_key, thread_key) WHERE indexed_sequence < next_sequence - 1;
