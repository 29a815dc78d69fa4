-- The newest contexts of a space or a thread are found without reading all of them.
DROP INDEX conditions_armed;
CREATE INDEX conditions_armed ON conditions (space_key, event, agent, thread_id, reminder_key) WHERE armed = 1;

-- Deliveries are deleted by age.
CREATE INDEX deliveries_by_age ON deliveries (created_at);
