-- name: add_blob
INSERT INTO blobs (space_key, digest, size, content) VALUES (:space_key, :digest, :size, :content)
ON CONFLICT (space_key, digest) DO UPDATE SET size = excluded.size
RETURNING blob_key;

-- name: add_file
INSERT INTO files (space_key, id, blob_key, name, media_type, created_by, created_at)
VALUES (:space_key, :id, :blob_key, :name, :media_type, :created_by, :now)
ON CONFLICT (space_key, id) DO NOTHING
RETURNING file_key;

-- name: file
SELECT f.*, b.digest, b.size FROM files f JOIN spaces s ON s.space_key = f.space_key JOIN blobs b ON b.blob_key = f.blob_key
 WHERE s.id = :space AND f.id = :id;

-- name: file_content
SELECT content FROM blobs WHERE blob_key = :blob_key;

-- name: list_files
SELECT f.*, b.digest, b.size FROM files f JOIN blobs b ON b.blob_key = f.blob_key
 WHERE f.space_key = :space_key AND f.file_key < :before
 ORDER BY f.file_key DESC
 LIMIT :limit;

-- name: artifact_of_file
SELECT id FROM artifacts WHERE file_key = :file_key LIMIT 1;

-- name: drop_file
DELETE FROM files WHERE file_key = :file_key;

-- name: drop_unused_blob
DELETE FROM blobs
 WHERE blob_key = :blob_key
   AND NOT EXISTS (SELECT 1 FROM files WHERE blob_key = :blob_key)
   AND NOT EXISTS (SELECT 1 FROM folder_entries WHERE blob_key = :blob_key)
   AND NOT EXISTS (SELECT 1 FROM staged_blobs WHERE blob_key = :blob_key);
