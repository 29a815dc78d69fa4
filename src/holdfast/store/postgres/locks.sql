-- name: lock_threads
SELECT thread_key FROM threads WHERE thread_key = ANY(:keys::BIGINT[]) ORDER BY thread_key FOR UPDATE;

-- name: lock_heads
SELECT run_key FROM run_heads WHERE run_key = ANY(:keys::BIGINT[]) ORDER BY run_key FOR UPDATE;

-- name: lock_migrations
SELECT pg_advisory_lock(hashtext('holdfast.migrations'));

-- name: unlock_migrations
SELECT pg_advisory_unlock(hashtext('holdfast.migrations'));
