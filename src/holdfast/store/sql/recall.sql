-- name: active_index
SELECT * FROM recall_indexes WHERE space_key = :space_key AND active = 1;

-- name: is_active_index
SELECT index_key FROM recall_indexes WHERE index_key = :index_key AND active = 1;

-- name: building_index
SELECT * FROM recall_indexes WHERE space_key = :space_key AND active = 0;

-- name: replaced_index
SELECT index_key FROM recall_indexes WHERE active < 0 ORDER BY index_key LIMIT 1;

-- name: add_index
INSERT INTO recall_indexes (space_key, active, analyser, embedder) VALUES (:space_key, :active, :analyser, :embedder)
ON CONFLICT (space_key, active) DO NOTHING;

-- name: lock_index
-- Whoever adds or removes items locks the index first, before threads and runs.
UPDATE recall_indexes SET next_seq = next_seq WHERE index_key = :index_key RETURNING *;

-- name: lock_indexes
-- To remove items: whoever read a source before that must not add it any more.
UPDATE recall_indexes SET epoch = epoch + 1 WHERE space_key = :space_key;

-- name: replace_index
UPDATE recall_indexes SET active = -index_key WHERE index_key = :index_key;

-- name: activate_index
UPDATE recall_indexes SET active = 1, caught_up = :caught_up WHERE index_key = :index_key;

-- name: count_items
UPDATE recall_indexes SET next_seq = next_seq + :added, items = items + :items, length = length + :length
 WHERE index_key = :index_key;

-- name: spaces_to_index
-- A space has an index from its first search on; until then nothing is indexed. It goes from space to space with something
-- to index, and looks at no other.
WITH RECURSIVE
threads_of (space_key) AS (
    SELECT MIN(t.space_key) FROM threads t WHERE t.recalled = 1 AND t.indexed_sequence < t.next_sequence - 1
    UNION ALL
    SELECT (SELECT MIN(t.space_key) FROM threads t
             WHERE t.recalled = 1 AND t.indexed_sequence < t.next_sequence - 1 AND t.space_key > o.space_key)
      FROM threads_of o WHERE o.space_key IS NOT NULL),
memories_of (space_key) AS (
    SELECT MIN(m.space_key) FROM memories m WHERE m.recalled = 1 AND m.indexed_version < m.version
    UNION ALL
    SELECT (SELECT MIN(m.space_key) FROM memories m
             WHERE m.recalled = 1 AND m.indexed_version < m.version AND m.space_key > o.space_key)
      FROM memories_of o WHERE o.space_key IS NOT NULL),
found (space_key) AS (
    SELECT space_key FROM threads_of
    UNION SELECT space_key FROM memories_of
    UNION SELECT d.space_key FROM recall_documents d WHERE d.indexed_version < d.version
    UNION SELECT x.space_key FROM recall_indexes x WHERE x.active = 1 AND x.caught_up = 0
    UNION SELECT x.space_key FROM recall_indexes x WHERE x.active = 0)
SELECT s.id FROM found f
  JOIN recall_indexes x ON x.space_key = f.space_key AND x.active = 1
  JOIN spaces s ON s.space_key = f.space_key
 ORDER BY f.space_key;

-- name: mark_caught_up
UPDATE recall_indexes SET caught_up = 1 WHERE index_key = :index_key;

-- name: threads_behind
-- Threads with messages after the cursor of the active index.
SELECT thread_key, indexed_sequence AS position, next_sequence FROM threads
 WHERE space_key = :space_key AND indexed_sequence < next_sequence - 1
 ORDER BY thread_key LIMIT :limit;

-- name: messages_behind
SELECT COALESCE(SUM(next_sequence - 1 - indexed_sequence), 0) AS messages FROM threads
 WHERE space_key = :space_key AND indexed_sequence < next_sequence - 1;

-- name: memories_behind
SELECT memory_key AS source_key, version FROM memories
 WHERE space_key = :space_key AND indexed_version < version ORDER BY memory_key LIMIT :limit;

