-- What a tree of runs has spent, in the name of the run that was given the budget.
CREATE TABLE budgets (
    run_key            BIGINT PRIMARY KEY,
    tokens             BIGINT NOT NULL DEFAULT 0,
    cost_nanodollars   BIGINT DEFAULT 0  -- null: a part of it is unknown
);

-- For whom a run waits, while it waits.
CREATE TABLE waits (
    run_key            BIGINT NOT NULL,
    target_key         BIGINT NOT NULL,
    PRIMARY KEY (run_key, target_key)
);

-- What a model was told in a step: the texts by their digests, the messages by their sequences.
CREATE TABLE contexts (
    run_key            BIGINT NOT NULL,
    step               BIGINT NOT NULL,
    snapshot           JSON NOT NULL,
    UNIQUE (run_key, step)
);
CREATE TABLE texts (
    space_key          BIGINT NOT NULL,
    digest             TEXT NOT NULL,
    content            TEXT NOT NULL,
    UNIQUE (space_key, digest)
);

-- The numbers of plan items on a thread, by the step that took each: a step that is run again takes the same.
CREATE TABLE task_numbers (
    thread_key         BIGINT NOT NULL,
    number             BIGINT NOT NULL,
    step               TEXT NOT NULL,
    UNIQUE (thread_key, number),
    UNIQUE (thread_key, step)
);

ALTER TABLE steps ADD COLUMN waits_for TEXT;
CREATE INDEX interrupts_expiring ON interrupts (expires_at) WHERE status = 'open';
