-- name: add_webhook
INSERT INTO webhooks (space_key, id, url, events, description, secret, state, created_by, created_at, updated_at)
VALUES (:space_key, :id, :url, :events, :description, :secret, 'active', :created_by, :now, :now)
ON CONFLICT DO NOTHING
RETURNING webhook_key;

-- name: count_webhooks
SELECT COUNT(*) AS webhooks FROM webhooks WHERE space_key = :space_key;

-- name: webhook
SELECT w.*, s.id AS space_id FROM webhooks w JOIN spaces s ON s.space_key = w.space_key WHERE s.id = :space AND w.id = :id;

-- name: list_webhooks
SELECT w.*, s.id AS space_id FROM webhooks w JOIN spaces s ON s.space_key = w.space_key
 WHERE w.space_key = :space_key AND w.webhook_key < :before
 ORDER BY w.webhook_key DESC LIMIT :limit;

-- name: update_webhook
UPDATE webhooks
   SET url = :url, events = :events, description = :description, secret = :secret, state = :state,
       state_reason = :state_reason, updated_at = :now
 WHERE webhook_key = :webhook_key;

-- name: disable_webhook
-- No row: it is disabled already.
UPDATE webhooks SET state = 'disabled', state_reason = :reason, updated_at = :now
 WHERE webhook_key = :webhook_key AND state = 'active'
RETURNING webhook_key;

-- name: drop_webhook
DELETE FROM webhooks WHERE webhook_key = :webhook_key;

-- name: drop_deliveries
DELETE FROM deliveries WHERE webhook_key = :webhook_key;

-- name: delivery
SELECT d.*, w.id AS webhook_id FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE d.webhook_key = :webhook_key AND d.id = :id;

-- name: claimed_delivery
SELECT d.*, w.id AS webhook_id, w.space_key, w.url, w.secret FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE d.delivery_key = :delivery_key;

-- name: list_deliveries
SELECT d.*, w.id AS webhook_id FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE d.webhook_key = :webhook_key AND d.delivery_key < :before
   AND (CAST(:state AS TEXT) IS NULL OR d.state = :state)
 ORDER BY d.delivery_key DESC LIMIT :limit;

-- name: resend_delivery
UPDATE deliveries SET state = 'pending', due_at = :now, first_attempt_at = NULL, claim_expires_at = NULL, delivered_at = NULL
 WHERE delivery_key = :delivery_key;

-- name: park_deliveries
-- Deliveries of a disabled webhook are not due.
UPDATE deliveries SET due_at = NULL WHERE webhook_key = :webhook_key AND state = 'pending';

-- name: prune_deliveries
-- Those that were settled before a time, and those that a disabled webhook never sent.
DELETE FROM deliveries WHERE delivery_key IN (
       SELECT d.delivery_key FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
        WHERE d.created_at < :before AND (d.delivered_at IS NULL OR d.delivered_at < :before)
          AND (d.state <> 'pending' OR w.state = 'disabled')
        ORDER BY d.created_at LIMIT :limit)
RETURNING delivery_key;

-- name: revive_deliveries
-- What is pending is sent as if it were new.
UPDATE deliveries SET due_at = :now, first_attempt_at = NULL, claim_expires_at = NULL
 WHERE webhook_key = :webhook_key AND state = 'pending';

-- name: settle_delivery
-- No row: the claim was taken over.
UPDATE deliveries
   SET state = :state, attempts = attempts + 1, first_attempt_at = COALESCE(first_attempt_at, :now), due_at = :due_at,
       claim_expires_at = NULL, last_status = :last_status, last_error = :last_error, delivered_at = :delivered_at
 WHERE delivery_key = :delivery_key AND claim_number = :number AND claim_expires_at IS NOT NULL
RETURNING delivery_key;

-- name: free_deliveries
UPDATE deliveries SET claim_expires_at = NULL WHERE state = 'pending' AND claim_expires_at IS NOT NULL;

-- name: drop_deliveries_of_space
DELETE FROM deliveries WHERE webhook_key IN (SELECT webhook_key FROM webhooks WHERE space_key = :space_key);

-- name: drop_webhooks_of_space
DELETE FROM webhooks WHERE space_key = :space_key;