-- name: documents_behind
SELECT document_key AS source_key, version FROM recall_documents
 WHERE space_key = :space_key AND indexed_version < version ORDER BY document_key LIMIT :limit;

-- name: threads_to_build
-- Threads that an index under construction has not taken up to the cursor of the active one.
SELECT t.thread_key, COALESCE(c.position, -1) AS position, t.indexed_sequence + 1 AS next_sequence
  FROM threads t
  LEFT JOIN recall_cursors c ON c.index_key = :index_key AND c.kind = 'message' AND c.source_key = t.thread_key
 WHERE t.space_key = :space_key AND t.recalled = 1 AND t.thread_key >= :first
   AND COALESCE(c.position, -1) < t.indexed_sequence
 ORDER BY t.thread_key LIMIT :limit;

-- name: memories_to_build
SELECT m.memory_key AS source_key FROM memories m
  LEFT JOIN recall_cursors c ON c.index_key = :index_key AND c.kind = 'memory' AND c.source_key = m.memory_key
 WHERE m.space_key = :space_key AND m.memory_key >= :first AND COALESCE(c.position, 0) < m.indexed_version
 ORDER BY m.memory_key LIMIT :limit;

-- name: documents_to_build
SELECT d.document_key AS source_key FROM recall_documents d
  LEFT JOIN recall_cursors c ON c.index_key = :index_key AND c.kind = 'file' AND c.source_key = d.document_key
 WHERE d.space_key = :space_key AND d.document_key >= :first AND COALESCE(c.position, 0) < d.indexed_version
 ORDER BY d.document_key LIMIT :limit;

-- name: build_progress
SELECT (SELECT COALESCE(SUM(t.indexed_sequence + 1), 0) FROM threads t WHERE t.space_key = :space_key) AS wanted,
       (SELECT COALESCE(SUM(c.position + 1), 0) FROM recall_cursors c WHERE c.index_key = :index_key AND c.kind = 'message') AS done;

-- name: messages_to_index
SELECT m.*, r.id AS run_id, r.agent_type, t.id AS thread_id,
       (SELECT MIN(s.name) FROM steps s WHERE s.run_key = m.run_key AND s.tool_call_id = m.tool_call_id) AS tool_name
  FROM messages m JOIN threads t ON t.thread_key = m.thread_key JOIN runs r ON r.run_key = m.run_key
 WHERE m.thread_key = :thread_key AND m.sequence > :after AND m.sequence < :before AND t.status <> 'deleted'
 ORDER BY m.sequence LIMIT :limit;

-- name: earlier_messages_of_id
SELECT message_key FROM messages WHERE thread_key = :thread_key AND id = :id AND sequence < :before;

-- name: document_of_key
SELECT * FROM recall_documents WHERE document_key = :document_key;

-- name: document_key
SELECT document_key, text, at FROM recall_documents WHERE space_key = :space_key AND id = :id;

-- name: put_document
INSERT INTO recall_documents (space_key, id, text, at, version) VALUES (:space_key, :id, :text, :at, 1)
ON CONFLICT (space_key, id) DO UPDATE SET text = :text, at = :at, version = recall_documents.version + 1;

-- name: drop_document
DELETE FROM recall_documents WHERE document_key = :document_key;

-- name: documents_of_space
SELECT id FROM recall_documents WHERE space_key = :space_key ORDER BY id;

-- name: move_thread_cursor
UPDATE threads SET indexed_sequence = :position, recalled = 1 WHERE thread_key = :source_key AND indexed_sequence = :expected
RETURNING thread_key;

-- name: move_memory_cursor
UPDATE memories SET indexed_version = :position, recalled = 1
 WHERE memory_key = :source_key AND version = :position AND indexed_version < :position
RETURNING memory_key;

-- name: move_document_cursor
UPDATE recall_documents SET indexed_version = :position
 WHERE document_key = :source_key AND version = :position AND indexed_version < :position
RETURNING document_key;

