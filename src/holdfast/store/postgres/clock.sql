-- name: store_time
SELECT COALESCE(:now, holdfast_now()) AS now;

-- name: clock_state
-- The time, the latest time that was seen, and whether anything waits for a time.
SELECT COALESCE(:now, holdfast_now()) AS now, (SELECT seen_at FROM store_clock) AS seen_at,
       EXISTS (SELECT 1 FROM timers WHERE state = 'scheduled')
    OR EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until IS NULL)
    OR EXISTS (SELECT 1 FROM run_heads WHERE status = 'queued' AND wait_until IS NOT NULL)
    OR EXISTS (SELECT 1 FROM run_heads WHERE lease_owner IS NOT NULL)
    OR EXISTS (SELECT 1 FROM deliveries WHERE state = 'pending' AND due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM interrupts WHERE status = 'open') AS waits;

-- name: note_clock
INSERT INTO store_clock (store_clock_key, seen_at, previous_at) VALUES (1, COALESCE(:now, holdfast_now()), COALESCE(:now, holdfast_now()))
ON CONFLICT (store_clock_key) DO UPDATE SET previous_at = store_clock.seen_at, seen_at = COALESCE(:now, holdfast_now())
RETURNING previous_at - seen_at AS went_back;
