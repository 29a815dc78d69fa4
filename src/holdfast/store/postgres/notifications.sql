-- name: add_to_outbox
INSERT INTO outbox (space_key, kind, run_id, thread_id, data, created_at)
SELECT * FROM unnest(:space_key::BIGINT[], :kind::TEXT[], :run_id::TEXT[], :thread_id::TEXT[], :data::JSON[], :now::BIGINT[]);

-- name: lock_outbox
-- One dispatcher at a time, so that numbers become visible in their order.
SELECT pg_advisory_xact_lock(hashtext('holdfast.outbox'));
