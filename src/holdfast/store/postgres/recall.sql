-- name: threads_in_tail
-- Threads with messages after the cursor of the active index, those with the latest runs first.
SELECT thread_key, indexed_sequence AS position, next_sequence FROM threads
 WHERE space_key = :space_key AND indexed_sequence < next_sequence - 1
 ORDER BY listed_at DESC, thread_key DESC LIMIT :limit;

-- name: index_epochs
SELECT x.index_key, x.epoch
  FROM unnest(:index_key::BIGINT[]) AS w (index_key) JOIN recall_indexes x ON x.index_key = w.index_key AND x.active = 1;

-- name: term_counts
SELECT t.term, t.term_key, t.df
  FROM unnest(:index_key::BIGINT[], :term::TEXT[]) AS w (index_key, term)
  JOIN recall_terms t ON t.index_key = w.index_key AND t.term = w.term;

-- name: add_terms
INSERT INTO recall_terms AS t (index_key, term, df)
SELECT index_key, term, df FROM unnest(:index_key::BIGINT[], :term::TEXT[], :df::BIGINT[]) AS n (index_key, term, df)
ON CONFLICT (index_key, term) DO UPDATE SET df = t.df + excluded.df
RETURNING term, term_key;

-- name: add_items
INSERT INTO recall_items (index_key, seq, kind, source_key, position, thread_key, passage, start, chars, role, speaker, at,
                          status, importance, expires_at, revises, length, terms, tokens, vector)
SELECT * FROM unnest(:index_key::BIGINT[], :seq::BIGINT[], :kind::TEXT[], :source_key::BIGINT[], :position::BIGINT[],
                     :thread_key::BIGINT[], :passage::BIGINT[], :start::BIGINT[], :chars::BIGINT[], :role::TEXT[],
                     :speaker::TEXT[], :at::BIGINT[], :status::TEXT[], :importance::FLOAT8[], :expires_at::BIGINT[],
                     :revises::TEXT[], :length::BIGINT[], :terms::BYTEA[], :tokens::BYTEA[], :vector::BYTEA[]);

-- name: add_postings
INSERT INTO recall_postings (term_key, seq, tf, length)
SELECT * FROM unnest(:term_key::BIGINT[], :seq::BIGINT[], :tf::BIGINT[], :length::BIGINT[]);

-- name: drop_postings
DELETE FROM recall_postings p USING unnest(:term_key::BIGINT[], :seq::BIGINT[]) AS w (term_key, seq)
 WHERE p.term_key = w.term_key AND p.seq = w.seq;

-- name: count_terms_down
UPDATE recall_terms t SET df = t.df - f.df FROM unnest(:term_key::BIGINT[], :df::BIGINT[]) AS f (term_key, df)
 WHERE t.term_key = f.term_key;

-- name: drop_unused_terms
DELETE FROM recall_terms t USING unnest(:term_key::BIGINT[]) AS w (term_key)
 WHERE t.df <= 0 AND t.term_key = w.term_key;

-- name: lexical_scores
-- BM25 of the passages that hold a term; `terms` are pairs of key and weight, `only` the passages to look at. OFFSET keeps
-- the planner, which expects a hundred terms, from reading the postings of all of them.
SELECT p.seq, SUM((w.value->>1)::FLOAT8 * p.tf * (1 + :k::FLOAT8)
                  / (p.tf + :k::FLOAT8 * (1 - :b::FLOAT8 + :b::FLOAT8 * p.length / :average::FLOAT8))) AS score
  FROM json_array_elements(:terms::JSON) AS w (value)
 CROSS JOIN LATERAL (SELECT o.seq, o.tf, o.length FROM recall_postings o WHERE o.term_key = (w.value->>0)::BIGINT OFFSET 0) p
 WHERE :only::TEXT IS NULL OR p.seq IN (SELECT o.value::BIGINT FROM json_array_elements_text(:only::JSON) AS o (value))
 GROUP BY p.seq
 ORDER BY score DESC, p.seq
 LIMIT :limit;

-- name: messages_of_keys
SELECT m.*, r.id AS run_id, r.agent_type, t.id AS thread_id, t.status AS thread_status
  FROM unnest(:message_key::BIGINT[]) AS w (message_key) JOIN messages m ON m.message_key = w.message_key
  JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key;
