-- name: fence
-- Returns no row when the lease was lost, or when the run would stop with unread inbox items.
WITH wanted (events, consumed, progresses, run_key, lease_number, stops) AS (
    VALUES (:events, :consumed, :progresses, :run_key, :lease_number, :stops)
)
UPDATE run_heads
   SET last_event_seq = last_event_seq + w.events, unread = unread - w.consumed,
       attempt = CASE WHEN w.progresses = 1 THEN 0 ELSE attempt END
  FROM wanted w
 WHERE run_heads.run_key = w.run_key AND run_heads.lease_number = w.lease_number
   AND (w.stops = 0 OR run_heads.unread <= w.consumed)
RETURNING run_key, last_event_seq, unread;

-- name: move_heads
WITH moved (status, reason, wait_until, now, run_key) AS (VALUES (:status, :reason, :wait_until, :now, :run_key))
UPDATE run_heads
   SET status = m.status, status_reason = m.reason, wait_until = m.wait_until,
       queued_at = CASE WHEN m.status = 'queued' THEN m.now ELSE queued_at END,
       queue_key = CASE WHEN m.status = 'queued' THEN COALESCE(m.wait_until, m.now) - head_start ELSE queue_key END,
       lease_owner = NULL, lease_expires_at = NULL, lease_number = lease_number + 1
  FROM moved m
 WHERE run_heads.run_key = m.run_key;

-- name: finish_runs
-- Returns flags for the open parts of each run: mostly there are none, and a flag costs less than the statement.
WITH finished (output, error, now, input_tokens, output_tokens, cached_input_tokens, cost, iterations, run_key) AS (
    VALUES (:output, :error, :now, :input_tokens, :output_tokens, :cached_input_tokens, :cost, :iterations, :run_key)
)
UPDATE runs
   SET output = f.output, error = f.error, completed_at = f.now,
       input_tokens = runs.input_tokens + f.input_tokens, output_tokens = runs.output_tokens + f.output_tokens,
       cached_input_tokens = runs.cached_input_tokens + f.cached_input_tokens,
       cost_nanodollars = cost_nanodollars + f.cost, iterations = runs.iterations + f.iterations
  FROM finished f
 WHERE runs.run_key = f.run_key
RETURNING run_key,
          EXISTS (SELECT 1 FROM timers t WHERE t.run_key = runs.run_key AND t.state IN ('scheduled', 'paused')) AS timers,
          EXISTS (SELECT 1 FROM interrupts i WHERE i.run_key = runs.run_key AND i.status = 'open') AS questions,
          EXISTS (SELECT 1 FROM steps s WHERE s.run_key = runs.run_key AND s.state IN ('started', 'waiting')) AS steps,
          EXISTS (SELECT 1 FROM runs n JOIN run_heads h ON h.run_key = n.run_key
                   WHERE n.base_key = runs.run_key AND h.queued_at IS NULL) AS followers,
          EXISTS (SELECT 1 FROM subscriptions u WHERE u.target_key = runs.run_key) AS subscribers;

-- name: stop_timers
UPDATE timers SET state = 'cancelled' WHERE run_key IN (VALUES (:run_key)) AND state IN ('scheduled', 'paused');

-- name: pause_deadlines
-- While a timer is paused, its `due_at` is the remaining time.
UPDATE timers SET state = 'paused', due_at = due_at - :now
 WHERE run_key = :run_key AND kind = 'deadline' AND state = 'scheduled';

-- name: close_open_interrupts
UPDATE interrupts SET status = 'cancelled' WHERE run_key IN (VALUES (:run_key)) AND status = 'open';

-- name: cut_off_started_steps
WITH ended (now, run_key) AS (VALUES (:now, :run_key))
UPDATE steps SET state = CASE WHEN effectful = 1 THEN 'unknown' ELSE 'failed' END, settled_at = e.now
  FROM ended e
 WHERE steps.run_key = e.run_key AND state IN ('started', 'waiting');

-- name: add_usage
WITH used (input_tokens, output_tokens, cached_input_tokens, cost, iterations, run_key) AS (
    VALUES (:input_tokens, :output_tokens, :cached_input_tokens, :cost, :iterations, :run_key)
)
UPDATE runs
   SET input_tokens = runs.input_tokens + u.input_tokens, output_tokens = runs.output_tokens + u.output_tokens,
       cached_input_tokens = runs.cached_input_tokens + u.cached_input_tokens,
       cost_nanodollars = cost_nanodollars + u.cost, iterations = runs.iterations + u.iterations
  FROM used u
 WHERE runs.run_key = u.run_key;

-- name: take_sequences
WITH taken (count, thread_key) AS (VALUES (:count, :thread_key))
UPDATE threads SET next_sequence = next_sequence + t.count FROM taken t WHERE threads.thread_key = t.thread_key
RETURNING thread_key, next_sequence;

-- name: consume
DELETE FROM inbox WHERE run_key = :run_key AND number = :number RETURNING number;

-- name: put_steps
-- Returns no row for a step that has settled already.
INSERT INTO steps (run_key, number, kind, name, key, state, attempt, tool_call_id, effectful, request_digest,
                   waits_for, usage, lane, first_token_at, worker, started_at, attempt_started_at, settled_at)
VALUES (:run_key, :number, :kind, :name, :key, :state, :attempt, :tool_call_id, :effectful, :request_digest,
        :waits_for, :usage, :lane, :first_token_at, :worker, :now, :attempt_started_at, :settled_at)
ON CONFLICT (run_key, number) DO UPDATE
   SET name = excluded.name, state = excluded.state, attempt = excluded.attempt, waits_for = excluded.waits_for,
       usage = excluded.usage, lane = excluded.lane, settled_at = excluded.settled_at,
       first_token_at = excluded.first_token_at, worker = excluded.worker,
       earlier_attempts = CASE WHEN excluded.attempt = steps.attempt THEN steps.earlier_attempts
           ELSE json_insert(COALESCE(steps.earlier_attempts, '[]'), '$[#]', json_object(
                'attempt', steps.attempt, 'worker', steps.worker, 'started_at', steps.attempt_started_at)) END,
       attempt_started_at = CASE WHEN excluded.attempt = steps.attempt THEN steps.attempt_started_at
           ELSE excluded.attempt_started_at END
 WHERE steps.state IN ('started', 'waiting')
RETURNING number;

-- name: add_interrupts
INSERT INTO interrupts (space_key, run_key, id, kind, status, message, tool_call_id, arguments, digest, response_schema,
                        default_outcome, metadata, expires_at, created_at)
VALUES (:space_key, :run_key, :id, :kind, 'open', :message, :tool_call_id, :arguments, :digest, :response_schema,
        :default_outcome, :metadata, :expires_at, :now);

-- name: withdraw_interrupts
UPDATE interrupts SET status = 'cancelled' WHERE run_key = :run_key AND id = :id AND status = 'open'
RETURNING run_key, id;

-- name: waiting_on_bases
-- Runs that may start because their base has ended, and runs on it that were ended before they started.
SELECT r.run_key, r.thread_key, r.base_key, r.base_sequence, h.status
  FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.base_key IN (VALUES (:run_key)) AND h.queued_at IS NULL
 ORDER BY r.run_key;
