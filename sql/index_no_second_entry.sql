-- Silent fault looked for: an index gets a second entry for an unchanged TID,
-- so that the row comes twice, or a key conflicts with itself.
SET default_table_access_method = zheap;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE TABLE de (id int PRIMARY KEY, k int, v int);
CREATE INDEX de_k ON de (k);
CREATE UNIQUE INDEX de_u ON de (k, id);
INSERT INTO de SELECT g, g % 5, 0 FROM generate_series(1, 200) g;
SET enable_seqscan = off;
UPDATE de SET v = v + 1;
UPDATE de SET k = k, v = v + 1;
UPDATE de SET k = k + 1 WHERE id % 2 = 0;
UPDATE de SET k = k - 1 WHERE id % 2 = 0;
BEGIN; UPDATE de SET k = 9; UPDATE de SET v = 9; ROLLBACK;
INSERT INTO de VALUES (5, 5, 5) ON CONFLICT (id) DO UPDATE SET v = -1;
SELECT k, count(*), count(DISTINCT id) FROM de WHERE k >= 0 GROUP BY k ORDER BY k;
SET enable_bitmapscan = off;
SELECT count(*), count(DISTINCT id) FROM de WHERE k BETWEEN 0 AND 4;
SELECT bt_index_check(i, true) FROM unnest('{de_pkey,de_k,de_u}'::regclass[]) i;
DROP TABLE de;
