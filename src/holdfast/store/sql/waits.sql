-- name: forget_waits
DELETE FROM waits WHERE run_key = :run_key;

-- name: add_wait
INSERT INTO waits (run_key, target_key) VALUES (:run_key, :target_key) ON CONFLICT DO NOTHING;

-- name: depends_on
-- The runs that must end before a run can continue: those it waits for, or its base. The base also counts for a run that
-- was ended before it started, because the runs based on it wait for the same base.
SELECT r.base_key AS run_key FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.run_key = :run_key AND h.queued_at IS NULL AND r.base_key IS NOT NULL
UNION
SELECT target_key FROM waits WHERE run_key = :run_key;
