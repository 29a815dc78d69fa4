-- How a model call was sent.
ALTER TABLE steps ADD COLUMN lane TEXT;
