-- name: add_reminder
INSERT INTO reminders (space_key, id, content, context, trigger_type, trigger_value, timezone, priority, status, recurrence,
                       action, thread_id, owner, run_id, taint, created_at, updated_at)
VALUES (:space_key, :id, :content, :context, :trigger_type, :trigger_value, :timezone, :priority, 'pending', :recurrence,
        :action, :thread_id, :owner, :run_id, :taint, :now, :now)
ON CONFLICT DO NOTHING
RETURNING reminder_key;

-- name: reminder
SELECT r.*, s.id AS space_id, c.due_at FROM reminders r
  JOIN spaces s ON s.space_key = r.space_key
  JOIN schedules c ON c.space_key = r.space_key AND c.id = r.id
 WHERE s.id = :space AND r.id = :id;

-- name: reminder_of_schedule
SELECT * FROM reminders WHERE space_key = :space_key AND id = :id;

-- name: list_reminders
-- Highest priority first, then newest.
SELECT r.*, s.id AS space_id, c.due_at FROM reminders r
  JOIN spaces s ON s.space_key = r.space_key
  JOIN schedules c ON c.space_key = r.space_key AND c.id = r.id
 WHERE r.space_key = :space_key
   AND (r.priority < :rank OR (r.priority = :rank AND r.reminder_key < :before))
   AND (CAST(:status AS TEXT) IS NULL OR r.status = :status)
   AND (CAST(:priority AS BIGINT) IS NULL OR r.priority = :priority)
   AND (CAST(:trigger_type AS TEXT) IS NULL OR r.trigger_type = :trigger_type)
   AND (CAST(:thread_id AS TEXT) IS NULL OR r.thread_id = :thread_id)
 ORDER BY r.priority DESC, r.reminder_key DESC LIMIT :limit;

-- name: reminders_of_turn
-- Those that are triggered, or whose context the message of the turn has just met; the newest first within a priority,
-- so that one that nobody settles hides no other.
SELECT r.*, s.id AS space_id, NULL AS due_at, r.triggered_at AS since FROM reminders r JOIN spaces s ON s.space_key = r.space_key
 WHERE r.space_key = :space_key AND r.status = 'triggered'
   AND (r.thread_id = :thread_id OR (r.thread_id IS NULL AND COALESCE(r.owner, '') = COALESCE(CAST(:owner AS TEXT), '')))
UNION ALL
SELECT r.*, s.id AS space_id, NULL AS due_at, c.met_at AS since FROM conditions c
  JOIN reminders r ON r.reminder_key = c.reminder_key
  JOIN spaces s ON s.space_key = r.space_key
 WHERE c.space_key = :space_key AND c.met_at IS NOT NULL AND r.status = 'pending'
   AND (r.thread_id = :thread_id OR (r.thread_id IS NULL AND COALESCE(r.owner, '') = COALESCE(CAST(:owner AS TEXT), '')))
 ORDER BY priority DESC, since DESC, reminder_key DESC LIMIT :limit;

-- name: any_armed_condition
-- In the order of the index: those that are not armed are not read.
SELECT 1 AS armed FROM conditions WHERE armed = 1 ORDER BY space_key LIMIT 1;

-- name: update_reminder
UPDATE reminders
   SET content = :content, context = :context, trigger_type = :trigger_type, trigger_value = :trigger_value,
       timezone = :timezone, priority = :priority, recurrence = :recurrence, action = :action, thread_id = :thread_id,
       updated_at = :now
 WHERE reminder_key = :reminder_key;

-- name: set_reminder_status
UPDATE reminders SET status = :status, snoozed_until = :snoozed_until, updated_at = :now WHERE reminder_key = :reminder_key;

-- name: trigger_reminder
-- A reminder that was completed or dismissed stays so.
UPDATE reminders SET status = 'triggered', triggered_at = :now, trigger_reason = :reason, snoozed_until = NULL, updated_at = :now
 WHERE reminder_key = :reminder_key AND status IN ('pending', 'triggered')
RETURNING reminder_key;

-- name: drop_reminder
DELETE FROM reminders WHERE reminder_key = :reminder_key;

-- name: put_condition
INSERT INTO conditions (reminder_key, space_key, id, event, agent, thread_id, spec, armed, armed_at, matches)
VALUES (:reminder_key, :space_key, :id, :event, :agent, :thread_id, :spec, 1, :now, '[]')
ON CONFLICT (reminder_key) DO UPDATE
   SET event = :event, agent = :agent, thread_id = :thread_id, spec = :spec, armed = 1, armed_at = :now, matches = '[]',
       met_at = NULL, reason = NULL;

-- name: condition_of_schedule
SELECT * FROM conditions WHERE reminder_key = :reminder_key;

-- name: newest_contexts
SELECT * FROM (SELECT reminder_key, space_key, id, spec FROM conditions
                WHERE space_key = :space_key AND event = 'message' AND agent = '' AND thread_id = '' AND armed = 1
                ORDER BY reminder_key DESC LIMIT :limit) AS anywhere
UNION ALL
SELECT * FROM (SELECT reminder_key, space_key, id, spec FROM conditions
                WHERE space_key = :space_key AND event = 'message' AND agent = '' AND thread_id = :thread_id AND armed = 1
                ORDER BY reminder_key DESC LIMIT :limit) AS here;

-- name: count_for_condition
UPDATE conditions SET matches = :matches WHERE reminder_key = :reminder_key;

-- name: meet_condition
-- No row: another event met it first, or it is not armed.
UPDATE conditions SET armed = 0, met_at = :now, reason = :reason, matches = '[]'
 WHERE reminder_key = :reminder_key AND armed = 1
RETURNING reminder_key;

-- name: disarm_condition
UPDATE conditions SET armed = 0, met_at = NULL, reason = NULL, matches = '[]' WHERE reminder_key = :reminder_key;

-- name: drop_condition
DELETE FROM conditions WHERE reminder_key = :reminder_key;

-- name: drop_reminder_terms
DELETE FROM reminder_terms WHERE reminder_key = :reminder_key;

-- name: check_of_run
-- The reminder whose judge was asked with this run.
SELECT r.* FROM reminders r
  JOIN schedules c ON c.space_key = r.space_key AND c.id = r.id
  JOIN firings f ON f.schedule_key = c.schedule_key AND f.cause = 'check' AND f.run_id = :run_id
 WHERE r.space_key = :space_key AND r.id = :id;

-- name: spent_on_checks
SELECT CAST(COALESCE(SUM(r.input_tokens + r.output_tokens), 0) AS BIGINT) AS tokens,
       CAST(COALESCE(SUM(r.cost_nanodollars), 0) AS BIGINT) AS nanodollars
  FROM firings f JOIN runs r ON r.space_key = :space_key AND r.id = f.run_id
 WHERE f.schedule_key = :schedule_key AND f.cause = 'check';

-- name: drop_reminder_terms_of_space
DELETE FROM reminder_terms WHERE space_key = :space_key;

-- name: drop_conditions_of_space
DELETE FROM conditions WHERE space_key = :space_key;

-- name: drop_reminders_of_space
DELETE FROM reminders WHERE space_key = :space_key;
