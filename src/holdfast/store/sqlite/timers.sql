-- name: add_timers
INSERT INTO timers (space_key, run_key, id, kind, due_at, data, state, created_at)
VALUES (:space_key, :run_key, :id, :kind, :due_at, :data, 'scheduled', :now);

-- name: cancel_timers
UPDATE timers SET state = 'cancelled' WHERE run_key = :run_key AND id = :id AND state = 'scheduled';

-- name: claim_timers
UPDATE timers SET claim_owner = :owner, claim_number = claim_number + 1, claim_expires_at = :now + :lease
 WHERE timer_key IN (
       SELECT timer_key FROM timers
        WHERE state = 'scheduled' AND due_at <= :now AND (claim_expires_at IS NULL OR claim_expires_at <= :now)
        ORDER BY due_at, timer_key LIMIT :limit)
RETURNING timer_key, claim_number;

-- name: next_due
SELECT MIN(due_at) AS due_at FROM timers
 WHERE state = 'scheduled' AND (claim_expires_at IS NULL OR claim_expires_at <= :now);

-- name: resume_deadline
UPDATE timers SET state = 'scheduled', due_at = due_at + :now
 WHERE run_key = :run_key AND kind = 'deadline' AND state = 'paused'
RETURNING timer_key;
