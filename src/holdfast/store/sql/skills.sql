-- name: add_skill
INSERT INTO skills (space_key, id, name, enabled, version, content, files, created_by, created_at, updated_by, updated_at)
VALUES (:space_key, :id, :name, :enabled, 1, :content, :files, :created_by, :now, :created_by, :now)
ON CONFLICT DO NOTHING
RETURNING skill_key;

-- name: skill
SELECT k.*, s.id AS space_id FROM skills k JOIN spaces s ON s.space_key = k.space_key WHERE s.id = :space AND k.id = :id;

-- name: skill_by_name
SELECT k.*, s.id AS space_id FROM skills k JOIN spaces s ON s.space_key = k.space_key WHERE s.id = :space AND k.name = :name;

-- name: list_skills
SELECT k.*, s.id AS space_id
  FROM skills k JOIN spaces s ON s.space_key = k.space_key
 WHERE k.space_key = :space_key AND k.skill_key < :before
 ORDER BY k.skill_key DESC LIMIT :limit;

-- name: enabled_skills
SELECT k.*, s.id AS space_id
  FROM skills k JOIN spaces s ON s.space_key = k.space_key
 WHERE k.space_key = :space_key AND k.enabled = 1
 ORDER BY k.name;

-- name: skill_state
SELECT s.metadata, r.revision FROM spaces s LEFT JOIN skill_revisions r ON r.space_key = s.space_key WHERE s.id = :id;

-- name: update_skill
UPDATE skills SET name = :name, enabled = :enabled, version = version + 1, content = :content, files = :files,
                  updated_by = :updated_by, updated_at = :now
 WHERE skill_key = :skill_key;

-- name: add_skill_version
INSERT INTO skill_versions (skill_key, version, enabled, content, files, changed_by, created_at)
SELECT skill_key, version, enabled, content, files, updated_by, updated_at FROM skills WHERE skill_key = :skill_key;

-- name: list_skill_versions
SELECT * FROM skill_versions WHERE skill_key = :skill_key ORDER BY version;

-- name: skill_version
SELECT v.*
  FROM skill_versions v JOIN skills k ON k.skill_key = v.skill_key JOIN spaces s ON s.space_key = k.space_key
 WHERE s.id = :space AND k.id = :id AND v.version = :version;

-- name: add_skill_file
INSERT INTO skill_files (skill_key, digest, content) VALUES (:skill_key, :digest, :content) ON CONFLICT DO NOTHING;

-- name: skill_file
SELECT content FROM skill_files WHERE skill_key = :skill_key AND digest = :digest;

-- name: raise_skill_revision
INSERT INTO skill_revisions (space_key, revision) VALUES (:space_key, :now)
ON CONFLICT (space_key) DO UPDATE SET revision = skill_revisions.revision + 1;

-- name: drop_skill
DELETE FROM skills WHERE skill_key = :skill_key;

-- name: drop_skill_versions
DELETE FROM skill_versions WHERE skill_key = :skill_key;

-- name: drop_skill_files
DELETE FROM skill_files WHERE skill_key = :skill_key;

-- name: drop_skill_versions_of_space
DELETE FROM skill_versions WHERE skill_key IN (SELECT skill_key FROM skills WHERE space_key = :space_key);

-- name: drop_skill_files_of_space
DELETE FROM skill_files WHERE skill_key IN (SELECT skill_key FROM skills WHERE space_key = :space_key);

-- name: drop_skill_revisions_of_space
DELETE FROM skill_revisions WHERE space_key = :space_key;

-- name: drop_skills_of_space
DELETE FROM skills WHERE space_key = :space_key;
