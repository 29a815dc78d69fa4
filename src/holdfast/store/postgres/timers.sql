-- name: add_timers
INSERT INTO timers (space_key, run_key, id, kind, due_at, data, state, created_at)
SELECT space_key, run_key, id, kind, due_at, data, 'scheduled', now
  FROM unnest(:space_key::BIGINT[], :run_key::BIGINT[], :id::TEXT[], :kind::TEXT[], :due_at::BIGINT[], :data::JSON[], :now::BIGINT[])
       AS n (space_key, run_key, id, kind, due_at, data, now);

-- name: cancel_timers
UPDATE timers t SET state = 'cancelled'
  FROM unnest(:run_key::BIGINT[], :id::TEXT[]) AS n (run_key, id)
 WHERE t.run_key = n.run_key AND t.id = n.id AND t.state = 'scheduled';

-- name: claim_timers
-- The clock is read in a subquery: an index cannot be searched for a function that may change with every row.
UPDATE timers SET claim_owner = :owner, claim_number = claim_number + 1,
                  claim_expires_at = COALESCE(:now, holdfast_now()) + :lease
 WHERE timer_key = ANY(ARRAY(
       SELECT timer_key FROM timers
        WHERE state = 'scheduled' AND due_at <= (SELECT COALESCE(:now, holdfast_now()))
          AND (claim_expires_at IS NULL OR claim_expires_at <= COALESCE(:now, holdfast_now()))
        ORDER BY due_at, timer_key LIMIT :limit
          FOR UPDATE SKIP LOCKED))
RETURNING timer_key, claim_number;

-- name: next_due
SELECT MIN(due_at) AS due_at FROM timers
 WHERE state = 'scheduled' AND (claim_expires_at IS NULL OR claim_expires_at <= COALESCE(:now, holdfast_now()));

-- name: resume_deadline
UPDATE timers SET state = 'scheduled', due_at = due_at + COALESCE(:now, holdfast_now())
 WHERE run_key = :run_key AND kind = 'deadline' AND state = 'paused'
RETURNING timer_key;
