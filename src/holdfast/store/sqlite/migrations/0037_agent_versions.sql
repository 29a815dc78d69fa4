-- Published versions of agents. The owner is a space, or 0 for the agents of the workspace.
CREATE TABLE agent_versions (
    version_key        INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_key          INTEGER NOT NULL,
    agent              TEXT NOT NULL,
    digest             TEXT NOT NULL,
    bundle             TEXT NOT NULL,
    published_by       TEXT,
    published_at       INTEGER NOT NULL,
    UNIQUE (owner_key, agent, digest)
);

-- The files of versions, by digest: versions with the same file share it.
CREATE TABLE agent_files (
    owner_key          INTEGER NOT NULL,
    digest             TEXT NOT NULL,
    content            BLOB NOT NULL,
    PRIMARY KEY (owner_key, digest)
);

-- The version of each agent that new runs get.
CREATE TABLE agent_heads (
    owner_key          INTEGER NOT NULL,
    agent              TEXT NOT NULL,
    published          TEXT NOT NULL,
    active             TEXT NOT NULL,
    changed_by         TEXT,
    changed_at         INTEGER NOT NULL,
    PRIMARY KEY (owner_key, agent)
);

-- The version that a run is executed from; null if it was created before there were versions.
ALTER TABLE runs ADD COLUMN agent_version TEXT;

DROP VIEW run_view;

CREATE VIEW run_view AS
SELECT r.run_key, r.space_key, r.thread_key, r.base_key, r.parent_key, r.root_key, r.nesting, h.head_start,
       h.lease_owner, r.id, t.id AS thread_id, s.id AS space_id, r.mode, r.agent_type, r.model, h.status,
       h.status_reason,
       (SELECT b.id FROM runs b WHERE b.run_key = r.base_key) AS base_run_id, r.base_sequence,
       (SELECT p.id FROM runs p WHERE p.run_key = r.parent_key) AS parent_run_id,
       COALESCE((SELECT o.id FROM runs o WHERE o.run_key = r.root_key), r.id) AS root_run_id,
       COALESCE((SELECT ot.id FROM runs o JOIN threads ot ON ot.thread_key = o.thread_key WHERE o.run_key = r.root_key),
                t.id) AS root_thread_id,
       CASE WHEN r.parent_key IS NULL THEN NULL ELSE t.id END AS child_thread_id,
       h.session_id, r.input, r.output, r.error, r.input_tokens, r.output_tokens, r.cached_input_tokens,
       r.cost_nanodollars, r.priority, r.tags, r.limits, r.iterations, h.attempt, h.wait_until, r.idempotency_key,
       h.last_event_seq, r.created_by, r.cancelled_by, r.created_at, h.queued_at, h.started_at, r.completed_at,
       (SELECT n.name FROM steps n WHERE n.run_key = r.run_key AND n.kind = 'model' AND n.state = 'done'
         ORDER BY n.number DESC LIMIT 1) AS model_used,
       r.output_schema, r.agent_version
  FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  JOIN threads t ON t.thread_key = r.thread_key
  JOIN spaces s ON s.space_key = r.space_key
 WHERE r.erased = 0;
