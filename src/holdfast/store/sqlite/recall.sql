-- name: threads_in_tail
-- Threads with messages after the cursor of the active index, those with the latest runs first. SQLite would look at every
-- thread of the space, in the order of the list, if the index were not named.
SELECT thread_key, indexed_sequence AS position, next_sequence FROM threads INDEXED BY threads_to_index
 WHERE space_key = :space_key AND indexed_sequence < next_sequence - 1
 ORDER BY listed_at DESC, thread_key DESC LIMIT :limit;

-- name: index_epochs
WITH wanted (index_key) AS (VALUES (:index_key))
SELECT x.index_key, x.epoch
  FROM wanted w CROSS JOIN recall_indexes x ON x.index_key = w.index_key AND x.active = 1;

-- name: term_counts
WITH wanted (index_key, term) AS (VALUES (:index_key, :term))
SELECT t.term, t.term_key, t.df
  FROM wanted w CROSS JOIN recall_terms t ON t.index_key = w.index_key AND t.term = w.term;

-- name: add_terms
INSERT INTO recall_terms (index_key, term, df) VALUES (:index_key, :term, :df)
ON CONFLICT (index_key, term) DO UPDATE SET df = df + excluded.df
RETURNING term, term_key;

-- name: add_items
INSERT INTO recall_items (index_key, seq, kind, source_key, position, thread_key, passage, start, chars, role, speaker, at,
                          status, importance, expires_at, revises, length, terms, tokens, vector)
VALUES (:index_key, :seq, :kind, :source_key, :position, :thread_key, :passage, :start, :chars, :role, :speaker, :at,
        :status, :importance, :expires_at, :revises, :length, :terms, :tokens, :vector);

-- name: add_postings
INSERT INTO recall_postings (term_key, seq, tf, length) VALUES (:term_key, :seq, :tf, :length);

-- name: drop_postings
DELETE FROM recall_postings WHERE (term_key, seq) IN (VALUES (:term_key, :seq));

-- name: count_terms_down
WITH fewer (term_key, df) AS (VALUES (:term_key, :df))
UPDATE recall_terms SET df = recall_terms.df - f.df FROM fewer f WHERE recall_terms.term_key = f.term_key;

-- name: drop_unused_terms
WITH wanted (term_key) AS (VALUES (:term_key))
DELETE FROM recall_terms WHERE df <= 0 AND term_key IN (SELECT term_key FROM wanted);

-- name: lexical_scores
-- BM25 of the passages that hold a term; `terms` are pairs of key and weight, `only` the passages to look at.
SELECT p.seq, SUM(json_extract(w.value, '$[1]') * p.tf * (1 + :k) / (p.tf + :k * (1 - :b + :b * p.length / :average))) AS score
  FROM json_each(:terms) w
 CROSS JOIN recall_postings p ON p.term_key = json_extract(w.value, '$[0]')
 WHERE :only IS NULL OR p.seq IN (SELECT value FROM json_each(:only))
 GROUP BY p.seq
 ORDER BY score DESC, p.seq
 LIMIT :limit;

-- name: messages_of_keys
WITH wanted (message_key) AS (VALUES (:message_key))
SELECT m.*, r.id AS run_id, r.agent_type, t.id AS thread_id, t.status AS thread_status
  FROM wanted w CROSS JOIN messages m ON m.message_key = w.message_key
  JOIN runs r ON r.run_key = m.run_key JOIN threads t ON t.thread_key = m.thread_key;
