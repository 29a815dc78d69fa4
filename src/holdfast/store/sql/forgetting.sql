-- Scans return the rows of a space in the order of their keys, `one` and `two`, with their texts, `a` to `f`.

-- name: scan_messages
SELECT m.message_key AS one, 0 AS two, m.content AS a, m.tool_calls AS b, m.metadata AS c
  FROM messages m JOIN threads t ON t.thread_key = m.thread_key
 WHERE t.space_key = :space_key AND m.message_key > :one
 ORDER BY m.message_key LIMIT :limit;

-- name: rewrite_message
UPDATE messages SET content = :a, tool_calls = :b, metadata = :c WHERE message_key = :one;

-- name: scan_events
SELECT e.run_key AS one, e.seq AS two, e.data AS a
  FROM events e JOIN runs r ON r.run_key = e.run_key
 WHERE r.space_key = :space_key AND (e.run_key, e.seq) > (:one, :two)
 ORDER BY e.run_key, e.seq LIMIT :limit;

-- name: rewrite_event
UPDATE events SET data = :a WHERE run_key = :one AND seq = :two;

-- name: scan_values
SELECT v.value_key AS one, 0 AS two, v.value AS a
  FROM run_values v JOIN runs r ON r.run_key = v.run_key
 WHERE r.space_key = :space_key AND v.value_key > :one
 ORDER BY v.value_key LIMIT :limit;

-- name: rewrite_value
UPDATE run_values SET value = :a WHERE value_key = :one;

-- name: scan_runs
SELECT run_key AS one, 0 AS two, input AS a, output AS b, error AS c, tags AS d
  FROM runs WHERE space_key = :space_key AND run_key > :one
 ORDER BY run_key LIMIT :limit;

-- name: rewrite_run
UPDATE runs SET input = :a, output = :b, error = :c, tags = :d WHERE run_key = :one;

-- name: scan_inbox
SELECT i.run_key AS one, i.number AS two, i.data AS a
  FROM inbox i JOIN runs r ON r.run_key = i.run_key
 WHERE r.space_key = :space_key AND (i.run_key, i.number) > (:one, :two)
 ORDER BY i.run_key, i.number LIMIT :limit;

-- name: rewrite_inbox
UPDATE inbox SET data = :a WHERE run_key = :one AND number = :two;

-- name: scan_interrupts
SELECT interrupt_key AS one, 0 AS two, message AS a, arguments AS b, default_outcome AS c, metadata AS d, response AS e,
       response_schema AS f
  FROM interrupts WHERE space_key = :space_key AND interrupt_key > :one
 ORDER BY interrupt_key LIMIT :limit;

-- name: rewrite_interrupt
UPDATE interrupts SET message = :a, arguments = :b, default_outcome = :c, metadata = :d, response = :e,
       response_schema = :f
 WHERE interrupt_key = :one;

-- name: scan_contexts
SELECT c.run_key AS one, c.step AS two, c.snapshot AS a
  FROM contexts c JOIN runs r ON r.run_key = c.run_key
 WHERE r.space_key = :space_key AND (c.run_key, c.step) > (:one, :two)
 ORDER BY c.run_key, c.step LIMIT :limit;

-- name: rewrite_context
UPDATE contexts SET snapshot = :a WHERE run_key = :one AND step = :two;

-- name: scan_texts
SELECT digest AS one, 0 AS two, content AS a FROM texts
 WHERE space_key = :space_key AND digest > :one ORDER BY digest LIMIT :limit;

-- name: rewrite_text
UPDATE texts SET content = :a WHERE space_key = :space_key AND digest = :one;

-- name: scan_threads
SELECT thread_key AS one, 0 AS two, title AS a, summary AS b, key_points AS c, retrieval_index AS d, metadata AS e
  FROM threads WHERE space_key = :space_key AND thread_key > :one
 ORDER BY thread_key LIMIT :limit;

-- name: rewrite_thread
UPDATE threads SET title = :a, derived_title = CASE WHEN title = :a THEN derived_title END, folded_title = CASE WHEN title IS NULL OR title = :a THEN folded_title ELSE LOWER(:a) END,
       summary = :b, key_points = :c, retrieval_index = :d, metadata = :e
 WHERE thread_key = :one;

-- name: scan_artifacts
SELECT artifact_key AS one, 0 AS two, title AS a, content AS b, metadata AS c
  FROM artifacts WHERE space_key = :space_key AND artifact_key > :one
 ORDER BY artifact_key LIMIT :limit;

