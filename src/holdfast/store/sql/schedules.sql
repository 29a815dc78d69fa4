-- name: add_schedule
INSERT INTO schedules (space_key, id, kind, name, state, plan, due_at, hook_hash, created_by, created_at, updated_at)
VALUES (:space_key, :id, :kind, :name, :state, :plan, :due_at, :hook_hash, :created_by, :now, :now)
ON CONFLICT DO NOTHING
RETURNING schedule_key;

-- name: schedule
SELECT c.*, s.id AS space_id FROM schedules c JOIN spaces s ON s.space_key = c.space_key WHERE s.id = :space AND c.id = :id;

-- name: schedule_of_hook
SELECT c.*, s.id AS space_id FROM schedules c JOIN spaces s ON s.space_key = c.space_key WHERE c.hook_hash = :hook_hash;

-- name: list_schedules
SELECT c.*, s.id AS space_id
  FROM schedules c JOIN spaces s ON s.space_key = c.space_key
 WHERE c.space_key = :space_key AND c.kind = :kind AND c.schedule_key < :before
   AND (CAST(:state AS TEXT) IS NULL OR c.state = :state)
 ORDER BY c.schedule_key DESC LIMIT :limit;

-- name: update_schedule
UPDATE schedules SET name = :name, plan = :plan, state = :state, due_at = :due_at, hook_hash = :hook_hash, updated_at = :now
 WHERE schedule_key = :schedule_key;

-- name: set_schedule_plan
UPDATE schedules SET plan = :plan, updated_at = :now WHERE schedule_key = :schedule_key;

-- name: advance_schedule
UPDATE schedules SET state = :state, due_at = :due_at WHERE schedule_key = :schedule_key;

-- name: note_firing
UPDATE schedules SET last_run_id = COALESCE(:run_id, last_run_id), thread_id = :thread_id, last_outcome = :outcome
 WHERE schedule_key = :schedule_key;

-- name: drop_schedule
DELETE FROM schedules WHERE schedule_key = :schedule_key;

-- name: drop_firings
DELETE FROM firings WHERE schedule_key = :schedule_key;

-- name: drop_timer
DELETE FROM timers WHERE space_key = :space_key AND id = :id;

-- name: arm_timer
-- Sets the timer of a schedule; a claim of it settles nothing any more.
INSERT INTO timers (space_key, run_key, id, kind, due_at, state, created_at)
VALUES (:space_key, NULL, :id, 'schedule', :due_at, 'scheduled', :now)
ON CONFLICT (space_key, id) DO UPDATE
   SET due_at = :due_at, state = 'scheduled', claim_owner = NULL, claim_expires_at = NULL,
       claim_number = timers.claim_number + 1;

-- name: disarm_timer
UPDATE timers SET state = 'cancelled', claim_owner = NULL, claim_expires_at = NULL
 WHERE space_key = :space_key AND id = :id AND state = 'scheduled';

-- name: add_firing
-- No row: this due time, or this delivery of a hook, has a firing already.
INSERT INTO firings (schedule_key, id, due_at, cause, outcome, reason, run_id, hook_id, created_at)
VALUES (:schedule_key, :id, :due_at, :cause, :outcome, :reason, :run_id, :hook_id, :now)
ON CONFLICT DO NOTHING
RETURNING firing_key;

-- name: firing
SELECT f.*, c.id AS schedule_id, h.status AS run_status
  FROM firings f
  JOIN schedules c ON c.schedule_key = f.schedule_key
  LEFT JOIN runs r ON r.space_key = c.space_key AND r.id = f.run_id
  LEFT JOIN run_heads h ON h.run_key = r.run_key
 WHERE f.firing_key = :firing_key;

