-- Custom skills of a space, in their current version.
CREATE TABLE skills (
    skill_key          INTEGER PRIMARY KEY AUTOINCREMENT,
    space_key          INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    name               TEXT NOT NULL,
    enabled            INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    content            TEXT NOT NULL,
    files              TEXT NOT NULL,
    created_by         TEXT,
    created_at         INTEGER NOT NULL,
    updated_by         TEXT,
    updated_at         INTEGER NOT NULL,
    UNIQUE (space_key, id),
    UNIQUE (space_key, name)
);

-- Every version of a skill, the current one too.
CREATE TABLE skill_versions (
    skill_key          INTEGER NOT NULL,
    version            INTEGER NOT NULL,
    enabled            INTEGER NOT NULL,
    content            TEXT NOT NULL,
    files              TEXT NOT NULL,
    changed_by         TEXT,
    created_at         INTEGER NOT NULL,
    PRIMARY KEY (skill_key, version)
);

-- The files of skills, by digest: versions with the same file share it.
CREATE TABLE skill_files (
    skill_key          INTEGER NOT NULL,
    digest             TEXT NOT NULL,
    content            BLOB NOT NULL,
    PRIMARY KEY (skill_key, digest)
);

-- How often the skills of a space have changed: workers keep their catalog until this changes.
CREATE TABLE skill_revisions (
    space_key          INTEGER PRIMARY KEY,
    revision           INTEGER NOT NULL
);
