-- name: lock_webhook
SELECT w.*, s.id AS space_id FROM webhooks w JOIN spaces s ON s.space_key = w.space_key WHERE s.id = :space AND w.id = :id
   FOR UPDATE OF w;

-- name: webhooks_of_spaces
SELECT h.* FROM webhooks h WHERE h.space_key = ANY(:space_key::BIGINT[]) AND h.state = 'active';

-- name: add_deliveries
INSERT INTO deliveries (webhook_key, id, event, run_id, subject, payload, state, due_at, created_at)
SELECT webhook_key, id, event, run_id, subject, payload, 'pending', due_at, now
  FROM unnest(:webhook_key::BIGINT[], :id::TEXT[], :event::TEXT[], :run_id::TEXT[], :subject::TEXT[], :payload::TEXT[],
              :due_at::BIGINT[], :now::BIGINT[]) AS n (webhook_key, id, event, run_id, subject, payload, due_at, now);

-- name: claim_deliveries
-- Of the pending deliveries with one subject, only the oldest. It goes from webhook to webhook, so that it never reads what
-- has piled up for a receiver that stalls. The lock checks again what another process may have claimed;
-- the order by the due time is only that of the index of what is pending.
WITH RECURSIVE waiting (webhook_key) AS (
       (SELECT d.webhook_key FROM deliveries d WHERE d.state = 'pending' AND d.due_at IS NOT NULL
         ORDER BY d.webhook_key, d.due_at LIMIT 1)
       UNION ALL
       SELECT (SELECT d.webhook_key FROM deliveries d
                WHERE d.state = 'pending' AND d.due_at IS NOT NULL AND d.webhook_key > n.webhook_key
                ORDER BY d.webhook_key, d.due_at LIMIT 1)
         FROM waiting n WHERE n.webhook_key IS NOT NULL)
UPDATE deliveries SET claim_number = claim_number + 1, claim_expires_at = COALESCE(:now, holdfast_now()) + :lease
 WHERE delivery_key = ANY(ARRAY(
       SELECT c.delivery_key
         FROM waiting n
         JOIN webhooks w ON w.webhook_key = n.webhook_key
        CROSS JOIN LATERAL (
              SELECT d.delivery_key FROM deliveries d
               WHERE d.webhook_key = n.webhook_key AND d.state = 'pending'
                 AND d.due_at <= (SELECT COALESCE(:now, holdfast_now()))
                 AND (d.claim_expires_at IS NULL OR d.claim_expires_at <= COALESCE(:now, holdfast_now()))
                 AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.webhook_key = d.webhook_key AND e.subject = d.subject
                                                              AND e.state = 'pending' AND e.delivery_key < d.delivery_key)
               ORDER BY d.due_at, d.delivery_key LIMIT :limit) f
         JOIN deliveries c ON c.delivery_key = f.delivery_key
        WHERE w.state = 'active' AND n.webhook_key NOT IN (SELECT json_array_elements_text(:busy::JSON)::BIGINT)
          AND c.state = 'pending' AND (c.claim_expires_at IS NULL OR c.claim_expires_at <= COALESCE(:now, holdfast_now()))
        ORDER BY c.due_at, c.delivery_key LIMIT :limit
          FOR UPDATE OF c SKIP LOCKED))
RETURNING delivery_key, claim_number;

-- name: next_delivery_due
SELECT MIN(d.due_at) AS due_at FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE d.state = 'pending' AND w.state = 'active' AND (d.claim_expires_at IS NULL OR d.claim_expires_at <= COALESCE(:now, holdfast_now()));
