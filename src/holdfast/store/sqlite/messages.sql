-- name: messages_with_ids
SELECT m.thread_key, m.id, m.run_key, r.chain_depth, m.sequence, m.message_key
  FROM messages m JOIN runs r ON r.run_key = m.run_key
 WHERE m.thread_key = :thread_key AND m.id = :id;
