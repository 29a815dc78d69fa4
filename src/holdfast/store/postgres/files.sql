-- name: lock_file_shared
-- Locks the row against deletion until the end of the transaction.
SELECT f.*, b.digest, b.size FROM files f JOIN blobs b ON b.blob_key = f.blob_key WHERE f.space_key = :space_key AND f.id = :id
   FOR KEY SHARE OF f;

-- name: lock_file
-- Waits for transactions that hold the shared lock, and for those that add another file with the same bytes.
SELECT f.*, b.digest, b.size FROM files f JOIN spaces s ON s.space_key = f.space_key JOIN blobs b ON b.blob_key = f.blob_key
 WHERE s.id = :space AND f.id = :id
   FOR UPDATE OF f, b;

-- name: held_blob
-- Locks the row against deletion until the end of the transaction.
SELECT blob_key FROM blobs WHERE space_key = :space_key AND digest = :digest FOR KEY SHARE;
