-- The budget of a space for each period. What is spent is the sum of the usage ledger since the period began.
CREATE TABLE space_budgets (
    space_key          INTEGER NOT NULL PRIMARY KEY,
    period             TEXT NOT NULL,
    tokens             INTEGER,
    cost_nanodollars   INTEGER,
    warned_day         INTEGER NOT NULL DEFAULT -1,  -- the first day of the period of the last warning
    warned_percent     INTEGER NOT NULL DEFAULT 0
);
