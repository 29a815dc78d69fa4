-- name: folder_head
-- The head of the run whose lease is used, and its space.
SELECT h.lease_number, r.space_key FROM run_heads h JOIN runs r ON r.run_key = h.run_key WHERE h.run_key = :run_key;

-- name: add_folder
-- The update locks the row, also one that exists.
INSERT INTO folders (space_key, name) VALUES (:space_key, :name)
ON CONFLICT (space_key, name) DO UPDATE SET name = excluded.name
RETURNING *;

-- name: folder
SELECT * FROM folders WHERE space_key = :space_key AND name = :name;

-- name: use_folder
UPDATE folders SET place = :place, unsaved = 1 WHERE folder_key = :folder_key;

-- name: prefer_owner
UPDATE run_heads SET preferred_owner = lease_owner WHERE run_key = :run_key AND lease_number = :lease_number;

-- name: save_folder
UPDATE folders
   SET version = :version, saved_at = CASE WHEN :version > version OR saved_at IS NULL THEN :now ELSE saved_at END,
       unsaved = CASE WHEN place = :place THEN :in_use ELSE unsaved END
 WHERE folder_key = :folder_key;

-- name: folder_entries
SELECT e.*, b.digest, b.size FROM folder_entries e LEFT JOIN blobs b ON b.blob_key = e.blob_key
 WHERE e.folder_key = :folder_key
 ORDER BY e.path;

-- name: put_folder_entry
INSERT INTO folder_entries (folder_key, path, version, kind, executable, target, blob_key)
VALUES (:folder_key, :path, :version, :kind, :executable, :target, :blob_key)
ON CONFLICT (folder_key, path) DO UPDATE
   SET version = excluded.version, kind = excluded.kind, executable = excluded.executable, target = excluded.target,
       blob_key = excluded.blob_key;

-- name: drop_folder_entry
DELETE FROM folder_entries WHERE folder_key = :folder_key AND path = :path;

-- name: folder_content
SELECT b.content FROM folder_entries e JOIN blobs b ON b.blob_key = e.blob_key
 WHERE e.folder_key = :folder_key AND b.digest = :digest
 LIMIT 1;

-- name: stage_blob
INSERT INTO staged_blobs (run_key, blob_key) VALUES (:run_key, :blob_key) ON CONFLICT DO NOTHING;

-- name: staged_blobs
SELECT s.blob_key, b.digest, b.size FROM staged_blobs s JOIN blobs b ON b.blob_key = s.blob_key WHERE s.run_key = :run_key;

-- name: drop_staged_blobs
DELETE FROM staged_blobs WHERE run_key = :run_key;

-- name: drop_folder_entries_of_space
DELETE FROM folder_entries WHERE folder_key IN (SELECT folder_key FROM folders WHERE space_key = :space_key);

-- name: drop_folders_of_space
DELETE FROM folders WHERE space_key = :space_key;

-- name: drop_staged_blobs_of_space
DELETE FROM staged_blobs WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);