-- name: rewrite_artifact
UPDATE artifacts SET title = :a, content = :b, metadata = :c,
       digest = COALESCE(CAST(:digest AS TEXT), digest), size = COALESCE(CAST(:size AS BIGINT), size)
 WHERE artifact_key = :one;

-- name: artifact_files_of_run
SELECT DISTINCT f.file_key, b.blob_key, b.content
  FROM artifacts a JOIN files f ON f.file_key = a.file_key JOIN blobs b ON b.blob_key = f.blob_key
 WHERE a.run_key = :run_key;

-- name: point_file
UPDATE files SET blob_key = :blob_key WHERE file_key = :file_key;

-- name: rewrite_artifacts_of_file
UPDATE artifacts SET digest = :digest, size = :size WHERE file_key = :file_key;

-- name: scan_grants
SELECT grant_key AS one, 0 AS two, rule AS a FROM grants
 WHERE space_key = :space_key AND grant_key > :one ORDER BY grant_key LIMIT :limit;

-- name: rewrite_grant
-- A rule without a part of its command would allow another one: it goes, and the call is asked for again.
DELETE FROM grants WHERE grant_key = :one;

-- name: scan_notifications
SELECT number AS one, 0 AS two, data AS a FROM notifications
 WHERE space_key = :space_key AND number > :one ORDER BY number LIMIT :limit;

-- name: rewrite_notification
UPDATE notifications SET data = :a WHERE space_key = :space_key AND number = :one;

-- name: scan_outbox
SELECT outbox_key AS one, 0 AS two, data AS a FROM outbox
 WHERE space_key = :space_key AND outbox_key > :one ORDER BY outbox_key LIMIT :limit;

-- name: rewrite_outbox
UPDATE outbox SET data = :a WHERE outbox_key = :one;

-- name: scan_timers
SELECT timer_key AS one, 0 AS two, data AS a FROM timers
 WHERE space_key = :space_key AND timer_key > :one ORDER BY timer_key LIMIT :limit;

-- name: rewrite_timer
UPDATE timers SET data = :a WHERE timer_key = :one;

-- name: scan_keyed_requests
SELECT operation AS one, key AS two, result AS a FROM keyed_requests
 WHERE space_key = :space_key AND (operation, key) > (:one, :two) ORDER BY operation, key LIMIT :limit;

-- name: rewrite_keyed_request
UPDATE keyed_requests SET result = :a WHERE space_key = :space_key AND operation = :one AND key = :two;

-- name: scan_memories
SELECT memory_key AS one, 0 AS two, text AS a, title AS b, entities AS c, relations AS d FROM memories
 WHERE space_key = :space_key AND memory_key > :one ORDER BY memory_key LIMIT :limit;

-- name: scan_memory_versions
SELECT v.memory_key AS one, v.version AS two, v.memory AS a
  FROM memory_versions v JOIN memories m ON m.memory_key = v.memory_key
 WHERE m.space_key = :space_key AND (v.memory_key, v.version) > (:one, :two)
 ORDER BY v.memory_key, v.version LIMIT :limit;

-- name: scan_documents
SELECT document_key AS one, 0 AS two, text AS a FROM recall_documents
 WHERE space_key = :space_key AND document_key > :one ORDER BY document_key LIMIT :limit;

-- name: messages_to_forget
-- Messages of a space by id, by run, by thread, or by author and time; what is null does not select.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m
  JOIN threads t ON t.thread_key = m.thread_key
  JOIN runs r ON r.run_key = m.run_key
 WHERE t.space_key = :space_key
   AND (CAST(:message_id AS TEXT) IS NULL OR m.id = :message_id)
   AND (CAST(:run_id AS TEXT) IS NULL OR r.id = :run_id)
   AND (CAST(:thread_id AS TEXT) IS NULL OR t.id = :thread_id)
   AND (CAST(:author AS TEXT) IS NULL OR m.created_by = :author)
   AND (CAST(:before AS BIGINT) IS NULL OR m.created_at < :before)
 ORDER BY m.message_key;

-- name: memories_to_forget
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key
   AND (CAST(:run_id AS TEXT) IS NULL OR m.run_id = :run_id)
   AND (CAST(:thread_id AS TEXT) IS NULL OR m.thread_id = :thread_id)
   AND (CAST(:author AS TEXT) IS NULL OR m.author = :author)
   AND (CAST(:before AS BIGINT) IS NULL OR m.happened_at < :before)
   AND (CAST(:entity AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM memory_edges e WHERE e.memory_key = m.memory_key AND (e.target = :entity OR e.source = :entity)))
 ORDER BY m.memory_key;

