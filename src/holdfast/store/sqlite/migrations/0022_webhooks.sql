-- Where events of a space are posted to. The secret signs them.
CREATE TABLE webhooks (
    webhook_key        INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    url                TEXT NOT NULL,
    events             TEXT NOT NULL,
    description        TEXT,
    secret             TEXT NOT NULL,
    state              TEXT NOT NULL,
    state_reason       TEXT,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (space_key, id)
);

-- One event for one webhook. Those with the same `subject` are sent one after the other.
CREATE TABLE deliveries (
    delivery_key       INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_key        INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    event              TEXT NOT NULL,
    run_id             TEXT,
    subject            TEXT NOT NULL,
    payload            TEXT NOT NULL,
    state              TEXT NOT NULL,
    attempts           INTEGER NOT NULL DEFAULT 0,
    first_attempt_at   INTEGER,
    due_at             INTEGER,
    claim_number       INTEGER NOT NULL DEFAULT 0,
    claim_expires_at   INTEGER,
    last_status        INTEGER,
    last_error         TEXT,
    created_at         INTEGER NOT NULL,
    delivered_at       INTEGER,
    UNIQUE (webhook_key, id)
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'pending';
CREATE INDEX deliveries_in_order ON deliveries (webhook_key, subject, delivery_key) WHERE state = 'pending';
CREATE INDEX deliveries_listed ON deliveries (webhook_key, delivery_key);
