-- The budget of a space for each period. What is spent is the sum of the usage ledger since the period began.
CREATE TABLE space_budgets (
    space_key          BIGINT NOT NULL PRIMARY KEY,
    period             TEXT NOT NULL,
    tokens             BIGINT,
    cost_nanodollars   BIGINT,
    warned_day         BIGINT NOT NULL DEFAULT -1,  -- the first day of the period of the last warning
    warned_percent     BIGINT NOT NULL DEFAULT 0
);
