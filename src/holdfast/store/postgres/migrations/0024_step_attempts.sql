-- Who worked on each attempt of a step, and when a model call sent its first token. Earlier attempts are a list.
ALTER TABLE steps ADD COLUMN worker TEXT;
ALTER TABLE steps ADD COLUMN attempt_started_at BIGINT;
ALTER TABLE steps ADD COLUMN earlier_attempts JSON;
ALTER TABLE steps ADD COLUMN first_token_at BIGINT;

CREATE FUNCTION holdfast_has_all(list JSON, items JSON) RETURNS BOOLEAN LANGUAGE SQL IMMUTABLE
    RETURN list::JSONB @> items::JSONB;