-- name: memory_of_key
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key WHERE m.memory_key = :memory_key;

-- name: events_to_forget
SELECT seq, type, data FROM events WHERE run_key = :run_key ORDER BY seq;

-- name: forget_run_texts
UPDATE runs SET input = :input, output = :output WHERE run_key = :run_key;

-- name: run_texts
SELECT r.input, r.output, r.id, h.status, h.lease_owner FROM runs r JOIN run_heads h ON h.run_key = r.run_key
 WHERE r.run_key = :run_key;

-- name: forget_thread_title
UPDATE threads SET title = NULL, folded_title = NULL WHERE thread_key = :thread_key;

-- name: thread_title
SELECT title FROM threads WHERE thread_key = :thread_key;

-- name: ask_for_scrub
UPDATE memory_spaces SET scrub = 1 WHERE space_key = :space_key;

-- name: scrub_wanted
SELECT space_key FROM memory_spaces WHERE scrub = 1 LIMIT 1;

-- name: scrub_done
UPDATE memory_spaces SET scrub = 0 WHERE scrub = 1;

-- name: drop_memory_uses
DELETE FROM run_uses
 WHERE kind = 'memory'
   AND (space_key, name) IN (SELECT m.space_key, m.id FROM memories m WHERE m.memory_key = :memory_key);

-- name: drop_memory
DELETE FROM memories WHERE memory_key = :memory_key;

-- name: drop_memory_versions
DELETE FROM memory_versions WHERE memory_key = :memory_key;

-- name: drop_memory_sources
DELETE FROM memory_sources WHERE memory_key = :memory_key;

-- name: drop_memory_edges
DELETE FROM memory_edges WHERE memory_key = :memory_key;

-- name: drop_unused_entities
DELETE FROM entities
 WHERE space_key = :space_key
   AND NOT EXISTS (SELECT 1 FROM memory_edges e WHERE e.space_key = entities.space_key
                      AND (e.source = entities.id OR e.target = entities.id));

-- name: counts_of_memory
SELECT (SELECT COUNT(*) FROM memory_versions v WHERE v.memory_key = :memory_key) AS versions,
       (SELECT COUNT(*) FROM memory_edges e WHERE e.memory_key = :memory_key) AS edges;

-- name: scan_schedules
SELECT schedule_key AS one, 0 AS two, plan AS a, name AS b
  FROM schedules WHERE space_key = :space_key AND schedule_key > :one
 ORDER BY schedule_key LIMIT :limit;

-- name: rewrite_schedule
UPDATE schedules SET plan = :a, name = :b WHERE schedule_key = :one;

-- name: scan_firings
SELECT f.firing_key AS one, 0 AS two, f.reason AS a
  FROM firings f JOIN schedules c ON c.schedule_key = f.schedule_key
 WHERE c.space_key = :space_key AND f.firing_key > :one AND f.reason IS NOT NULL
 ORDER BY f.firing_key LIMIT :limit;

-- name: rewrite_firing
UPDATE firings SET reason = :a WHERE firing_key = :one;

-- name: scan_reminders
SELECT reminder_key AS one, 0 AS two, content AS a, context AS b, trigger_value AS c, trigger_reason AS d, action AS e
  FROM reminders WHERE space_key = :space_key AND reminder_key > :one
 ORDER BY reminder_key LIMIT :limit;

-- name: rewrite_reminder
UPDATE reminders SET content = :a, context = :b, trigger_value = :c, trigger_reason = :d, action = :e WHERE reminder_key = :one;

-- name: scan_conditions
SELECT reminder_key AS one, 0 AS two, spec AS a, reason AS b
  FROM conditions WHERE space_key = :space_key AND reminder_key > :one
 ORDER BY reminder_key LIMIT :limit;

-- name: rewrite_condition
UPDATE conditions SET spec = :a, reason = :b WHERE reminder_key = :one;

-- name: scan_deliveries
SELECT d.delivery_key AS one, 0 AS two, d.payload AS a
  FROM deliveries d JOIN webhooks w ON w.webhook_key = d.webhook_key
 WHERE w.space_key = :space_key AND d.delivery_key > :one
 ORDER BY d.delivery_key LIMIT :limit;

-- name: rewrite_delivery
UPDATE deliveries SET payload = :a WHERE delivery_key = :one;
