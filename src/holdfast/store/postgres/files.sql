-- name: lock_file_shared
-- Until the end of this transaction nobody deletes it.
SELECT f.*, b.digest, b.size FROM files f JOIN blobs b ON b.blob_key = f.blob_key WHERE f.space_key = :space_key AND f.id = :id
   FOR KEY SHARE OF f;

-- name: lock_file
-- Waits for those who hold it, and for those who give its bytes another name.
SELECT f.*, b.digest, b.size FROM files f JOIN spaces s ON s.space_key = f.space_key JOIN blobs b ON b.blob_key = f.blob_key
 WHERE s.id = :space AND f.id = :id
   FOR UPDATE OF f, b;
