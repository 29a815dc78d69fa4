-- name: shift_timers
UPDATE timers
   SET due_at = CASE WHEN kind IN ('wake', 'deadline') THEN due_at - :by ELSE due_at END,
       claim_expires_at = claim_expires_at - :by
 WHERE state = 'scheduled';

-- name: shift_heads
-- Before its first claim, `wait_until` is an instant that a caller chose; later it is the end of a delay.
UPDATE run_heads
   SET queue_key = CASE WHEN wait_until IS NULL OR lease_number > 0 THEN queue_key - :by ELSE queue_key END,
       wait_until = CASE WHEN lease_number > 0 THEN wait_until - :by ELSE wait_until END,
       lease_expires_at = lease_expires_at - :by
 WHERE status = 'queued' OR lease_owner IS NOT NULL;

-- name: shift_interrupts
UPDATE interrupts SET expires_at = expires_at - :by WHERE status = 'open';

-- name: shift_tickets
UPDATE tickets SET expires_at = expires_at - :by;

-- name: shift_deliveries
UPDATE deliveries
   SET due_at = due_at - :by, claim_expires_at = claim_expires_at - :by, first_attempt_at = first_attempt_at - :by
 WHERE state = 'pending';
