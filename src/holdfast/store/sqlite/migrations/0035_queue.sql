-- A run waits in a pool of its space. A claim goes round the spaces that wait, so the index begins with these two.
ALTER TABLE run_heads ADD COLUMN space_key INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_heads ADD COLUMN pool TEXT NOT NULL DEFAULT 'default';
UPDATE run_heads SET space_key = (SELECT r.space_key FROM runs r WHERE r.run_key = run_heads.run_key)
 WHERE EXISTS (SELECT 1 FROM runs r WHERE r.run_key = run_heads.run_key);
DROP INDEX run_heads_ready;
CREATE INDEX run_heads_ready ON run_heads (pool, space_key, queue_key, run_key) WHERE status = 'queued' AND wait_until IS NULL;
CREATE INDEX run_heads_running ON run_heads (space_key) WHERE status = 'running';

-- How a space shares the workers with others; without a row it has the weight 1 and no limit.
CREATE TABLE space_queues (
    space_key          INTEGER NOT NULL PRIMARY KEY,
    weight             INTEGER NOT NULL,
    max_running        INTEGER
);

-- The pools of a worker key; empty: every pool. The pools that a worker claims from, and the key that it called with.
ALTER TABLE api_keys ADD COLUMN pools TEXT NOT NULL DEFAULT '[]';
ALTER TABLE workers ADD COLUMN pools TEXT NOT NULL DEFAULT '["default"]';
ALTER TABLE workers ADD COLUMN api_key TEXT;
