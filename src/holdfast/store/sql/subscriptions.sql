-- name: add_subscription
INSERT INTO subscriptions (target_key, run_key, key) VALUES (:target_key, :run_key, :key) ON CONFLICT DO NOTHING;

-- name: drop_subscriptions
DELETE FROM subscriptions WHERE target_key = :run_key OR run_key = :run_key;

-- name: drop_subscriptions_of_space
DELETE FROM subscriptions WHERE run_key IN (SELECT run_key FROM runs WHERE space_key = :space_key);
