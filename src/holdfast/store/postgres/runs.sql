-- name: runs_named
SELECT v.*
  FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
  JOIN spaces s ON s.id = w.space
  JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
  JOIN run_view v ON v.run_key = i.run_key;

-- name: existing_runs
SELECT r.id
  FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
  JOIN spaces s ON s.id = w.space
  JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
  JOIN runs r ON r.run_key = i.run_key AND r.erased = 0;

-- name: tree_usage
-- The usage of runs with all their descendants; a part of unknown cost makes the sum unknown.
WITH RECURSIVE tree (root_id, run_key) AS (
    SELECT w.id, i.run_key
      FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
      JOIN spaces s ON s.id = w.space
      JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
    UNION ALL
    SELECT t.root_id, c.run_key FROM tree t JOIN runs c ON c.parent_key = t.run_key
)
SELECT t.root_id, CAST(SUM(r.input_tokens) AS BIGINT) AS input_tokens,
       CAST(SUM(r.output_tokens) AS BIGINT) AS output_tokens,
       CAST(SUM(r.cached_input_tokens) AS BIGINT) AS cached_input_tokens,
       CASE WHEN COUNT(*) = COUNT(r.cost_nanodollars) THEN CAST(SUM(r.cost_nanodollars) AS BIGINT) END AS cost_nanodollars
  FROM tree t JOIN runs r ON r.run_key = t.run_key
 GROUP BY t.root_id;

-- name: newest_runs
SELECT v.*
  FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
  JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id
  JOIN run_view v ON v.run_key = (
       SELECT MAX(r.run_key) FROM runs r WHERE r.thread_key = t.thread_key AND r.erased = 0);

-- name: base_runs
-- The columns of a base that the placement of a run on it needs: its head and its jump keys.
SELECT r.run_key, r.id, h.status, h.lease_owner, h.queued_at, r.base_key, r.base_sequence, r.chain_depth,
       COALESCE(j.run_key, r.run_key) AS jump, COALESCE(j.chain_depth, r.chain_depth) AS jump_depth,
       COALESCE(k.run_key, j.run_key, r.run_key) AS jump_of_jump,
       COALESCE(k.chain_depth, j.chain_depth, r.chain_depth) AS jump_of_jump_depth,
       EXISTS (SELECT 1 FROM run_values v WHERE v.run_key = r.run_key) AS has_values
  FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  LEFT JOIN runs j ON j.run_key = r.jump_key
  LEFT JOIN runs k ON k.run_key = j.jump_key
 WHERE r.run_key = ANY(:run_key::BIGINT[]);

-- name: add_runs
INSERT INTO runs (space_key, thread_key, id, mode, agent_type, model, base_key, base_sequence, chain_depth, jump_key,
                  parent_key, root_key, nesting, input, priority, tags, limits, output_schema, agent_version, idempotency_key,
                  created_by, created_at)
SELECT * FROM unnest(:space_key::BIGINT[], :thread_key::BIGINT[], :id::TEXT[], :mode::TEXT[], :agent_type::TEXT[], :model::TEXT[],
                     :base_key::BIGINT[], :base_sequence::BIGINT[], :chain_depth::BIGINT[], :jump_key::BIGINT[],
                     :parent_key::BIGINT[], :root_key::BIGINT[], :nesting::BIGINT[], :input::JSON[], :priority::TEXT[],
                     :tags::JSON[], :limits::JSON[], :output_schema::JSON[], :agent_version::TEXT[],
                     :idempotency_key::TEXT[], :created_by::TEXT[], :now::BIGINT[])
RETURNING run_key, space_key, id;

-- name: add_run_ids
INSERT INTO run_ids (space_key, id, run_key)
SELECT * FROM unnest(:space_key::BIGINT[], :id::TEXT[], :run_key::BIGINT[])
ON CONFLICT (space_key, id) DO NOTHING
RETURNING run_key;

-- name: add_heads
-- A run is left to the worker that has the working folder of its base, or of its parent.
INSERT INTO run_heads (run_key, status, head_start, queue_key, queued_at, wait_until, last_event_seq, preferred_owner,
                       space_key, pool)
SELECT n.run_key, n.status, n.head_start, n.queue_key, n.queued_at, n.wait_until, n.last_event_seq, h.preferred_owner,
       n.space_key, n.pool
  FROM unnest(:run_key::BIGINT[], :status::TEXT[], :head_start::BIGINT[], :queue_key::BIGINT[], :queued_at::BIGINT[],
              :wait_until::BIGINT[], :last_event_seq::BIGINT[], :near_key::BIGINT[], :space_key::BIGINT[], :pool::TEXT[])
       AS n (run_key, status, head_start, queue_key, queued_at, wait_until, last_event_seq, near_key, space_key, pool)
       LEFT JOIN run_heads h ON h.run_key = n.near_key;

-- name: add_messages
INSERT INTO messages (thread_key, run_key, id, sequence, role, content, tool_calls, tool_call_id, revises, metadata, created_by, created_at)
SELECT * FROM unnest(:thread_key::BIGINT[], :run_key::BIGINT[], :id::TEXT[], :sequence::BIGINT[], :role::TEXT[], :content::JSON[],
                     :tool_calls::JSON[], :tool_call_id::TEXT[], :revises::TEXT[], :metadata::JSON[], :created_by::TEXT[],
                     :now::BIGINT[]);

-- name: add_events
INSERT INTO events (run_key, seq, type, data, created_at)
SELECT * FROM unnest(:run_key::BIGINT[], :seq::BIGINT[], :type::TEXT[], :data::JSON[], :now::BIGINT[]);
