-- name: messages_in_threads
-- Messages by id on threads of a space; of one id the newest is the last.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM unnest(:space_key::BIGINT[], :thread_id::TEXT[], :message_id::TEXT[]) AS w (space_key, thread_id, message_id)
  JOIN threads t ON t.space_key = w.space_key AND t.id = w.thread_id AND t.status <> 'deleted'
  JOIN messages m ON m.thread_key = t.thread_key AND m.id = w.message_id
  JOIN runs r ON r.run_key = m.run_key
 ORDER BY m.message_key;

-- name: messages_said_around
-- What people and the model said just before and after a message.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM unnest(:space_key::BIGINT[], :thread_id::TEXT[], :sequence::BIGINT[]) AS w (space_key, thread_id, sequence)
  JOIN threads t ON t.space_key = w.space_key AND t.id = w.thread_id AND t.status <> 'deleted'
  JOIN messages m ON m.message_key IN (
    (SELECT b.message_key FROM messages b
      WHERE b.thread_key = t.thread_key AND b.sequence < w.sequence AND b.role IN ('user', 'assistant')
      ORDER BY b.sequence DESC LIMIT 1),
    (SELECT a.message_key FROM messages a
      WHERE a.thread_key = t.thread_key AND a.sequence > w.sequence AND a.role IN ('user', 'assistant')
      ORDER BY a.sequence ASC LIMIT 1))
  JOIN runs r ON r.run_key = m.run_key;

-- name: memories_of_messages
SELECT DISTINCT o.thread_id, o.message_id, m.memory_key, m.status, m.superseded_by
  FROM unnest(:space_key::BIGINT[], :thread_id::TEXT[], :message_id::TEXT[]) AS w (space_key, thread_id, message_id)
  JOIN memory_sources o ON o.space_key = w.space_key AND o.message_id = w.message_id AND o.thread_id = w.thread_id
  JOIN memories m ON m.memory_key = o.memory_key
 ORDER BY m.memory_key;

-- name: given_values
-- The values that runs were created with; none that they inherited.
SELECT v.run_key, v.value
  FROM unnest(:run_key::BIGINT[], :name::TEXT[]) AS w (run_key, name)
  JOIN run_values v ON v.run_key = w.run_key AND v.name = w.name AND v.at_sequence = -1;

-- name: values_as_of
-- The values of names as of the sequence `cut`, own or inherited; null for none.
SELECT w.run_key, w.cut,
       (SELECT COALESCE(s.value, v.value)
          FROM run_values v LEFT JOIN run_values s ON s.value_key = v.source_key
         WHERE v.run_key = w.run_key AND v.name = w.name AND v.at_sequence <= w.cut
         ORDER BY v.at_sequence DESC, v.value_key DESC LIMIT 1) AS value
  FROM unnest(:run_key::BIGINT[], :name::TEXT[], :cut::BIGINT[]) AS w (run_key, name, cut);
