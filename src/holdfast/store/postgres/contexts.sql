-- name: add_contexts
-- A repeated call replaces the context of the first one.
INSERT INTO contexts (run_key, step, snapshot)
SELECT * FROM unnest(:run_key::BIGINT[], :step::BIGINT[], :snapshot::JSON[])
ON CONFLICT (run_key, step) DO UPDATE SET snapshot = excluded.snapshot;

-- name: add_texts
INSERT INTO texts (space_key, digest, content)
SELECT * FROM unnest(:space_key::BIGINT[], :digest::TEXT[], :content::TEXT[])
ON CONFLICT DO NOTHING;
