-- name: lock_file_shared
-- There is one writer, so no lock is needed.
SELECT f.*, b.digest, b.size FROM files f JOIN blobs b ON b.blob_key = f.blob_key WHERE f.space_key = :space_key AND f.id = :id;

-- name: lock_file
SELECT f.*, b.digest, b.size FROM files f JOIN spaces s ON s.space_key = f.space_key JOIN blobs b ON b.blob_key = f.blob_key
 WHERE s.id = :space AND f.id = :id;

-- name: held_blob
SELECT blob_key FROM blobs WHERE space_key = :space_key AND digest = :digest;
