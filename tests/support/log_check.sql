-- Each statement finds what breaks the rule that it is named after. Tombstones keep a place in a chain and nothing else.

-- rule: every run has a head, and every head a run
SELECT run_key FROM runs WHERE run_key NOT IN (SELECT run_key FROM run_heads)
UNION
SELECT run_key FROM run_heads WHERE run_key NOT IN (SELECT run_key FROM runs);

-- rule: every run stands on a thread of its space
SELECT r.id FROM runs r LEFT JOIN threads t ON t.thread_key = r.thread_key AND t.space_key = r.space_key
 WHERE t.thread_key IS NULL;

-- rule: the base, the parent and the root of a run are there
SELECT r.id FROM runs r
  LEFT JOIN runs b ON b.run_key = r.base_key LEFT JOIN runs p ON p.run_key = r.parent_key LEFT JOIN runs o ON o.run_key = r.root_key
 WHERE (r.base_key IS NOT NULL AND b.run_key IS NULL) OR (r.parent_key IS NOT NULL AND p.run_key IS NULL)
    OR (r.root_key IS NOT NULL AND o.run_key IS NULL);

-- rule: the id of every run is kept, once
SELECT r.id FROM runs r LEFT JOIN run_ids i ON i.run_key = r.run_key AND i.id = r.id AND i.space_key = r.space_key
 GROUP BY r.run_key, r.id
HAVING COUNT(i.id) <> 1;

-- rule: events are numbered from 1 to the last one of the head without a gap
SELECT r.id, h.last_event_seq, e.events, e.lowest, e.highest
  FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  LEFT JOIN (SELECT run_key, COUNT(DISTINCT seq) AS events, MIN(seq) AS lowest, MAX(seq) AS highest FROM events GROUP BY run_key) e
    ON e.run_key = r.run_key
 WHERE COALESCE(e.events, 0) <> h.last_event_seq OR COALESCE(e.highest, 0) <> h.last_event_seq OR COALESCE(e.lowest, 1) <> 1
    OR (r.erased = 0 AND h.last_event_seq < 1) OR (r.erased = 1 AND h.last_event_seq <> 0);

-- rule: nothing belongs to a run that is not there
-- A tombstone keeps what came with its base for those who continue from it.
SELECT k.kind, k.run_key
  FROM (SELECT 'event' AS kind, run_key FROM events UNION SELECT 'message', run_key FROM messages
        UNION SELECT 'step', run_key FROM steps UNION SELECT 'value', run_key FROM run_values WHERE source_key IS NULL
        UNION SELECT 'inherited', run_key FROM run_values WHERE source_key IS NOT NULL
        UNION SELECT 'item', run_key FROM inbox UNION SELECT 'interrupt', run_key FROM interrupts
        UNION SELECT 'artifact', run_key FROM artifacts UNION SELECT 'timer', run_key FROM timers WHERE run_key IS NOT NULL
        UNION SELECT 'budget', run_key FROM budgets UNION SELECT 'wait', run_key FROM waits
        UNION SELECT 'context', run_key FROM contexts) k
  LEFT JOIN runs r ON r.run_key = k.run_key
 WHERE r.run_key IS NULL OR (r.erased = 1 AND k.kind <> 'inherited');

-- rule: a sequence is given once in a thread, below its next one
SELECT m.thread_key, m.sequence FROM messages m JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.sequence IS NOT NULL
 GROUP BY m.thread_key, m.sequence, t.next_sequence
HAVING COUNT(*) > 1 OR m.sequence < 0 OR m.sequence >= t.next_sequence;

-- rule: a message is on the thread of its run
SELECT m.id FROM messages m JOIN runs r ON r.run_key = m.run_key WHERE m.thread_key <> r.thread_key;

-- rule: no message is there twice
SELECT run_key, id FROM messages GROUP BY run_key, id HAVING COUNT(*) > 1;

-- rule: a message has the id of none in its base
SELECT m.id FROM messages m JOIN runs r ON r.run_key = m.run_key
  JOIN messages b ON b.run_key = r.base_key AND b.id = m.id AND (r.base_sequence IS NULL OR b.sequence <= r.base_sequence);

-- rule: sequences ascend along a chain
SELECT r.id, m.sequence FROM runs r
  JOIN messages m ON m.run_key = r.run_key
  JOIN messages b ON b.run_key = r.base_key AND (r.base_sequence IS NULL OR b.sequence <= r.base_sequence)
 WHERE m.sequence <= b.sequence;

-- rule: only input of a run that has not begun is without a sequence
SELECT m.id FROM messages m JOIN run_heads h ON h.run_key = m.run_key
 WHERE m.sequence IS NULL AND h.status NOT IN ('pending', 'failed', 'cancelled');

-- rule: a tool call is answered once
SELECT run_key, tool_call_id FROM messages WHERE tool_call_id IS NOT NULL GROUP BY run_key, tool_call_id HAVING COUNT(*) > 1;

-- rule: the unread of a head are the items of its inbox
SELECT r.id, h.unread, COUNT(i.number) AS items FROM runs r
  JOIN run_heads h ON h.run_key = r.run_key
  LEFT JOIN inbox i ON i.run_key = r.run_key
 WHERE r.erased = 0
 GROUP BY r.run_key, r.id, h.unread, h.last_inbox_number
