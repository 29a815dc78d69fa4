-- Usage of a thread: of its runs, and of their sub-agents on other threads. It is raised in the commit that settles a call.
CREATE TABLE thread_usage (
    thread_key          BIGINT PRIMARY KEY,
    unpriced            BIGINT NOT NULL,  -- parts of unknown cost: one makes the sum unknown
    input_tokens        BIGINT NOT NULL,
    output_tokens       BIGINT NOT NULL,
    cached_input_tokens BIGINT NOT NULL,
    cost_nanodollars    BIGINT NOT NULL
);

INSERT INTO thread_usage (thread_key, unpriced, input_tokens, output_tokens, cached_input_tokens, cost_nanodollars)
SELECT u.thread_key, SUM(CASE WHEN u.cost_nanodollars IS NULL THEN 1 ELSE 0 END), SUM(u.input_tokens),
       SUM(u.output_tokens), SUM(u.cached_input_tokens), COALESCE(SUM(u.cost_nanodollars), 0)
  FROM (SELECT r.thread_key, r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cost_nanodollars FROM runs r
        UNION ALL
        SELECT o.thread_key, r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cost_nanodollars
          FROM runs r JOIN runs o ON o.run_key = r.root_key
         WHERE o.thread_key <> r.thread_key) u
 GROUP BY u.thread_key;
