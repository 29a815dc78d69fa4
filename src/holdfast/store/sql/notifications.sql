-- name: outbox
SELECT * FROM outbox ORDER BY outbox_key LIMIT :limit;

-- name: notifications_after
SELECT n.*, root.id AS root_run_id
  FROM notifications n
  LEFT JOIN runs r ON r.space_key = n.space_key AND r.id = n.run_id
  LEFT JOIN runs root ON root.run_key = COALESCE(r.root_key, r.run_key)
 WHERE n.space_key = :space_key AND n.number > :number
 ORDER BY n.number LIMIT :limit;

-- name: notifications_before
SELECT n.*, root.id AS root_run_id
  FROM notifications n
  LEFT JOIN runs r ON r.space_key = n.space_key AND r.id = n.run_id
  LEFT JOIN runs root ON root.run_key = COALESCE(r.root_key, r.run_key)
 WHERE n.space_key = :space_key AND n.number < :before
 ORDER BY n.number DESC LIMIT :limit;

-- name: unread_notifications
SELECT COUNT(*) AS unread FROM notifications WHERE space_key = :space_key AND read_at IS NULL;

-- name: notification
SELECT * FROM notifications WHERE space_key = :space_key AND number = :number;

-- name: read_notifications
UPDATE notifications SET read_at = :now
 WHERE space_key = :space_key AND number BETWEEN :first AND :last AND read_at IS NULL
RETURNING number;
