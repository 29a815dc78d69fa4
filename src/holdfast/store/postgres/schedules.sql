-- name: lock_schedule
SELECT c.*, s.id AS space_id FROM schedules c JOIN spaces s ON s.space_key = c.space_key WHERE s.id = :space AND c.id = :id
   FOR UPDATE OF c;

-- name: add_missed
INSERT INTO firings (schedule_key, id, due_at, cause, outcome, reason, created_at)
SELECT schedule_key, id, due_at, 'due', outcome, reason, now
  FROM unnest(:schedule_key::BIGINT[], :id::TEXT[], :due_at::BIGINT[], :outcome::TEXT[], :reason::TEXT[], :now::BIGINT[])
       AS n (schedule_key, id, due_at, outcome, reason, now)
ON CONFLICT DO NOTHING;
