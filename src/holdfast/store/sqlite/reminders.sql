-- name: lock_reminder
-- There is one writer, so no lock is needed.
SELECT r.*, s.id AS space_id, c.due_at, c.schedule_key, c.state, c.plan, c.hook_hash, c.name
  FROM reminders r
  JOIN spaces s ON s.space_key = r.space_key
  JOIN schedules c ON c.space_key = r.space_key AND c.id = r.id
 WHERE s.id = :space AND r.id = :id;

-- name: armed_conditions
WITH wanted (space_key, event, agent, thread_id) AS (VALUES (:space_key, :event, :agent, :thread_id))
SELECT c.* FROM wanted w CROSS JOIN conditions c
 WHERE c.space_key = w.space_key AND c.event = w.event AND c.agent = w.agent AND c.thread_id = w.thread_id AND c.armed = 1;

-- name: spaces_with_contexts
WITH wanted (space_key) AS (VALUES (:space_key))
SELECT w.space_key FROM wanted w
 WHERE EXISTS (SELECT 1 FROM conditions c WHERE c.space_key = w.space_key AND c.event = 'message' AND c.armed = 1);

-- name: contexts_with_terms
-- Contexts that share terms with a message, and how many.
SELECT c.*, t.shared
  FROM (SELECT t.reminder_key, COUNT(*) AS shared
          FROM json_each(:terms) j CROSS JOIN reminder_terms t ON t.space_key = :space_key AND t.term = j.value
         GROUP BY t.reminder_key) t
  CROSS JOIN conditions c ON c.reminder_key = t.reminder_key
 WHERE c.armed = 1 AND c.thread_id IN (:thread_id, '')
 ORDER BY c.reminder_key;

-- name: add_reminder_terms
INSERT INTO reminder_terms (space_key, term, reminder_key) VALUES (:space_key, :term, :reminder_key);
