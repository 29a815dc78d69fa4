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

-- name: run_key_ever
-- Includes deleted runs, so that a cursor stays valid when its run is deleted.
SELECT i.run_key FROM run_ids i JOIN spaces s ON s.space_key = i.space_key WHERE s.id = :space AND i.id = :id;

-- name: run_by_key
SELECT * FROM run_view WHERE run_key = :run_key;

-- name: list_runs
-- Runs of deleted threads are included only if the filter names the thread, root or parent. The thread is looked up by
-- key for each run: as a join, the planner might read every thread.
SELECT * FROM run_view
 WHERE space_key = :space_key AND run_key < :before
   AND (CAST(:thread_id AS TEXT) IS NULL OR thread_key = (
        SELECT thread_key FROM threads t WHERE t.space_key = :space_key AND t.id = :thread_id))
   AND run_key >= :after AND (CAST(:created_from AS BIGINT) IS NULL OR created_at >= :created_from)
   AND (CAST(:created_to AS BIGINT) IS NULL OR created_at < :created_to)
   AND (:any_status = 1 OR holdfast_has(:statuses, status))
   AND (CAST(:phase AS TEXT) IS NULL OR :phase = CASE
        WHEN status IN ('pending', 'queued') AND started_at IS NULL THEN 'pending'
        WHEN status = 'waiting' AND status_reason = 'person' THEN 'asking'
        WHEN status IN ('pending', 'queued', 'running', 'waiting') THEN 'working'
        ELSE status END)
   AND (CAST(:priority AS TEXT) IS NULL OR priority = :priority)
   AND (CAST(:agent_type AS TEXT) IS NULL OR agent_type = :agent_type)
   AND (CAST(:mode AS TEXT) IS NULL OR mode = :mode)
   AND (CAST(:root_run_id AS TEXT) IS NULL OR root_run_id = :root_run_id)
   AND (CAST(:parent_run_id AS TEXT) IS NULL OR parent_run_id = :parent_run_id)
   AND (CAST(:model AS TEXT) IS NULL OR model = :model OR model_used = :model)
   AND (:any_tags = 1 OR holdfast_has_all(tags, :tags))
   AND (CAST(:memory_id AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM run_uses u
         WHERE u.space_key = :space_key AND u.kind = 'memory' AND u.name = :memory_id AND u.run_key = run_view.run_key))
   AND (CAST(:skill AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM run_uses u
         WHERE u.space_key = :space_key AND u.kind = 'skill' AND u.name = :skill AND u.run_key = run_view.run_key))
   AND (CAST(:thread_id AS TEXT) IS NOT NULL OR CAST(:root_run_id AS TEXT) IS NOT NULL OR CAST(:parent_run_id AS TEXT) IS NOT NULL
        OR (SELECT d.status FROM threads d WHERE d.thread_key = run_view.thread_key) <> 'deleted')
 ORDER BY run_key DESC
 LIMIT :limit;

-- name: run_keys_of_use
-- The first and the last run that used something.
SELECT MIN(run_key) AS first_key, MAX(run_key) AS last_key FROM run_uses
 WHERE space_key = :space_key AND kind = :kind AND name = :name;

-- name: run_from_key
-- The first run of a space from a key on, to find the keys of a time by bisection.
SELECT run_key, created_at FROM runs WHERE space_key = :space_key AND run_key >= :run_key ORDER BY run_key LIMIT 1;

-- name: last_run_key
SELECT MAX(run_key) AS run_key FROM runs WHERE space_key = :space_key;

-- name: children_at_work
SELECT COUNT(*) AS at_work FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.parent_key = :run_key AND h.status IN ('pending', 'queued', 'running', 'waiting');

-- name: above
-- The ancestors of a run, nearest first.
WITH RECURSIVE above (run_key, parent_key, distance) AS (
    SELECT run_key, parent_key, 0 FROM runs WHERE run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.parent_key, a.distance + 1 FROM above a JOIN runs r ON r.run_key = a.parent_key
)
SELECT run_key FROM above WHERE distance > 0 ORDER BY distance;

-- name: children
SELECT * FROM run_view WHERE parent_key = :run_key ORDER BY run_key;

-- name: branch_keys
-- The active runs of a branch, newest first. A run that was ended before it started may have an active base.
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
-- The run of a chain at a given depth, found by following jump keys.
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

-- name: idempotency_key
SELECT digest, run_key FROM idempotency_keys WHERE space_key = :space_key AND key = :key;

-- name: take_idempotency_key
-- Waits for a concurrent transaction that takes the same key. No row: the key was taken.
INSERT INTO idempotency_keys (space_key, key, digest) VALUES (:space_key, :key, :digest)
ON CONFLICT (space_key, key) DO NOTHING
RETURNING key;

-- name: settle_idempotency_key
UPDATE idempotency_keys SET run_key = :run_key WHERE space_key = :space_key AND key = :key;

-- name: head
SELECT * FROM run_heads WHERE run_key = :run_key;

-- name: opening
-- A run's thread, the head columns that its worker needs, and flags for further rows to read.
SELECT h.lease_number, h.unread, h.last_event_seq,
       EXISTS (SELECT 1 FROM steps s WHERE s.run_key = h.run_key) AS has_steps,
       EXISTS (SELECT 1 FROM run_values v WHERE v.run_key = h.run_key) AS has_values, t.*
  FROM run_heads h JOIN threads t ON t.thread_key = :thread_key
 WHERE h.run_key = :run_key;
