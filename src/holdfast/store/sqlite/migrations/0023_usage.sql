-- Usage of model calls per day (in UTC, counted from 1970), for reports and budgets of a space.
CREATE TABLE usage_ledger (
    space_key           INTEGER NOT NULL,
    day                 INTEGER NOT NULL,
    agent_type          TEXT NOT NULL,
    model               TEXT NOT NULL,
    author              TEXT NOT NULL,
    calls               INTEGER NOT NULL,
    unpriced_calls      INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cost_nanodollars    INTEGER NOT NULL,
    PRIMARY KEY (space_key, day, agent_type, model, author)
) WITHOUT ROWID;
