-- The deliveries of one webhook are found without reading those of others.
CREATE INDEX deliveries_of_webhook ON deliveries (webhook_key, due_at, delivery_key) WHERE state = 'pending' AND due_at IS NOT NULL;

-- The runs of a schedule are found behind any number of skipped times.
CREATE INDEX firings_with_runs ON firings (schedule_key, firing_key) WHERE run_id IS NOT NULL;
