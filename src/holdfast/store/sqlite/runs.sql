-- name: add_messages
INSERT INTO messages (thread_key, run_key, id, sequence, role, content, tool_calls, tool_call_id, revises, metadata, created_by, created_at)
VALUES (:thread_key, :run_key, :id, :sequence, :role, :content, :tool_calls, :tool_call_id, :revises, :metadata, :created_by, :now);

-- name: add_events
INSERT INTO events (run_key, seq, type, data, created_at) VALUES (:run_key, :seq, :type, :data, :now);
