-- name: lock_reminder
-- Whoever changes a reminder locks its schedule first.
SELECT r.*, s.id AS space_id, c.due_at, c.schedule_key, c.state, c.plan, c.hook_hash, c.name
  FROM reminders r
  JOIN spaces s ON s.space_key = r.space_key
  JOIN schedules c ON c.space_key = r.space_key AND c.id = r.id
 WHERE s.id = :space AND r.id = :id
   FOR UPDATE OF c;

-- name: armed_conditions
-- Locked in the order of their keys, so that two events cannot deadlock.
SELECT c.* FROM conditions c
 WHERE c.reminder_key = ANY(ARRAY(
       SELECT m.reminder_key
         FROM unnest(:space_key::BIGINT[], :event::TEXT[], :agent::TEXT[], :thread_id::TEXT[]) AS w (space_key, event, agent, thread_id)
         JOIN conditions m ON m.space_key = w.space_key AND m.event = w.event AND m.agent = w.agent
                          AND m.thread_id = w.thread_id AND m.armed = 1))
   AND c.armed = 1
 ORDER BY c.reminder_key
   FOR UPDATE OF c;

-- name: spaces_with_contexts
-- The order is that of the index: without it the planner reads the table, in which the first context may come last.
SELECT w.space_key FROM unnest(:space_key::BIGINT[]) AS w (space_key)
 CROSS JOIN LATERAL (SELECT 1 FROM conditions c
                      WHERE c.space_key = w.space_key AND c.event = 'message' AND c.armed = 1
                      ORDER BY c.agent, c.thread_id, c.reminder_key LIMIT 1) AS found;

-- name: contexts_with_terms
-- Contexts that share terms with a message, and how many. With `=` the planner would expect the share of all terms that
-- an average one has, and read all of them where a few are common; OFFSET keeps it from joining whole tables.
SELECT c.*, t.shared
  FROM (SELECT t.reminder_key, COUNT(*) AS shared
          FROM json_array_elements_text(:terms::JSON) j (term)
         CROSS JOIN LATERAL (SELECT o.reminder_key FROM reminder_terms o
                              WHERE o.space_key = :space_key AND o.term BETWEEN j.term AND j.term OFFSET 0) t
         GROUP BY t.reminder_key) t
 CROSS JOIN LATERAL (SELECT * FROM conditions o
                      WHERE o.reminder_key = t.reminder_key AND o.armed = 1 AND o.thread_id IN (:thread_id, '') OFFSET 0) c
 ORDER BY c.reminder_key;

-- name: add_reminder_terms
INSERT INTO reminder_terms (space_key, term, reminder_key)
SELECT * FROM unnest(:space_key::BIGINT[], :term::TEXT[], :reminder_key::BIGINT[]);
