-- name: run_messages_after
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE m.run_key = :run_key AND m.sequence > :after AND m.sequence <= :through
 ORDER BY m.sequence
 LIMIT :limit;

-- name: last_sequence_of_run
SELECT MAX(sequence) AS sequence FROM messages WHERE run_key = :run_key;

-- name: branch_steps
-- The steps of the runs of a chain below a depth, by kind, name and state.
WITH RECURSIVE branch (run_key, base_key, chain_depth) AS (
    SELECT run_key, base_key, chain_depth FROM runs WHERE run_key = :run_key AND chain_depth > :depth
    UNION ALL
    SELECT r.run_key, r.base_key, r.chain_depth FROM branch b JOIN runs r ON r.run_key = b.base_key
     WHERE r.chain_depth > :depth
)
SELECT s.kind, s.name, s.state, COUNT(*) AS steps
  FROM branch b JOIN steps s ON s.run_key = b.run_key
 GROUP BY s.kind, s.name, s.state;

-- name: branch_usage
-- The usage and time of those runs (`own`), and the usage of their descendants.
WITH RECURSIVE branch (run_key, base_key, chain_depth) AS (
    SELECT run_key, base_key, chain_depth FROM runs WHERE run_key = :run_key AND chain_depth > :depth
    UNION ALL
    SELECT r.run_key, r.base_key, r.chain_depth FROM branch b JOIN runs r ON r.run_key = b.base_key
     WHERE r.chain_depth > :depth
),
tree (run_key, own) AS (
    SELECT run_key, 1 FROM branch
    UNION ALL
    SELECT c.run_key, 0 FROM tree t JOIN runs c ON c.parent_key = t.run_key
)
SELECT t.own, COUNT(*) AS runs, CAST(SUM(r.input_tokens) AS BIGINT) AS input_tokens,
       CAST(SUM(r.output_tokens) AS BIGINT) AS output_tokens,
       CAST(SUM(r.cached_input_tokens) AS BIGINT) AS cached_input_tokens,
       CASE WHEN COUNT(*) = COUNT(r.cost_nanodollars) THEN CAST(SUM(r.cost_nanodollars) AS BIGINT) END AS cost_nanodollars,
       CAST(COALESCE(SUM(r.completed_at - h.started_at), 0) AS BIGINT) AS milliseconds
  FROM tree t JOIN runs r ON r.run_key = t.run_key JOIN run_heads h ON h.run_key = t.run_key
 GROUP BY t.own;
