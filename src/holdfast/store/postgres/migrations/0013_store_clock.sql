-- One row: the latest time that a process has seen on the clock of the store, to notice when that clock goes back.
CREATE TABLE store_clock (
    store_clock_key    BIGINT NOT NULL PRIMARY KEY,
    seen_at            BIGINT NOT NULL,
    previous_at        BIGINT NOT NULL
);
