-- name: run
SELECT * FROM run_view WHERE run_key = (
    SELECT i.run_key FROM run_ids i JOIN spaces s ON s.space_key = i.space_key WHERE s.id = :space AND i.id = :id
);

-- name: run_key
SELECT r.run_key
  FROM spaces s
  JOIN run_ids i ON i.space_key = s.space_key
  JOIN runs r ON r.run_key = i.run_key
 WHERE s.id = :space AND i.id = :id AND r.erased = 0;

-- name: run_by_key
SELECT * FROM run_view WHERE run_key = :run_key;

-- name: list_runs
SELECT * FROM run_view
 WHERE space_key = :space_key AND run_key < :before
   AND (CAST(:thread_id AS TEXT) IS NULL OR thread_key = (
        SELECT thread_key FROM threads t WHERE t.space_key = :space_key AND t.id = :thread_id))
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
   AND (CAST(:agent_type AS TEXT) IS NULL OR agent_type = :agent_type)
   AND (CAST(:mode AS TEXT) IS NULL OR mode = :mode)
   AND (CAST(:root_run_id AS TEXT) IS NULL OR root_run_id = :root_run_id)
   AND (CAST(:parent_run_id AS TEXT) IS NULL OR parent_run_id = :parent_run_id)
   AND (CAST(:tag AS TEXT) IS NULL OR holdfast_has(tags, :tag))
 ORDER BY run_key DESC
 LIMIT :limit;

-- name: children
SELECT * FROM run_view WHERE parent_key = :run_key ORDER BY run_key;

-- name: newest_run
SELECT run_key FROM runs WHERE thread_key = :thread_key ORDER BY run_key DESC LIMIT 1;

-- name: base_run
-- What a run needs to know of the one it continues: its head, and where it jumps to.
SELECT r.run_key, r.id, h.status, h.lease_owner, h.queued_at, r.base_key, r.base_sequence, r.chain_depth,
       COALESCE(j.run_key, r.run_key) AS jump, COALESCE(j.chain_depth, r.chain_depth) AS jump_depth,
       COALESCE(k.run_key, j.run_key, r.run_key) AS jump_of_jump,
       COALESCE(k.chain_depth, j.chain_depth, r.chain_depth) AS jump_of_jump_depth
  FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  LEFT JOIN runs j ON j.run_key = r.jump_key
  LEFT JOIN runs k ON k.run_key = j.jump_key
 WHERE r.run_key = :run_key;

-- name: branch_keys
-- The live runs of a branch, the newest first. One that was ended before it began may have live ones above it.
WITH RECURSIVE branch (run_key, base_key, status, queued_at) AS (
    SELECT r.run_key, r.base_key, h.status, h.queued_at
      FROM runs r JOIN run_heads h ON h.run_key = r.run_key
     WHERE r.run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.base_key, h.status, h.queued_at
      FROM branch b JOIN runs r ON r.run_key = b.base_key JOIN run_heads h ON h.run_key = r.run_key
     WHERE b.status IN ('pending', 'queued', 'running', 'waiting') OR b.queued_at IS NULL
)
SELECT b.run_key, r.id, r.base_key, r.base_sequence
  FROM branch b JOIN runs r ON r.run_key = b.run_key
 WHERE b.status IN ('pending', 'queued', 'running', 'waiting')
 ORDER BY b.run_key DESC;

-- name: ancestor_at
-- The run of a chain at a given depth, by jumps.
WITH RECURSIVE walk (run_key, base_key, base_sequence, jump_key, chain_depth) AS (
    SELECT run_key, base_key, base_sequence, jump_key, chain_depth FROM runs WHERE run_key = :run_key
    UNION ALL
    SELECT n.run_key, n.base_key, n.base_sequence, n.jump_key, n.chain_depth
      FROM walk w
      JOIN runs j ON j.run_key = w.jump_key
      JOIN runs n ON n.run_key = CASE WHEN j.chain_depth >= :depth THEN w.jump_key ELSE w.base_key END
     WHERE w.chain_depth > :depth
)
SELECT run_key, base_key, base_sequence FROM walk WHERE chain_depth = :depth;

-- name: add_run_id
INSERT INTO run_ids (space_key, id, run_key) VALUES (:space_key, :id, :run_key)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING id;

-- name: add_run
INSERT INTO runs (space_key, thread_key, id, mode, agent_type, model, base_key, base_sequence, chain_depth, jump_key,
                  parent_key, root_key, nesting, input, priority, tags, limits, idempotency_key, created_by, created_at)
VALUES (:space_key, :thread_key, :id, :mode, :agent_type, :model, :base_key, :base_sequence, :chain_depth, :jump_key,
        :parent_key, :root_key, :nesting, :input, :priority, :tags, :limits, :idempotency_key, :created_by, :now)
RETURNING run_key;

-- name: add_head
INSERT INTO run_heads (run_key, status, head_start, queue_key, queued_at, wait_until, last_event_seq)
VALUES (:run_key, :status, :head_start, :queue_key, :queued_at, :wait_until, :last_event_seq);

-- name: idempotency_key
SELECT digest, run_key FROM idempotency_keys WHERE space_key = :space_key AND key = :key;

-- name: take_idempotency_key
-- Waits for whoever takes the same key now. No row: it was taken.
INSERT INTO idempotency_keys (space_key, key, digest) VALUES (:space_key, :key, :digest)
ON CONFLICT (space_key, key) DO NOTHING
RETURNING key;

-- name: settle_idempotency_key
UPDATE idempotency_keys SET run_key = :run_key WHERE space_key = :space_key AND key = :key;

-- name: head
SELECT * FROM run_heads WHERE run_key = :run_key;
