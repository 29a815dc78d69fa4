-- Threads and memories of spaces that have a recall index, so that the indexer looks at those only that it has to add.
ALTER TABLE threads ADD COLUMN recalled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE memories ADD COLUMN recalled BIGINT NOT NULL DEFAULT 0;
UPDATE threads SET recalled = 1 WHERE space_key IN (SELECT space_key FROM recall_indexes WHERE active = 1);
UPDATE memories SET recalled = 1 WHERE space_key IN (SELECT space_key FROM recall_indexes WHERE active = 1);
CREATE INDEX threads_recalled ON threads (space_key, thread_key) WHERE recalled = 1;
CREATE INDEX threads_to_recall ON threads (space_key) WHERE recalled = 1 AND indexed_sequence < next_sequence - 1;
CREATE INDEX memories_to_recall ON memories (space_key) WHERE recalled = 1 AND indexed_version < version;

-- Whether an index has taken what was there before it; until then, not all of that is marked.
ALTER TABLE recall_indexes ADD COLUMN caught_up BIGINT NOT NULL DEFAULT 0;
CREATE INDEX recall_indexes_by_state ON recall_indexes (active, caught_up, space_key);
