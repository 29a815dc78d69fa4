-- Usage of model calls per day (in UTC, counted from 1970), for reports and budgets of a space.
CREATE TABLE usage_ledger (
    space_key           BIGINT NOT NULL,
    day                 BIGINT NOT NULL,
    agent_type          TEXT NOT NULL,
    model               TEXT NOT NULL,
    author              TEXT NOT NULL,
    calls               BIGINT NOT NULL,
    unpriced_calls      BIGINT NOT NULL,
    input_tokens        BIGINT NOT NULL,
    output_tokens       BIGINT NOT NULL,
    cached_input_tokens BIGINT NOT NULL,
    cost_nanodollars    BIGINT NOT NULL,
    PRIMARY KEY (space_key, day, agent_type, model, author)
);