-- name: drop_old_firings
-- Of the oldest firings of a schedule. Checks stay, because the budget of a judge is counted from them, and so do those
-- whose run has not ended.
DELETE FROM firings WHERE firing_key IN (
    SELECT f.firing_key
      FROM (SELECT * FROM firings
             WHERE schedule_key = :schedule_key
               AND firing_key < (SELECT firing_key FROM firings WHERE schedule_key = :schedule_key
                                  ORDER BY firing_key DESC LIMIT 1 OFFSET :newest)
             ORDER BY firing_key LIMIT :limit) f
      LEFT JOIN runs r ON r.space_key = :space_key AND r.id = f.run_id
      LEFT JOIN run_heads h ON h.run_key = r.run_key
     WHERE f.created_at < :before AND f.cause <> 'check'
       AND COALESCE(h.status, '') NOT IN ('pending', 'queued', 'running', 'waiting'));

-- name: firing_due
SELECT firing_key FROM firings WHERE schedule_key = :schedule_key AND due_at = :due_at AND cause = 'due';

-- name: last_firing
SELECT f.*, c.id AS schedule_id, h.status AS run_status
  FROM firings f
  JOIN schedules c ON c.schedule_key = f.schedule_key
  LEFT JOIN runs r ON r.space_key = c.space_key AND r.id = f.run_id
  LEFT JOIN run_heads h ON h.run_key = r.run_key
 WHERE f.schedule_key = :schedule_key
 ORDER BY f.firing_key DESC LIMIT 1;

-- name: firing_of_hook
SELECT f.*, c.id AS schedule_id, h.status AS run_status
  FROM firings f
  JOIN schedules c ON c.schedule_key = f.schedule_key
  LEFT JOIN runs r ON r.space_key = c.space_key AND r.id = f.run_id
  LEFT JOIN run_heads h ON h.run_key = r.run_key
 WHERE f.schedule_key = :schedule_key AND f.hook_id = :hook_id;

-- name: list_firings
SELECT f.*, c.id AS schedule_id, h.status AS run_status
  FROM firings f
  JOIN schedules c ON c.schedule_key = f.schedule_key
  LEFT JOIN runs r ON r.space_key = c.space_key AND r.id = f.run_id
  LEFT JOIN run_heads h ON h.run_key = r.run_key
 WHERE f.schedule_key = :schedule_key AND f.firing_key < :before
   AND (CAST(:outcome AS TEXT) IS NULL OR f.outcome = :outcome)
 ORDER BY f.firing_key DESC LIMIT :limit;

-- name: active_runs_of_schedule
-- Runs of the latest firings with a run, which have not ended.
SELECT r.run_key, r.id, h.status, h.status_reason
  FROM (SELECT run_id FROM firings WHERE schedule_key = :schedule_key AND run_id IS NOT NULL
         ORDER BY firing_key DESC LIMIT :limit) f
  JOIN runs r ON r.space_key = :space_key AND r.id = f.run_id
  JOIN run_heads h ON h.run_key = r.run_key
 WHERE h.status IN ('pending', 'queued', 'running', 'waiting')
 ORDER BY r.run_key;

-- name: put_daemon
INSERT INTO daemons (space_key, agent, stopped, changed_by, changed_at) VALUES (:space_key, :agent, :stopped, :changed_by, :now)
ON CONFLICT (space_key, agent) DO UPDATE SET stopped = :stopped, changed_by = :changed_by, changed_at = :now;

-- name: daemons_of_space
SELECT * FROM daemons WHERE space_key = :space_key ORDER BY agent;

-- name: daemon_schedules
SELECT c.*, s.id AS space_id FROM schedules c JOIN spaces s ON s.space_key = c.space_key
 WHERE c.space_key = :space_key AND c.kind = 'daemon' ORDER BY c.name;

-- name: drop_firings_of_space
DELETE FROM firings WHERE schedule_key IN (SELECT schedule_key FROM schedules WHERE space_key = :space_key);

-- name: drop_schedules_of_space
DELETE FROM schedules WHERE space_key = :space_key;

-- name: drop_daemons_of_space
DELETE FROM daemons WHERE space_key = :space_key;
