-- Outlines follow the messages: a space that nobody has searched has no recall index.
DROP INDEX threads_to_outline;
CREATE INDEX threads_to_outline ON threads (thread_key) WHERE outlined_sequence < next_sequence - 1;
