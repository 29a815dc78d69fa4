-- name: add_to_inbox
-- No row: the run has ended.
UPDATE run_heads
   SET last_inbox_number = last_inbox_number + 1, unread = unread + 1,
       queued_at = CASE WHEN status = 'waiting' THEN :now ELSE queued_at END,
       queue_key = CASE WHEN status = 'waiting' THEN :now - head_start ELSE queue_key END,
       status_reason = CASE WHEN status = 'waiting' THEN NULL ELSE status_reason END,
       status = CASE WHEN status = 'waiting' THEN 'queued' ELSE status END
 WHERE run_key = :run_key AND status IN ('pending', 'queued', 'running', 'waiting')
RETURNING last_inbox_number, status;

-- name: add_inbox_item
INSERT INTO inbox (run_key, number, kind, data, created_by, created_at)
VALUES (:run_key, :number, :kind, :data, :created_by, :now);

-- name: inbox_of_run
SELECT * FROM inbox WHERE run_key = :run_key ORDER BY number;
