-- name: runs_named
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT v.*
  FROM wanted w
  CROSS JOIN spaces s ON s.id = w.space
  JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
  JOIN run_view v ON v.run_key = i.run_key;

-- name: existing_runs
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT r.id
  FROM wanted w
  CROSS JOIN spaces s ON s.id = w.space
  JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
  JOIN runs r ON r.run_key = i.run_key AND r.erased = 0;

-- name: tree_usage
-- The usage of runs with all their descendants; a part of unknown cost makes the sum unknown.
WITH RECURSIVE wanted (space, id) AS (VALUES (:space, :id)),
tree (root_id, run_key) AS (
    SELECT w.id, i.run_key
      FROM wanted w
      CROSS JOIN spaces s ON s.id = w.space
      JOIN run_ids i ON i.space_key = s.space_key AND i.id = w.id
    UNION ALL
    SELECT t.root_id, c.run_key FROM tree t JOIN runs c ON c.parent_key = t.run_key
)
SELECT t.root_id, SUM(r.input_tokens) AS input_tokens, SUM(r.output_tokens) AS output_tokens,
       SUM(r.cached_input_tokens) AS cached_input_tokens,
       CASE WHEN COUNT(*) = COUNT(r.cost_nanodollars) THEN SUM(r.cost_nanodollars) END AS cost_nanodollars
  FROM tree t JOIN runs r ON r.run_key = t.run_key
 GROUP BY t.root_id;

-- name: newest_runs
WITH wanted (space, id) AS (VALUES (:space, :id))
SELECT v.*
  FROM wanted w
  CROSS JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id
  JOIN run_view v ON v.run_key = (
       SELECT MAX(r.run_key) FROM runs r WHERE r.thread_key = t.thread_key AND r.erased = 0);

-- name: base_runs
-- The columns of a base that the placement of a run on it needs: its head and its jump keys.
WITH wanted (run_key) AS (VALUES (:run_key))
SELECT r.run_key, r.id, h.status, h.lease_owner, h.queued_at, r.base_key, r.base_sequence, r.chain_depth,
       COALESCE(j.run_key, r.run_key) AS jump, COALESCE(j.chain_depth, r.chain_depth) AS jump_depth,
       COALESCE(k.run_key, j.run_key, r.run_key) AS jump_of_jump,
       COALESCE(k.chain_depth, j.chain_depth, r.chain_depth) AS jump_of_jump_depth,
       EXISTS (SELECT 1 FROM run_values v WHERE v.run_key = r.run_key) AS has_values
  FROM wanted w
  CROSS JOIN runs r ON r.run_key = w.run_key
  JOIN run_heads h ON h.run_key = r.run_key
  LEFT JOIN runs j ON j.run_key = r.jump_key
  LEFT JOIN runs k ON k.run_key = j.jump_key;

-- name: add_runs
INSERT INTO runs (space_key, thread_key, id, mode, agent_type, model, base_key, base_sequence, chain_depth, jump_key,
                  parent_key, root_key, nesting, input, priority, tags, limits, output_schema, agent_version, idempotency_key,
                  created_by, created_at)
VALUES (:space_key, :thread_key, :id, :mode, :agent_type, :model, :base_key, :base_sequence, :chain_depth, :jump_key,
        :parent_key, :root_key, :nesting, :input, :priority, :tags, :limits, :output_schema,
        :agent_version, :idempotency_key, :created_by, :now)
RETURNING run_key, space_key, id;

-- name: add_run_ids
INSERT INTO run_ids (space_key, id, run_key) VALUES (:space_key, :id, :run_key)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING run_key;

-- name: add_heads
-- A run is left to the worker that has the working folder of its base, or of its parent.
INSERT INTO run_heads (run_key, status, head_start, queue_key, queued_at, wait_until, last_event_seq, preferred_owner,
                       space_key, pool)
WITH new (run_key, status, head_start, queue_key, queued_at, wait_until, last_event_seq, near_key, space_key, pool) AS (
    VALUES (:run_key, :status, :head_start, :queue_key, :queued_at, :wait_until, :last_event_seq, :near_key, :space_key,
            :pool))
SELECT n.run_key, n.status, n.head_start, n.queue_key, n.queued_at, n.wait_until, n.last_event_seq, h.preferred_owner,
       n.space_key, n.pool
  FROM new n LEFT JOIN run_heads h ON h.run_key = n.near_key;

-- name: add_messages
INSERT INTO messages (thread_key, run_key, id, sequence, role, content, tool_calls, tool_call_id, revises, metadata, created_by, created_at)
VALUES (:thread_key, :run_key, :id, :sequence, :role, :content, :tool_calls, :tool_call_id, :revises, :metadata, :created_by, :now);

-- name: add_events
INSERT INTO events (run_key, seq, type, data, created_at) VALUES (:run_key, :seq, :type, :data, :now);
