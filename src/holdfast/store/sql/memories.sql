-- name: memory
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key WHERE s.id = :space AND m.id = :id;

-- name: memory_by_key
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.key = :key;

-- name: equal_memories
-- Memories that state the same, oldest first; one that was superseded or retracted counts, or it would come back.
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.digest = :digest
 ORDER BY m.memory_key;

-- name: lock_memories
-- Blocks other changes to the memories of a space until the end of the transaction.
INSERT INTO memory_spaces (space_key, changes) VALUES (:space_key, 1)
ON CONFLICT (space_key) DO UPDATE SET changes = memory_spaces.changes + 1;

-- name: add_memory
INSERT INTO memories (space_key, id, key, type, text, digest, title, category, importance, tags, status, supersedes, standing,
                      occurred_from, occurred_until, valid_from, valid_until, expires_at, happened_at, origin, taint, author,
                      agent, thread_id, run_id, sources, entities, relations, version, changed_by, created_at, updated_at,
                      recalled)
VALUES (:space_key, :id, :key, :type, :text, :digest, :title, :category, :importance, :tags, :status, :supersedes, :standing,
        :occurred_from, :occurred_until, :valid_from, :valid_until, :expires_at, :happened_at, :origin, :taint, :author,
        :agent, :thread_id, :run_id, :sources, :entities, :relations, 1, :changed_by, :now, :now,
        CASE WHEN EXISTS (SELECT 1 FROM recall_indexes x WHERE x.space_key = :space_key AND x.active = 1) THEN 1 ELSE 0 END)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING memory_key;

-- name: change_memory
UPDATE memories
   SET type = :type, text = :text, digest = :digest, title = :title, category = :category, importance = :importance,
       tags = :tags, status = :status, superseded_by = :superseded_by, supersedes = :supersedes, standing = :standing,
       occurred_from = :occurred_from, occurred_until = :occurred_until, valid_from = :valid_from,
       valid_until = :valid_until, expires_at = :expires_at, happened_at = :happened_at, version = :version,
       changed_by = :changed_by, updated_at = :now
 WHERE memory_key = :memory_key;

-- name: restore_memory
UPDATE memories SET superseded_by = :superseded_by, version = :version, created_at = :created_at, updated_at = :updated_at
 WHERE memory_key = :memory_key;

-- name: add_memory_version
INSERT INTO memory_versions (memory_key, version, memory, changed_by, changed_at)
VALUES (:memory_key, :version, :memory, :changed_by, :changed_at);

-- name: memory_versions
SELECT * FROM memory_versions WHERE memory_key = :memory_key ORDER BY version;

-- name: list_memories
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.memory_key < :before
   AND (CAST(:type AS TEXT) IS NULL OR m.type = :type)
   AND (CAST(:category AS TEXT) IS NULL OR m.category = :category)
   AND (CAST(:tag AS TEXT) IS NULL OR CAST(m.tags AS TEXT) LIKE :tag ESCAPE '!')
   AND (CAST(:status AS TEXT) IS NULL OR m.status = :status)
   AND (CAST(:thread_id AS TEXT) IS NULL OR m.thread_id = :thread_id)
   AND (CAST(:standing AS BIGINT) IS NULL OR m.standing = :standing)
 ORDER BY m.memory_key DESC
 LIMIT :limit;

-- name: export_memories
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.memory_key > :after
 ORDER BY m.memory_key
 LIMIT :limit;

-- name: standing_memories
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.standing = 1 AND m.status = 'active'
   AND (m.expires_at IS NULL OR m.expires_at > :now)
 ORDER BY m.memory_key DESC
 LIMIT :limit;

-- name: proposed_standing_memories
-- What a rule found in a message of a person, as it was found: an edited or imported proposal is nobody's own words.
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.standing = 1 AND m.status = 'proposed' AND COALESCE(m.author, '') = :author
   AND m.origin = 'person' AND m.key LIKE 'rule.%' AND m.version = 1 AND CAST(m.taint AS TEXT) = '[]'
   AND (m.expires_at IS NULL OR m.expires_at > :now)
 ORDER BY m.memory_key DESC
 LIMIT :limit;

-- name: memories_between
-- Memories by the time of what they state; a span counts if it overlaps.
SELECT m.*, s.id AS space_id FROM memories m JOIN spaces s ON s.space_key = m.space_key
 WHERE m.space_key = :space_key AND m.happened_at <= :until
   AND COALESCE(m.occurred_until, m.happened_at) >= :since
   AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > :now)
   AND (CAST(:thread_id AS TEXT) IS NULL OR m.thread_id = :thread_id)
   AND (CAST(:entity AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM memory_edges e WHERE e.memory_key = m.memory_key AND (e.target = :entity OR e.source = :entity)))
 ORDER BY CASE WHEN CAST(:descending AS BIGINT) = 1 THEN -m.happened_at ELSE m.happened_at END, m.memory_key
 LIMIT :limit;

