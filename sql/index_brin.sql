-- BRIN indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE ib (id int, k int, d numeric, x int, note text);
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'note' FROM generate_series(1, 800) g;
CREATE INDEX ib_k ON ib USING brin (k) WITH (pages_per_range = 1);
CREATE INDEX ib_d ON ib USING brin (d numeric_minmax_multi_ops, k) WITH (pages_per_range = 2);
CREATE INDEX ib_x ON ib USING brin (x int4_bloom_ops) WITH (pages_per_range = 1, autosummarize = on);
INSERT INTO index_q (q) VALUES ('SELECT id, note FROM ib WHERE k BETWEEN 100 AND 200'), ('SELECT id FROM ib WHERE k > 6900'),
	('SELECT id, d FROM ib WHERE d < 10'), ('SELECT id FROM ib WHERE d > 200 AND k < 9000'), ('SELECT id, note FROM ib WHERE x = 17'),
	('SELECT id FROM ib WHERE k = 777'), ('SELECT id FROM ib WHERE k IS NULL');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE ib SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ib SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 4 = 0;
SELECT index_ask();
UPDATE ib SET k = k + 5000, d = d + 10, note = '' WHERE id % 8 = 0;
DELETE FROM ib WHERE id % 7 = 0;
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'second' FROM generate_series(801, 1000) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ib SET note = 'gone';
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM ib WHERE id % 2 = 0;
UPDATE ib SET k = k + 5000, d = d + 10;
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'third' FROM generate_series(1001, 1100) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM ib WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'third' FROM generate_series(1001, 1100) g;
SELECT index_ask();
VACUUM ib;
SELECT index_ask();
INSERT INTO ib SELECT g, g, g / 10.0, NULL, 'fourth' FROM generate_series(1101, 1200) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ib WHERE k < 400;
UPDATE ib SET k = k + 5000, d = d + 10, note = 'under it';
DELETE FROM ib WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) ib;
SELECT index_ask();
REINDEX TABLE ib;
SELECT index_ask();
UPDATE ib SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ib;
SELECT index_ask();
BEGIN;
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 2 = 0;
UPDATE ib SET note = 'late';
CREATE INDEX ib_again ON ib USING brin (k) WITH (pages_per_range = 1);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- ranges summarized while changes are open, then undone; desummarized; new
INSERT INTO ib SELECT g, g, 0, 0, 'new' FROM generate_series(20001, 20600) g;
SELECT index_ask();
SELECT brin_summarize_new_values('ib_k') > 0;
SELECT index_ask();
BEGIN;
UPDATE ib SET k = -k WHERE id > 20000;
SELECT brin_summarize_new_values('ib_k') >= 0;
ROLLBACK;
SELECT index_ask();
BEGIN;
UPDATE ib SET note = 'w' WHERE id > 20000;
SELECT brin_desummarize_range('ib_k', 0);
SELECT brin_summarize_range('ib_k', 0);
SELECT index_ask();
SAVEPOINT s;
DELETE FROM ib WHERE id < 20300;
UPDATE ib SET k = 0;
SELECT brin_desummarize_range('ib_k', 1);
SELECT brin_summarize_range('ib_k', 1);
ROLLBACK TO s;
SELECT index_ask();
COMMIT;
VACUUM ib;
SELECT index_ask();
DROP TABLE ib, index_q;
DROP FUNCTION index_ask, index_plans;
