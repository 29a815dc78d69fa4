-- name: take_subscriptions
DELETE FROM subscriptions WHERE target_key IN (VALUES (:target_key)) RETURNING target_key, run_key, key;
