-- Instructions that people said and nobody has accepted yet: each run reads those of its author.
CREATE INDEX memories_standing_proposed ON memories (space_key, memory_key) WHERE standing = 1 AND status = 'proposed';
