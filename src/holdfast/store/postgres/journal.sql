-- name: append
-- Rejects a commit whose lease was lost, or whose run would stop with unread inbox items.
-- The heads are locked in the order of their keys, so that two batches cannot deadlock.
WITH locked AS (
    SELECT h.run_key FROM run_heads h WHERE h.run_key = ANY(:run_key::BIGINT[]) ORDER BY h.run_key FOR UPDATE
), passed AS (
    UPDATE run_heads h
       SET last_event_seq = h.last_event_seq + w.added, unread = h.unread - w.consumed,
           attempt = CASE WHEN w.progresses THEN 0 ELSE h.attempt END
      FROM unnest(:run_key::BIGINT[], :lease_number::BIGINT[], :added::BIGINT[], :consumed::BIGINT[],
                  :progresses::BOOLEAN[], :stops::BOOLEAN[]) AS w (run_key, lease_number, added, consumed, progresses, stops)
      JOIN locked l ON l.run_key = w.run_key
     WHERE h.run_key = w.run_key AND h.lease_number = w.lease_number AND (NOT w.stops OR h.unread <= w.consumed)
    RETURNING h.run_key, h.last_event_seq, h.unread
), added AS (
    INSERT INTO events (run_key, seq, type, data, created_at)
    SELECT p.run_key, p.last_event_seq - e.following, e.type, e.data, :now
      FROM unnest(:run_of_event::BIGINT[], :following::BIGINT[], :type::TEXT[], :data::JSON[])
           AS e (run_key, following, type, data)
      JOIN passed p ON p.run_key = e.run_key
)
SELECT run_key, last_event_seq, unread FROM passed;

-- name: move_heads
UPDATE run_heads h
   SET status = m.status, status_reason = m.reason, wait_until = m.wait_until,
       queued_at = CASE WHEN m.status = 'queued' THEN m.now ELSE h.queued_at END,
       queue_key = CASE WHEN m.status = 'queued' THEN COALESCE(m.wait_until, m.now) - h.head_start ELSE h.queue_key END,
       lease_owner = NULL, lease_expires_at = NULL, lease_number = h.lease_number + 1
  FROM unnest(:status::TEXT[], :reason::TEXT[], :wait_until::BIGINT[], :now::BIGINT[], :run_key::BIGINT[])
       AS m (status, reason, wait_until, now, run_key)
 WHERE h.run_key = m.run_key;

-- name: finish_runs
-- Returns flags for the open parts of each run: mostly there are none, and a flag costs less than the statement.
UPDATE runs r
   SET output = f.output, error = f.error, completed_at = f.now,
       input_tokens = r.input_tokens + f.input_tokens, output_tokens = r.output_tokens + f.output_tokens,
       cached_input_tokens = r.cached_input_tokens + f.cached_input_tokens, cost_nanodollars = r.cost_nanodollars + f.cost,
       iterations = r.iterations + f.iterations
  FROM unnest(:output::JSON[], :error::JSON[], :now::BIGINT[], :input_tokens::BIGINT[], :output_tokens::BIGINT[],
              :cached_input_tokens::BIGINT[], :cost::BIGINT[], :iterations::BIGINT[], :run_key::BIGINT[])
       AS f (output, error, now, input_tokens, output_tokens, cached_input_tokens, cost, iterations, run_key)
 WHERE r.run_key = f.run_key
RETURNING r.run_key,
          EXISTS (SELECT 1 FROM timers t WHERE t.run_key = r.run_key AND t.state IN ('scheduled', 'paused')) AS timers,
          EXISTS (SELECT 1 FROM interrupts i WHERE i.run_key = r.run_key AND i.status = 'open') AS questions,
          EXISTS (SELECT 1 FROM steps s WHERE s.run_key = r.run_key AND s.state IN ('started', 'waiting')) AS steps,
          EXISTS (SELECT 1 FROM runs n JOIN run_heads h ON h.run_key = n.run_key
                   WHERE n.base_key = r.run_key AND h.queued_at IS NULL) AS followers,
          EXISTS (SELECT 1 FROM subscriptions u WHERE u.target_key = r.run_key) AS subscribers;

-- name: stop_timers
UPDATE timers SET state = 'cancelled' WHERE run_key = ANY(:run_key::BIGINT[]) AND state IN ('scheduled', 'paused');

-- name: pause_deadlines
-- While a timer is paused, its `due_at` is the remaining time.
UPDATE timers t SET state = 'paused', due_at = t.due_at - p.now
  FROM unnest(:now::BIGINT[], :run_key::BIGINT[]) AS p (now, run_key)
 WHERE t.run_key = p.run_key AND t.kind = 'deadline' AND t.state = 'scheduled';

-- name: close_open_interrupts
UPDATE interrupts SET status = 'cancelled' WHERE run_key = ANY(:run_key::BIGINT[]) AND status = 'open';

