-- name: make_migrations_table
CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL);

-- name: migrations
SELECT name, checksum FROM migrations;

-- name: add_migration
INSERT INTO migrations (name, checksum, applied_at) VALUES (:name, :checksum, :now);
