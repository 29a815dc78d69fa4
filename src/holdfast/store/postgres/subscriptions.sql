-- name: take_subscriptions
DELETE FROM subscriptions WHERE target_key = ANY(:target_key::BIGINT[]) RETURNING target_key, run_key, key;