-- name: add_memory_source
INSERT INTO memory_sources (memory_key, position, space_key, thread_id, message_id)
VALUES (:memory_key, :position, :space_key, :thread_id, :message_id);

-- name: memories_of_message
SELECT DISTINCT m.memory_key, m.id, m.status, m.superseded_by FROM memory_sources o
  JOIN memories m ON m.memory_key = o.memory_key
 WHERE o.space_key = :space_key AND o.thread_id = :thread_id AND o.message_id = :message_id
 ORDER BY m.memory_key;

-- name: add_entity
INSERT INTO entities (space_key, id, label, folded, kind) VALUES (:space_key, :id, :label, :folded, :kind)
ON CONFLICT (space_key, folded) DO NOTHING;

-- name: entity_by_label
SELECT * FROM entities WHERE space_key = :space_key AND folded = :folded;

-- name: entity_by_id
SELECT * FROM entities WHERE space_key = :space_key AND id = :id;

-- name: add_memory_edge
INSERT INTO memory_edges (space_key, memory_key, source, predicate, target, weight)
VALUES (:space_key, :memory_key, :source, :predicate, :target, :weight);

-- name: edges_of_node
SELECT e.predicate, CASE WHEN e.source = :node THEN e.target ELSE e.source END AS node
  FROM memory_edges e JOIN memories m ON m.memory_key = e.memory_key
 WHERE e.space_key = :space_key AND (e.source = :node OR e.target = :node)
   AND (m.status IN ('active', 'superseded') OR e.predicate = 'supersedes')
 ORDER BY e.predicate, node
 LIMIT :limit;

-- name: message_in_thread
-- The newest message of that id on a thread of the space, with its author's run.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM messages m JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key
 WHERE t.space_key = :space_key AND t.id = :thread_id AND m.id = :message_id AND t.status <> 'deleted'
 ORDER BY m.message_key DESC
 LIMIT 1;

-- name: messages_by_id
-- Messages of that id on any thread of the space.
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM memory_sources o
  JOIN threads t ON t.space_key = o.space_key AND t.id = o.thread_id AND t.status <> 'deleted'
  JOIN messages m ON m.thread_key = t.thread_key AND m.id = o.message_id
  JOIN runs r ON r.run_key = m.run_key
 WHERE o.space_key = :space_key AND o.message_id = :message_id
 ORDER BY m.message_key DESC
 LIMIT 1;

-- name: messages_between
SELECT m.*, r.id AS run_id, t.id AS thread_id
  FROM runs r
  JOIN messages m ON m.run_key = r.run_key AND m.created_at BETWEEN :since AND :until
  JOIN threads t ON t.thread_key = m.thread_key
 WHERE r.space_key = :space_key AND r.erased = 0 AND r.created_at <= :until
   AND (r.completed_at IS NULL OR r.completed_at >= :since)
   AND t.status <> 'deleted' AND m.sequence IS NOT NULL AND m.role IN ('user', 'assistant')
   AND (CAST(:thread_id AS TEXT) IS NULL OR t.id = :thread_id)
   AND (CAST(:entity AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM memory_edges e WHERE e.space_key = r.space_key AND e.target = m.id
           AND e.memory_key IN (SELECT n.memory_key FROM memory_edges n
                                 WHERE n.space_key = r.space_key AND (n.target = :entity OR n.source = :entity))))
 ORDER BY CASE WHEN CAST(:descending AS BIGINT) = 1 THEN -m.message_key ELSE m.message_key END
 LIMIT :limit;

-- name: drop_memories_of_space
DELETE FROM memories WHERE space_key = :space_key;

-- name: drop_memory_versions_of_space
DELETE FROM memory_versions WHERE memory_key IN (SELECT memory_key FROM memories WHERE space_key = :space_key);

-- name: drop_memory_sources_of_space
DELETE FROM memory_sources WHERE space_key = :space_key;

-- name: drop_memory_edges_of_space
DELETE FROM memory_edges WHERE space_key = :space_key;

-- name: drop_entities_of_space
DELETE FROM entities WHERE space_key = :space_key;

-- name: drop_memory_space
DELETE FROM memory_spaces WHERE space_key = :space_key;

