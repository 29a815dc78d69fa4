-- Who is told when a run ends: the runs that asked for it. One that waits has the key of its step, the others have none.
CREATE TABLE subscriptions (
    target_key         INTEGER NOT NULL,
    run_key            INTEGER NOT NULL,
    key                TEXT NOT NULL,
    PRIMARY KEY (target_key, run_key, key)
);
CREATE INDEX subscriptions_of_run ON subscriptions (run_key);
