-- Runs that wait for something, few among all that have ended: to count them must not read the others.
CREATE INDEX run_heads_idle ON run_heads (status) WHERE status = 'pending' OR status = 'waiting';
