-- name: fence
-- Returns no row when the lease has moved on, or when the run would stop with something unread.
-- The heads are locked by key, so that two batches cannot lock each other out.
WITH wanted AS (
    SELECT * FROM unnest(:events::BIGINT[], :consumed::BIGINT[], :settles::BIGINT[], :run_key::BIGINT[], :lease_number::BIGINT[],
                         :stops::BIGINT[]) AS w (events, consumed, settles, run_key, lease_number, stops)
), locked AS (
    SELECT h.run_key FROM run_heads h WHERE h.run_key = ANY(:run_key::BIGINT[]) ORDER BY h.run_key FOR UPDATE
)
UPDATE run_heads h
   SET last_event_seq = h.last_event_seq + w.events, unread = h.unread - w.consumed,
       attempt = CASE WHEN w.settles = 1 THEN 0 ELSE h.attempt END
  FROM wanted w JOIN locked l ON l.run_key = w.run_key
 WHERE h.run_key = w.run_key AND h.lease_number = w.lease_number AND (w.stops = 0 OR h.unread <= w.consumed)
RETURNING h.run_key, h.last_event_seq;

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
UPDATE runs r SET output = f.output, error = f.error, completed_at = f.now
  FROM unnest(:output::JSON[], :error::JSON[], :now::BIGINT[], :run_key::BIGINT[]) AS f (output, error, now, run_key)
 WHERE r.run_key = f.run_key;

-- name: stop_timers
UPDATE timers SET state = 'cancelled' WHERE run_key = ANY(:run_key::BIGINT[]) AND state = 'scheduled';

-- name: close_open_interrupts
UPDATE interrupts SET status = 'cancelled' WHERE run_key = ANY(:run_key::BIGINT[]) AND status = 'open';

-- name: cut_off_started_steps
UPDATE steps s SET state = CASE WHEN s.effectful = 1 THEN 'unknown' ELSE 'failed' END, settled_at = e.now
  FROM unnest(:now::BIGINT[], :run_key::BIGINT[]) AS e (now, run_key)
 WHERE s.run_key = e.run_key AND s.state = 'started';

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
-- Returns no row for a step that has settled before.
INSERT INTO steps (run_key, number, kind, name, key, state, attempt, tool_call_id, effectful, request_digest, usage,
                   started_at, settled_at)
SELECT * FROM unnest(:run_key::BIGINT[], :number::BIGINT[], :kind::TEXT[], :name::TEXT[], :key::TEXT[], :state::TEXT[],
                     :attempt::BIGINT[], :tool_call_id::TEXT[], :effectful::BIGINT[], :request_digest::TEXT[], :usage::JSON[],
                     :now::BIGINT[], :settled_at::BIGINT[])
ON CONFLICT (run_key, number) DO UPDATE
   SET state = excluded.state, attempt = excluded.attempt, usage = excluded.usage, settled_at = excluded.settled_at
 WHERE steps.state = 'started'
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

-- name: waiting_on_bases
-- Runs that may begin now that their base has ended, and those that were ended before they could.
SELECT r.run_key, r.thread_key, r.base_key, r.base_sequence, h.status
  FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.base_key = ANY(:run_key::BIGINT[]) AND h.queued_at IS NULL
 ORDER BY r.run_key;
