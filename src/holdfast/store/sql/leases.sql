-- name: release_head
-- No row: the lease is lost.
UPDATE run_heads
   SET status = 'queued', status_reason = NULL, queued_at = :now, wait_until = :wait_until,
       queue_key = COALESCE(CAST(:wait_until AS BIGINT), :now) - head_start,
       attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END,
       lease_owner = NULL, lease_expires_at = NULL, lease_number = lease_number + 1
 WHERE run_key = :run_key AND lease_number = :lease_number
RETURNING run_key;

-- name: release_ended_head
-- Records that the worker of an ended run has stopped. No row: it had no worker, or another one.
UPDATE run_heads SET lease_owner = NULL, lease_expires_at = NULL
 WHERE run_key = :run_key AND lease_number = :lease_number AND lease_owner IS NOT NULL
   AND status IN ('completed', 'failed', 'cancelled')
RETURNING run_key;

-- name: requeue_expired
-- No row: the lease was renewed, or another process requeued the run.
UPDATE run_heads
   SET status = 'queued', status_reason = 'expired', queued_at = :now, wait_until = :wait_until,
       queue_key = COALESCE(CAST(:wait_until AS BIGINT), :now) - head_start,
       lease_owner = NULL, lease_expires_at = NULL, lease_number = lease_number + 1, preferred_owner = NULL
 WHERE run_key = :run_key AND lease_number = :lease_number AND status = 'running' AND lease_expires_at = :seen_expiry
RETURNING run_key;
