-- name: messages_with_ids
WITH wanted (thread_key, id) AS (VALUES (:thread_key, :id))
SELECT m.thread_key, m.id, m.run_key, r.chain_depth, m.sequence, m.message_key
  FROM wanted w
  CROSS JOIN messages m ON m.thread_key = w.thread_key AND m.id = w.id
  JOIN runs r ON r.run_key = m.run_key;
