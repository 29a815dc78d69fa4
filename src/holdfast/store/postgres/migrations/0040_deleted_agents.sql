-- A deleted agent of a space keeps its versions, which runs that have begun are executed from.
ALTER TABLE agent_heads ADD COLUMN deleted_at BIGINT;