HAVING COUNT(i.number) <> h.unread OR COALESCE(MAX(i.number), 0) > h.last_inbox_number;

-- rule: no run waits with something unread
SELECT run_key FROM run_heads WHERE status = 'waiting' AND unread > 0;

-- rule: a live run has a lease if and only if it is running, with an owner and an end
SELECT run_key, status, lease_owner FROM run_heads
 WHERE (lease_owner IS NULL) <> (lease_expires_at IS NULL) OR (status = 'running' AND lease_owner IS NULL)
    OR (status IN ('pending', 'queued', 'waiting') AND lease_owner IS NOT NULL);

-- rule: a run is pending if and only if its base has not ended or still has a worker
SELECT r.id FROM runs r JOIN run_heads h ON h.run_key = r.run_key LEFT JOIN run_heads b ON b.run_key = r.base_key
 WHERE h.status = 'pending'
   AND (r.base_key IS NULL OR (b.status IN ('completed', 'failed', 'cancelled') AND b.lease_owner IS NULL AND b.queued_at IS NOT NULL));

-- rule: a run has ended if and only if it says when
SELECT r.id FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE (h.status IN ('completed', 'failed', 'cancelled')) <> (r.completed_at IS NOT NULL);

-- rule: an ended run has no open interrupt, timer or step
SELECT r.id, k.kind
  FROM (SELECT 'interrupt' AS kind, run_key FROM interrupts WHERE status = 'open'
        UNION SELECT 'timer', run_key FROM timers WHERE state IN ('scheduled', 'paused') AND run_key IS NOT NULL
        UNION SELECT 'step', run_key FROM steps WHERE state IN ('started', 'waiting')) k
  JOIN run_heads h ON h.run_key = k.run_key
  JOIN runs r ON r.run_key = k.run_key
 WHERE h.status IN ('completed', 'failed', 'cancelled');

-- rule: a timer is paused only while its run waits for a person
SELECT t.id FROM timers t LEFT JOIN run_heads h ON h.run_key = t.run_key AND h.status = 'waiting' AND h.status_reason = 'person'
 WHERE t.state = 'paused' AND h.run_key IS NULL;

-- rule: for whom a run waits is kept only while it waits
SELECT w.run_key, h.status FROM waits w JOIN run_heads h ON h.run_key = w.run_key WHERE h.status <> 'waiting';

-- rule: no runs wait for each other
WITH RECURSIVE ahead (run_key, target_key) AS (
    SELECT run_key, target_key FROM waits
    UNION
    SELECT a.run_key, w.target_key FROM ahead a JOIN waits w ON w.run_key = a.target_key
)
SELECT run_key FROM ahead WHERE run_key = target_key;

-- rule: a budget has counted all that is used below it
WITH RECURSIVE below (budget_key, run_key) AS (
    SELECT run_key, run_key FROM budgets
    UNION ALL
    SELECT b.budget_key, r.run_key FROM below b JOIN runs r ON r.parent_key = b.run_key
)
SELECT u.budget_key, u.tokens, b.tokens AS counted
  FROM (SELECT d.budget_key, SUM(r.input_tokens + r.output_tokens) AS tokens, SUM(r.cost_nanodollars) AS cost,
               COUNT(*) - COUNT(r.cost_nanodollars) AS unknown
          FROM below d JOIN runs r ON r.run_key = d.run_key
         GROUP BY d.budget_key) u
  JOIN budgets b ON b.run_key = u.budget_key
 WHERE u.tokens > b.tokens OR u.cost > b.cost_nanodollars OR (u.unknown > 0 AND b.cost_nanodollars IS NOT NULL);

-- rule: the numbers of plan items are of a thread that is there
SELECT thread_key, number FROM task_numbers WHERE thread_key NOT IN (SELECT thread_key FROM threads);

-- rule: a run below one that was ended has ended
SELECT r.id FROM runs r JOIN run_heads h ON h.run_key = r.run_key JOIN run_heads p ON p.run_key = r.parent_key
 WHERE p.status = 'cancelled' AND h.status NOT IN ('completed', 'failed', 'cancelled');

-- rule: a step has settled if and only if it says when
SELECT run_key, number FROM steps WHERE (state IN ('started', 'waiting')) <> (settled_at IS NULL);

-- rule: a value that was inherited has its source
SELECT v.run_key, v.name FROM run_values v LEFT JOIN run_values s ON s.value_key = v.source_key
 WHERE v.source_key IS NOT NULL AND s.value_key IS NULL;

-- rule: news are numbered from 1 to the last of the space without a gap
SELECT s.id FROM spaces s LEFT JOIN notifications n ON n.space_key = s.space_key
 GROUP BY s.space_key, s.id, s.last_notification
HAVING COUNT(DISTINCT n.number) <> s.last_notification OR COALESCE(MAX(n.number), 0) <> s.last_notification;

-- rule: the bytes of every file are there
SELECT f.id FROM files f LEFT JOIN blobs b ON b.blob_key = f.blob_key WHERE b.blob_key IS NULL;

-- rule: streams
-- Not a rule itself: what the verifier reads.
SELECT r.run_key, r.id, h.status, e.data
  FROM runs r JOIN run_heads h ON h.run_key = r.run_key JOIN events e ON e.run_key = r.run_key
 ORDER BY r.run_key, e.seq;
