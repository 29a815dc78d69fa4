-- Whether bytes of forgotten texts may still be in the file.
ALTER TABLE memory_spaces ADD COLUMN scrub BIGINT NOT NULL DEFAULT 0;
