-- name: artifact_head
-- The newest version of an artifact.
SELECT version FROM artifacts WHERE space_key = :space_key AND id = :id ORDER BY version DESC LIMIT 1;

-- name: add_artifact
INSERT INTO artifacts (space_key, run_key, id, version, type, title, content, file_key, media_type, digest, size, metadata,
                       created_by, created_at)
VALUES (:space_key, :run_key, :id, :version, :type, :title, :content, :file_key, :media_type, :digest, :size, :metadata,
        :created_by, :now)
ON CONFLICT (space_key, id, version) DO NOTHING
RETURNING artifact_key;

-- name: artifact
SELECT a.*, r.id AS run_id, f.id AS file_id
  FROM artifacts a
  JOIN spaces s ON s.space_key = a.space_key
  JOIN runs r ON r.run_key = a.run_key
  LEFT JOIN files f ON f.file_key = a.file_key
 WHERE s.id = :space AND a.id = :id AND (CAST(:version AS BIGINT) IS NULL OR a.version = :version)
 ORDER BY a.version DESC
 LIMIT 1;

-- name: artifact_versions
SELECT a.run_key, a.id, a.version, a.type, a.title, NULL AS content, a.media_type, a.digest, a.size, a.metadata, a.created_by,
       a.created_at, r.id AS run_id, f.id AS file_id
  FROM artifacts a
  JOIN spaces s ON s.space_key = a.space_key
  JOIN runs r ON r.run_key = a.run_key
  LEFT JOIN files f ON f.file_key = a.file_key
 WHERE s.id = :space AND a.id = :id
 ORDER BY a.version;

-- name: list_artifacts
SELECT a.artifact_key, a.id, a.version, a.type, a.title, NULL AS content, a.media_type, a.digest, a.size, a.metadata,
       a.created_by, a.created_at, r.id AS run_id, f.id AS file_id
  FROM artifacts a
  JOIN runs r ON r.run_key = a.run_key
  LEFT JOIN files f ON f.file_key = a.file_key
 WHERE a.space_key = :space_key AND a.artifact_key < :before
   AND (CAST(:run_key AS BIGINT) IS NULL OR a.run_key = :run_key)
   AND (CAST(:title AS TEXT) IS NULL OR holdfast_contains(a.title, :title)
        OR holdfast_contains(LOWER(a.title), :lower_title))
   AND (CAST(:run_key AS BIGINT) IS NOT NULL
        OR (SELECT d.status FROM threads d WHERE d.thread_key = r.thread_key) <> 'deleted')
 ORDER BY a.artifact_key DESC
 LIMIT :limit;
