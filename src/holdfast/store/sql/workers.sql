-- name: beat_worker
INSERT INTO workers (id, host, pid, version, concurrency, pools, api_key, lost_leases, started_at, last_beat_at)
VALUES (:id, :host, :pid, :version, :concurrency, :pools, :api_key, 0, :now, :now)
ON CONFLICT (id) DO UPDATE SET last_beat_at = excluded.last_beat_at
 WHERE COALESCE(workers.api_key, '') = COALESCE(excluded.api_key, '');

-- name: space_queue
SELECT weight, max_running FROM space_queues WHERE space_key = :space_key;

-- name: put_space_queue
INSERT INTO space_queues (space_key, weight, max_running) VALUES (:space_key, :weight, :max_running)
ON CONFLICT (space_key) DO UPDATE SET weight = excluded.weight, max_running = excluded.max_running;

-- name: drop_queue_of_space
DELETE FROM space_queues WHERE space_key = :space_key;

-- name: forget_workers
DELETE FROM workers WHERE (id = :id AND COALESCE(api_key, '') = COALESCE(:api_key, '')) OR last_beat_at < :before;

-- name: count_lost_lease
UPDATE workers SET lost_leases = lost_leases + 1 WHERE id = :id;

-- name: workers
SELECT * FROM workers ORDER BY started_at, id;

-- name: held_runs
-- Reads the index of leased runs: ended runs cost nothing.
SELECT h.lease_owner, r.space_key, r.id AS run_id, t.id AS thread_id, t.title, r.agent_type, h.leased_at,
       h.lease_expires_at,
       (SELECT s.name FROM steps s WHERE s.run_key = h.run_key AND s.state IN ('started', 'waiting')
         ORDER BY s.number DESC LIMIT 1) AS step
  FROM run_heads h JOIN runs r ON r.run_key = h.run_key JOIN threads t ON t.thread_key = r.thread_key
 WHERE h.lease_owner IS NOT NULL
 ORDER BY h.lease_expires_at, h.run_key;

-- name: queue_counts
-- Each count reads a partial index that holds only those runs.
SELECT (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'pending' AND r.space_key = :space_key) AS pending,
       (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'waiting' AND r.space_key = :space_key) AS waiting,
       (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'running' AND h.lease_owner IS NOT NULL AND r.space_key = :space_key) AS running,
       (SELECT COUNT(*) FROM run_heads h JOIN runs r ON r.run_key = h.run_key
         WHERE h.status = 'queued' AND h.wait_until IS NOT NULL AND r.space_key = :space_key) AS delayed;

-- name: ready_by_priority
SELECT r.priority, COUNT(*) AS ready, MIN(h.queued_at) AS oldest
  FROM run_heads h JOIN runs r ON r.run_key = h.run_key
 WHERE h.status = 'queued' AND h.wait_until IS NULL AND r.space_key = :space_key
 GROUP BY r.priority;

-- name: backlogs
-- Each part reads a partial index that holds only those runs.
SELECT s.id AS space_id, q.weight, q.max_running, w.part, r.priority, COUNT(*) AS runs, MIN(w.queued_at) AS oldest
  FROM (SELECT run_key, queued_at, 'ready' AS part FROM run_heads WHERE status = 'queued' AND wait_until IS NULL
        UNION ALL
        SELECT run_key, queued_at, 'delayed' FROM run_heads WHERE status = 'queued' AND wait_until IS NOT NULL
        UNION ALL
        SELECT run_key, queued_at, 'running' FROM run_heads WHERE status = 'running' AND lease_owner IS NOT NULL) w
  JOIN runs r ON r.run_key = w.run_key
  JOIN spaces s ON s.space_key = r.space_key
  LEFT JOIN space_queues q ON q.space_key = r.space_key
 GROUP BY s.id, q.weight, q.max_running, w.part, r.priority
 ORDER BY s.id;

-- name: queued_runs
-- Ready runs in the order of their claim, then delayed ones by time, then those that wait for their base.
SELECT q.part, q.place, q.run_key, r.id AS run_id, t.id AS thread_id, t.title, r.agent_type, h.pool, r.priority, h.status,
       h.status_reason, h.queued_at, h.wait_until, h.attempt
  FROM (SELECT 0 AS part, queue_key AS place, run_key FROM run_heads WHERE status = 'queued' AND wait_until IS NULL
        UNION ALL
        SELECT 1, wait_until, run_key FROM run_heads WHERE status = 'queued' AND wait_until IS NOT NULL
        UNION ALL
        SELECT 2, run_key, run_key FROM run_heads WHERE status = 'pending') q
  JOIN runs r ON r.run_key = q.run_key
  JOIN run_heads h ON h.run_key = q.run_key
  JOIN threads t ON t.thread_key = r.thread_key
 WHERE r.space_key = :space_key
   AND (q.part > :part OR (q.part = :part AND (q.place > :place OR (q.place = :place AND q.run_key > :run_key))))
 ORDER BY q.part, q.place, q.run_key
 LIMIT :limit;
