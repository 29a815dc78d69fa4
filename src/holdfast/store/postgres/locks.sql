-- name: lock_threads
SELECT thread_key FROM threads WHERE thread_key = ANY(:keys::BIGINT[]) ORDER BY thread_key FOR UPDATE;

-- name: lock_named_threads
SELECT t.thread_key
  FROM unnest(:space::TEXT[], :id::TEXT[]) AS w (space, id)
  JOIN spaces s ON s.id = w.space
  JOIN threads t ON t.space_key = s.space_key AND t.id = w.id
 ORDER BY t.thread_key
   FOR KEY SHARE OF s
   FOR UPDATE OF t;

-- name: lock_heads
SELECT run_key FROM run_heads WHERE run_key = ANY(:keys::BIGINT[]) ORDER BY run_key FOR UPDATE;

-- name: lock_migrations
SELECT pg_advisory_lock(hashtext('holdfast.migrations'));

-- name: unlock_migrations
SELECT pg_advisory_unlock(hashtext('holdfast.migrations'));
