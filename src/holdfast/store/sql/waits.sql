-- name: forget_waits
DELETE FROM waits WHERE run_key = :run_key;

-- name: add_wait
INSERT INTO waits (run_key, target_key) VALUES (:run_key, :target_key) ON CONFLICT DO NOTHING;

-- name: depends_on
-- What must end before a run can go on: those it waits for, or its base, which counts also for one that was ended
-- before it began, because those based on it wait for the same.
SELECT r.base_key AS run_key FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.run_key = :run_key AND h.queued_at IS NULL AND r.base_key IS NOT NULL
UNION
SELECT target_key FROM waits WHERE run_key = :run_key;
