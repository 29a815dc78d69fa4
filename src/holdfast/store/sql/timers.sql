-- name: timer
SELECT t.*, s.id AS space_id, r.id AS run_id
  FROM timers t JOIN spaces s ON s.space_key = t.space_key LEFT JOIN runs r ON r.run_key = t.run_key
 WHERE s.id = :space AND t.id = :id;

-- name: timer_by_key
SELECT t.*, s.id AS space_id, r.id AS run_id
  FROM timers t JOIN spaces s ON s.space_key = t.space_key LEFT JOIN runs r ON r.run_key = t.run_key
 WHERE t.timer_key = :timer_key;

-- name: settle_timer
-- No row: the claim was settled or taken over, or the timer was cancelled.
UPDATE timers
   SET state = CASE WHEN CAST(:next_due AS BIGINT) IS NULL THEN 'fired' ELSE state END,
       fired_at = :now, due_at = COALESCE(:next_due, due_at), claim_owner = NULL, claim_expires_at = NULL
 WHERE timer_key = :timer_key AND claim_number = :number AND claim_owner IS NOT NULL AND state = 'scheduled'
RETURNING timer_key;

-- name: cancel_timer
UPDATE timers SET state = 'cancelled' WHERE timer_key = :timer_key AND state IN ('scheduled', 'paused') RETURNING timer_key;

-- name: free_timers
UPDATE timers SET claim_owner = NULL, claim_expires_at = NULL WHERE state = 'scheduled' AND claim_owner IS NOT NULL;
