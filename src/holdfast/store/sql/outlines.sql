-- name: threads_to_outline
-- Threads with a run in the queue or at work wait for its end.
SELECT t.*, s.id AS space_id FROM threads t JOIN spaces s ON s.space_key = t.space_key
 WHERE t.outlined_sequence < t.next_sequence - 1 AND t.status <> 'deleted'
   AND t.thread_key NOT IN (
       SELECT r.thread_key FROM run_heads h JOIN runs r ON r.run_key = h.run_key
        WHERE h.status = 'queued' AND h.wait_until IS NULL
       UNION ALL
       SELECT r.thread_key FROM run_heads h JOIN runs r ON r.run_key = h.run_key
        WHERE h.status = 'queued' AND h.wait_until IS NOT NULL
       UNION ALL
       SELECT r.thread_key FROM run_heads h JOIN runs r ON r.run_key = h.run_key
        WHERE h.lease_owner IS NOT NULL)
 ORDER BY t.thread_key LIMIT :limit;

-- name: put_outline
-- A title that was changed meanwhile stays.
UPDATE threads
   SET title = CASE WHEN COALESCE(title, '') = COALESCE(CAST(:old_title AS TEXT), '') THEN CAST(:title AS TEXT) ELSE title END,
       folded_title = CASE WHEN COALESCE(title, '') = COALESCE(CAST(:old_title AS TEXT), '') THEN CAST(:folded_title AS TEXT)
                           ELSE folded_title END,
       derived_title = CASE WHEN COALESCE(CAST(:old_title AS TEXT), '') = COALESCE(CAST(:title AS TEXT), '') THEN derived_title
                            ELSE CAST(:title AS TEXT) END,
       summary = :summary, key_points = :key_points, retrieval_index = :retrieval_index,
       outlined_sequence = :through, outline_version = outline_version + 1
 WHERE thread_key = :thread_key AND outline_version = :version AND status <> 'deleted'
RETURNING thread_key;

-- name: drop_outline
-- What was derived from messages that are gone: it is made again from those that are left.
UPDATE threads SET title = CASE WHEN title = derived_title THEN NULL ELSE title END,
       folded_title = CASE WHEN title = derived_title THEN NULL ELSE folded_title END,
       derived_title = NULL, summary = NULL, key_points = '[]', retrieval_index = NULL,
       outlined_sequence = -1, outline_version = outline_version + 1
 WHERE thread_key = :thread_key;

-- name: threads_with_words
-- The latest threads, those first whose search text holds most of the words.
SELECT * FROM (
    SELECT t.*, CASE WHEN holdfast_contains(t.retrieval_index, :word_a) THEN 1 ELSE 0 END
              + CASE WHEN holdfast_contains(t.retrieval_index, :word_b) THEN 1 ELSE 0 END
              + CASE WHEN holdfast_contains(t.retrieval_index, :word_c) THEN 1 ELSE 0 END
              + CASE WHEN holdfast_contains(t.retrieval_index, :word_d) THEN 1 ELSE 0 END
              + CASE WHEN holdfast_contains(t.retrieval_index, :word_e) THEN 1 ELSE 0 END
              + CASE WHEN holdfast_contains(t.retrieval_index, :word_f) THEN 1 ELSE 0 END AS words
      FROM (SELECT * FROM threads WHERE space_key = :space_key AND status <> 'deleted'
             ORDER BY listed_at DESC, thread_key DESC LIMIT :latest) t
     WHERE t.retrieval_index IS NOT NULL
) found
 WHERE words >= :least
 ORDER BY words DESC, listed_at DESC, thread_key DESC LIMIT :limit;
