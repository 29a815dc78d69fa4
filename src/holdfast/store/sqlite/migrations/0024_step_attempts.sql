-- Who worked on each attempt of a step, and when a model call sent its first token. Earlier attempts are a list.
ALTER TABLE steps ADD COLUMN worker TEXT;
ALTER TABLE steps ADD COLUMN attempt_started_at INTEGER;
ALTER TABLE steps ADD COLUMN earlier_attempts TEXT;
ALTER TABLE steps ADD COLUMN first_token_at INTEGER;
