-- The requests of one author are found behind any number of others.
DROP INDEX memories_standing_proposed;
CREATE INDEX memories_requested ON memories (space_key, (COALESCE(author, '')), memory_key) WHERE standing = 1 AND status = 'proposed';
