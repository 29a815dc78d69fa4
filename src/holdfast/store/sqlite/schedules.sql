-- name: lock_schedule
-- There is one writer, so no lock is needed.
SELECT c.*, s.id AS space_id FROM schedules c JOIN spaces s ON s.space_key = c.space_key WHERE s.id = :space AND c.id = :id;

-- name: add_missed
INSERT INTO firings (schedule_key, id, due_at, cause, outcome, reason, created_at)
VALUES (:schedule_key, :id, :due_at, 'due', :outcome, :reason, :now)
ON CONFLICT DO NOTHING;
