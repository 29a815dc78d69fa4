-- name: add_messages
INSERT INTO messages (thread_key, run_key, id, sequence, role, content, tool_calls, tool_call_id, revises, metadata, created_by, created_at)
SELECT * FROM unnest(:thread_key::BIGINT[], :run_key::BIGINT[], :id::TEXT[], :sequence::BIGINT[], :role::TEXT[], :content::JSON[],
                     :tool_calls::JSON[], :tool_call_id::TEXT[], :revises::TEXT[], :metadata::JSON[], :created_by::TEXT[],
                     :now::BIGINT[]);

-- name: add_events
INSERT INTO events (run_key, seq, type, data, created_at)
SELECT * FROM unnest(:run_key::BIGINT[], :seq::BIGINT[], :type::TEXT[], :data::JSON[], :now::BIGINT[]);
