-- name: add_to_outbox
INSERT INTO outbox (space_key, kind, run_id, thread_id, data, created_at)
SELECT * FROM unnest(:space_key::BIGINT[], :kind::TEXT[], :run_id::TEXT[], :thread_id::TEXT[], :data::JSON[], :now::BIGINT[]);

-- name: lock_outbox
-- One dispatcher at a time, so that numbers become visible in order.
SELECT pg_advisory_xact_lock(hashtext('holdfast.outbox'));

-- name: take_notification_numbers
UPDATE spaces s SET last_notification = s.last_notification + t.count
  FROM unnest(:count::BIGINT[], :space_key::BIGINT[]) AS t (count, space_key)
 WHERE s.space_key = t.space_key
RETURNING s.space_key, s.id, s.last_notification;

-- name: add_notifications
INSERT INTO notifications (space_key, number, kind, run_id, thread_id, data, created_at)
SELECT * FROM unnest(:space_key::BIGINT[], :number::BIGINT[], :kind::TEXT[], :run_id::TEXT[], :thread_id::TEXT[], :data::JSON[],
                     :created_at::BIGINT[]);

-- name: drop_from_outbox
DELETE FROM outbox WHERE outbox_key = ANY(:outbox_key::BIGINT[]);
