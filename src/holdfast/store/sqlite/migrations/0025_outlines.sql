-- The outline of a thread: how far it goes, and the title that it gave the thread.
ALTER TABLE threads ADD COLUMN outlined_sequence INTEGER NOT NULL DEFAULT -1;
ALTER TABLE threads ADD COLUMN outline_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN derived_title TEXT;
CREATE INDEX threads_to_outline ON threads (thread_key) WHERE outlined_sequence < indexed_sequence;
