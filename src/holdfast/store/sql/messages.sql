-- name: message_at
SELECT m.run_key, r.chain_depth, m.sequence, m.created_at FROM messages m JOIN runs r ON r.run_key = m.run_key
 WHERE m.thread_key = :thread_key AND m.sequence = :sequence;

-- name: message_by_key
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.message_key = :message_key;

-- name: history
-- Walks the chain from a run to its bases, past at most `hops` runs.
WITH RECURSIVE chain (run_key, base_key, base_sequence, cut, hops) AS (
    SELECT run_key, base_key, base_sequence, CAST(:before AS BIGINT), 1 FROM runs WHERE run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.base_key, r.base_sequence, COALESCE(c.base_sequence + 1, CAST(:before AS BIGINT)), c.hops + 1
      FROM chain c JOIN runs r ON r.run_key = c.base_key
     WHERE c.hops < :hops
)
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM chain c
  JOIN messages m ON m.run_key = c.run_key AND m.sequence < c.cut AND m.sequence < :before
  JOIN runs r ON r.run_key = m.run_key
  JOIN threads t ON t.thread_key = m.thread_key
 ORDER BY m.sequence DESC
 LIMIT :limit;

-- name: last_of_run
-- The last messages of a run without a base; its own ids are passed in and need no join.
SELECT m.*, CAST(:run_id AS TEXT) AS run_id, CAST(:thread_id AS TEXT) AS thread_id
  FROM messages m
 WHERE m.run_key = :run_key AND m.sequence IS NOT NULL
 ORDER BY m.sequence DESC
 LIMIT :limit;

-- name: chain_end
-- The last run that `history` visits with the same `hops`, and its base, where the walk continues.
WITH RECURSIVE chain (run_key, base_key, base_sequence, hops) AS (
    SELECT run_key, base_key, base_sequence, 1 FROM runs WHERE run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.base_key, r.base_sequence, c.hops + 1
      FROM chain c JOIN runs r ON r.run_key = c.base_key
     WHERE c.hops < :hops
)
SELECT base_key, base_sequence FROM chain ORDER BY hops DESC LIMIT 1;

-- name: messages_of_run
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.run_key = :run_key
 ORDER BY m.message_key;

-- name: waiting_input
-- Messages without a sequence, which have not entered the conversation yet.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.run_key = :run_key AND m.sequence IS NULL
 ORDER BY m.message_key;

-- name: waiting_on_chain
-- The messages without a sequence of a run and of the bases that must end before it can start, newest first: those of
-- the run itself, then those of its base, which may have been added later. `before` limits them to earlier messages.
WITH RECURSIVE chain (run_key, base_key, queued_at, depth) AS (
    SELECT r.run_key, r.base_key, h.queued_at, 0
      FROM runs r JOIN run_heads h ON h.run_key = r.run_key WHERE r.run_key = :run_key
    UNION ALL
    SELECT r.run_key, r.base_key, h.queued_at, c.depth + 1
      FROM chain c JOIN runs r ON r.run_key = c.base_key JOIN run_heads h ON h.run_key = r.run_key
     WHERE c.queued_at IS NULL
),
edge (depth) AS (
    SELECT c.depth FROM messages m JOIN chain c ON c.run_key = m.run_key WHERE m.message_key = :before
)
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM chain c
  JOIN messages m ON m.run_key = c.run_key AND m.sequence IS NULL
  JOIN runs r ON r.run_key = m.run_key
  JOIN threads t ON t.thread_key = m.thread_key
 WHERE c.depth > COALESCE((SELECT depth FROM edge), -1)
    OR (c.depth = (SELECT depth FROM edge) AND m.message_key < :before)
 ORDER BY c.depth, m.message_key DESC
 LIMIT :limit;

-- name: last_exchange
-- The last assistant message of a run, with the messages after it.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.run_key = :run_key AND m.sequence >= COALESCE((
       SELECT MAX(a.sequence) FROM messages a WHERE a.run_key = :run_key AND a.role = 'assistant'), 0)
 ORDER BY m.sequence;

-- name: revisions
-- All messages of a thread that revise one another, directly or not; a revision may have the id that it revises.
WITH RECURSIVE versions (id) AS (
    SELECT CAST(:id AS TEXT)
    UNION
    SELECT CASE WHEN m.id = v.id THEN m.revises ELSE m.id END
      FROM versions v JOIN messages m ON m.thread_key = :thread_key AND (m.id = v.id OR m.revises = v.id)
     WHERE m.revises IS NOT NULL
)
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.thread_key = :thread_key AND m.id IN (SELECT id FROM versions) AND m.message_key > :after
 ORDER BY m.message_key
 LIMIT :limit;

-- name: enter_message
UPDATE messages SET sequence = :sequence WHERE message_key = :message_key;
