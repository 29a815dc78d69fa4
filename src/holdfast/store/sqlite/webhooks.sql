-- name: lock_webhook
-- There is one writer, so no lock is needed.
SELECT w.*, s.id AS space_id FROM webhooks w JOIN spaces s ON s.space_key = w.space_key WHERE s.id = :space AND w.id = :id;

-- name: webhooks_of_spaces
WITH wanted (space_key) AS (VALUES (:space_key))
SELECT h.* FROM wanted w CROSS JOIN webhooks h WHERE h.space_key = w.space_key AND h.state = 'active';

-- name: add_deliveries
INSERT INTO deliveries (webhook_key, id, event, run_id, subject, payload, state, due_at, created_at)
VALUES (:webhook_key, :id, :event, :run_id, :subject, :payload, 'pending', :due_at, :now);

-- name: claim_deliveries
-- Of the pending deliveries with one subject, only the oldest. It goes from webhook to webhook, so that it never reads what
-- has piled up for a receiver that stalls.
WITH RECURSIVE waiting (webhook_key) AS (
       SELECT MIN(d.webhook_key) FROM deliveries d WHERE d.state = 'pending' AND d.due_at IS NOT NULL
       UNION ALL
       SELECT (SELECT MIN(d.webhook_key) FROM deliveries d
                WHERE d.state = 'pending' AND d.due_at IS NOT NULL AND d.webhook_key > n.webhook_key)
         FROM waiting n WHERE n.webhook_key IS NOT NULL)
UPDATE deliveries SET claim_number = claim_number + 1, claim_expires_at = :now + :lease
 WHERE delivery_key IN (
       SELECT c.delivery_key
         FROM waiting n
        CROSS JOIN webhooks w ON w.webhook_key = n.webhook_key
        CROSS JOIN deliveries c ON c.delivery_key IN (
              SELECT d.delivery_key FROM deliveries d
               WHERE d.webhook_key = n.webhook_key AND d.state = 'pending' AND d.due_at <= :now
                 AND (d.claim_expires_at IS NULL OR d.claim_expires_at <= :now)
                 AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.webhook_key = d.webhook_key AND e.subject = d.subject
                                                              AND e.state = 'pending' AND e.delivery_key < d.delivery_key)
               ORDER BY d.due_at, d.delivery_key LIMIT :limit)
        WHERE w.state = 'active' AND n.webhook_key NOT IN (SELECT value FROM json_each(:busy))
        ORDER BY c.due_at, c.delivery_key LIMIT :limit)
RETURNING delivery_key, claim_number;

-- name: next_delivery_due
SELECT MIN(d.due_at) AS due_at FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE d.state = 'pending' AND w.state = 'active' AND (d.claim_expires_at IS NULL OR d.claim_expires_at <= :now);