-- name: cut_off_started_steps
UPDATE steps s SET state = CASE WHEN s.effectful = 1 THEN 'unknown' ELSE 'failed' END, settled_at = e.now
  FROM unnest(:now::BIGINT[], :run_key::BIGINT[]) AS e (now, run_key)
 WHERE s.run_key = e.run_key AND s.state IN ('started', 'waiting');

-- name: add_usage
UPDATE runs r
   SET input_tokens = r.input_tokens + u.input_tokens, output_tokens = r.output_tokens + u.output_tokens,
       cached_input_tokens = r.cached_input_tokens + u.cached_input_tokens, cost_nanodollars = r.cost_nanodollars + u.cost,
       iterations = r.iterations + u.iterations
  FROM unnest(:input_tokens::BIGINT[], :output_tokens::BIGINT[], :cached_input_tokens::BIGINT[], :cost::BIGINT[],
              :iterations::BIGINT[], :run_key::BIGINT[]) AS u (input_tokens, output_tokens, cached_input_tokens, cost, iterations, run_key)
 WHERE r.run_key = u.run_key;

-- name: take_sequences
UPDATE threads t SET next_sequence = t.next_sequence + n.count
  FROM unnest(:count::BIGINT[], :thread_key::BIGINT[]) AS n (count, thread_key)
 WHERE t.thread_key = n.thread_key
RETURNING t.thread_key, t.next_sequence;

-- name: consume
DELETE FROM inbox i USING unnest(:run_key::BIGINT[], :number::BIGINT[]) AS c (run_key, number)
 WHERE i.run_key = c.run_key AND i.number = c.number
RETURNING i.number;

-- name: put_steps
-- Returns no row for a step that has settled already.
INSERT INTO steps (run_key, number, kind, name, key, state, attempt, tool_call_id, effectful, request_digest,
                   waits_for, usage, lane, first_token_at, worker, started_at, attempt_started_at, settled_at)
SELECT * FROM unnest(:run_key::BIGINT[], :number::BIGINT[], :kind::TEXT[], :name::TEXT[], :key::TEXT[], :state::TEXT[],
                     :attempt::BIGINT[], :tool_call_id::TEXT[], :effectful::BIGINT[], :request_digest::TEXT[], :waits_for::TEXT[], :usage::JSON[], :lane::TEXT[],
                     :first_token_at::BIGINT[], :worker::TEXT[], :now::BIGINT[], :attempt_started_at::BIGINT[], :settled_at::BIGINT[])
ON CONFLICT (run_key, number) DO UPDATE
   SET name = excluded.name, state = excluded.state, attempt = excluded.attempt, waits_for = excluded.waits_for,
       usage = excluded.usage, lane = excluded.lane, settled_at = excluded.settled_at,
       first_token_at = excluded.first_token_at, worker = excluded.worker,
       earlier_attempts = CASE WHEN excluded.attempt = steps.attempt THEN steps.earlier_attempts
           ELSE (COALESCE(steps.earlier_attempts::JSONB, '[]') || jsonb_build_object(
                'attempt', steps.attempt, 'worker', steps.worker, 'started_at', steps.attempt_started_at))::JSON END,
       attempt_started_at = CASE WHEN excluded.attempt = steps.attempt THEN steps.attempt_started_at
           ELSE excluded.attempt_started_at END
 WHERE steps.state IN ('started', 'waiting')
RETURNING number;

-- name: add_interrupts
INSERT INTO interrupts (space_key, run_key, id, kind, status, message, tool_call_id, arguments, digest, response_schema,
                        default_outcome, metadata, expires_at, created_at)
SELECT space_key, run_key, id, kind, 'open', message, tool_call_id, arguments, digest, response_schema, default_outcome,
       metadata, expires_at, now
  FROM unnest(:space_key::BIGINT[], :run_key::BIGINT[], :id::TEXT[], :kind::TEXT[], :message::TEXT[], :tool_call_id::TEXT[],
              :arguments::JSON[], :digest::TEXT[], :response_schema::JSON[], :default_outcome::JSON[], :metadata::JSON[],
              :expires_at::BIGINT[], :now::BIGINT[])
       AS n (space_key, run_key, id, kind, message, tool_call_id, arguments, digest, response_schema, default_outcome,
             metadata, expires_at, now);

-- name: withdraw_interrupts
UPDATE interrupts i SET status = 'cancelled'
  FROM unnest(:run_key::BIGINT[], :id::TEXT[]) AS w (run_key, id)
 WHERE i.run_key = w.run_key AND i.id = w.id AND i.status = 'open'
RETURNING i.run_key, i.id;

-- name: waiting_on_bases
-- Runs that may start because their base has ended, and runs on it that were ended before they started.
SELECT r.run_key, r.thread_key, r.base_key, r.base_sequence, h.status
  FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.base_key = ANY(:run_key::BIGINT[]) AND h.queued_at IS NULL
 ORDER BY r.run_key;
