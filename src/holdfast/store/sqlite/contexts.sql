-- name: add_contexts
-- A repeated call replaces the context of the first one.
INSERT INTO contexts (run_key, step, snapshot) VALUES (:run_key, :step, :snapshot)
ON CONFLICT (run_key, step) DO UPDATE SET snapshot = excluded.snapshot;

-- name: add_texts
INSERT INTO texts (space_key, digest, content) VALUES (:space_key, :digest, :content) ON CONFLICT DO NOTHING;
