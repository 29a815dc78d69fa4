-- Keys for every space, and how often each may ask.
ALTER TABLE api_keys ADD COLUMN every_space BIGINT NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN rate_limit TEXT;
