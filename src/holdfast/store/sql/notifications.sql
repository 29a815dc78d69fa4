-- name: outbox
SELECT * FROM outbox ORDER BY outbox_key LIMIT :limit;

-- name: notifications_after
SELECT * FROM notifications WHERE space_key = :space_key AND number > :number ORDER BY number LIMIT :limit;

-- name: notifications_before
SELECT * FROM notifications WHERE space_key = :space_key AND number < :before ORDER BY number DESC LIMIT :limit;

-- name: unread_notifications
SELECT COUNT(*) AS unread FROM notifications WHERE space_key = :space_key AND read_at IS NULL;

-- name: notification
SELECT * FROM notifications WHERE space_key = :space_key AND number = :number;

-- name: read_notifications
UPDATE notifications SET read_at = :now
 WHERE space_key = :space_key AND number BETWEEN :first AND :last AND read_at IS NULL
RETURNING number;