-- name: move_built_cursor
INSERT INTO recall_cursors (index_key, kind, source_key, position) VALUES (:index_key, :kind, :source_key, :position)
ON CONFLICT (index_key, kind, source_key) DO UPDATE SET position = :position;

-- name: built_cursor
SELECT position FROM recall_cursors WHERE index_key = :index_key AND kind = :kind AND source_key = :source_key;

-- name: drop_cursors_of_index
DELETE FROM recall_cursors WHERE index_key = :index_key;

-- name: drop_built_cursor
DELETE FROM recall_cursors WHERE kind = :kind AND source_key = :source_key;

-- name: rewind_thread_cursor
UPDATE threads SET indexed_sequence = -1 WHERE thread_key = :thread_key;

-- name: finish_thread_cursor
UPDATE threads SET indexed_sequence = next_sequence - 1, outlined_sequence = next_sequence - 1 WHERE thread_key = :thread_key;

-- name: items_after
SELECT * FROM recall_items WHERE index_key = :index_key AND seq > :after ORDER BY seq LIMIT :limit;

-- name: items_of_source
SELECT i.index_key, i.seq, i.length, i.terms FROM recall_items i JOIN recall_indexes x ON x.index_key = i.index_key
 WHERE i.source_key = :source_key AND i.kind = :kind AND x.space_key = :space_key
 ORDER BY i.index_key, i.seq;

-- name: items_of_run
SELECT i.index_key, i.seq, i.length, i.terms
  FROM messages m JOIN recall_items i ON i.source_key = m.message_key AND i.kind = 'message'
 WHERE m.run_key = :run_key ORDER BY i.index_key, i.seq;

-- name: items_of_thread
SELECT i.index_key, i.seq, i.length, i.terms
  FROM messages m JOIN recall_items i ON i.source_key = m.message_key AND i.kind = 'message'
 WHERE m.thread_key = :thread_key ORDER BY i.index_key, i.seq;

-- name: drop_item
DELETE FROM recall_items WHERE index_key = :index_key AND seq = :seq;

-- name: drop_some_postings
DELETE FROM recall_postings WHERE term_key = :term_key;

-- name: some_terms_of_index
SELECT term_key FROM recall_terms WHERE index_key = :index_key ORDER BY term_key LIMIT :limit;

-- name: drop_term
DELETE FROM recall_terms WHERE term_key = :term_key;

-- name: drop_some_items
DELETE FROM recall_items WHERE index_key = :index_key AND seq IN (
    SELECT seq FROM recall_items WHERE index_key = :index_key ORDER BY seq LIMIT :limit)
RETURNING seq;

-- name: drop_index
DELETE FROM recall_indexes WHERE index_key = :index_key;

-- name: sources_of_memory
SELECT o.thread_id, o.message_id, m.message_key
  FROM memory_sources o
  JOIN threads t ON t.space_key = o.space_key AND t.id = o.thread_id AND t.status <> 'deleted'
  JOIN messages m ON m.thread_key = t.thread_key AND m.id = o.message_id
 WHERE o.memory_key = :memory_key
 ORDER BY o.position, m.message_key;

-- name: drop_postings_of_space
DELETE FROM recall_postings WHERE term_key IN (
    SELECT t.term_key FROM recall_terms t JOIN recall_indexes x ON x.index_key = t.index_key WHERE x.space_key = :space_key);

-- name: drop_terms_of_space
DELETE FROM recall_terms WHERE index_key IN (SELECT index_key FROM recall_indexes WHERE space_key = :space_key);

-- name: drop_items_of_space
DELETE FROM recall_items WHERE index_key IN (SELECT index_key FROM recall_indexes WHERE space_key = :space_key);

-- name: drop_cursors_of_space
DELETE FROM recall_cursors WHERE index_key IN (SELECT index_key FROM recall_indexes WHERE space_key = :space_key);

-- name: drop_indexes_of_space
DELETE FROM recall_indexes WHERE space_key = :space_key;

-- name: drop_documents_of_space
DELETE FROM recall_documents WHERE space_key = :space_key;
