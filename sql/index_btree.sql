-- Btree indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE bt (id int PRIMARY KEY, k int, t text, v int, note text);
INSERT INTO bt SELECT g, g % 50, 'text ' || g % 30, g, 'note' FROM generate_series(1, 1000) g;
CREATE INDEX bt_k ON bt (k) WITH (deduplicate_items = on);
CREATE INDEX bt_kn ON bt (k DESC NULLS LAST, t) WITH (deduplicate_items = off);
CREATE INDEX bt_inc ON bt (t) INCLUDE (k, v);
CREATE INDEX bt_part ON bt (t) WHERE k < 25;
CREATE INDEX bt_expr ON bt ((k + v), upper(t));
CREATE UNIQUE INDEX bt_uexpr ON bt ((v * 2)) WHERE k < 1000000;
CREATE INDEX bt_row ON bt (t COLLATE "C" text_pattern_ops);
INSERT INTO index_q (q) VALUES ('SELECT id, note FROM bt WHERE k = 7'), ('SELECT k FROM bt WHERE k BETWEEN 1000 AND 1020'),
	('SELECT k, t FROM bt WHERE (k, t) > (45, ''text 2'')'), ('SELECT t, k, v FROM bt WHERE t > ''text 27'''),
	('SELECT id FROM bt WHERE t = ''text 3'' AND k < 25'), ('SELECT id FROM bt WHERE k + v = 400'),
	('SELECT v * 2 FROM bt WHERE v * 2 BETWEEN 300 AND 400 AND k < 1000000'), ('SELECT id FROM bt WHERE t COLLATE "C" LIKE ''text 1%'''),
	('SELECT id FROM bt WHERE k = ANY (''{3,1004,2005}'')'), ('SELECT max(k) FROM bt'), ('SELECT id, note FROM bt WHERE id > 990'),
	('SELECT id FROM bt WHERE k IS NULL');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE bt SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE bt SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE bt SET k = k + 1000, t = t || '.' WHERE id % 4 = 0;
SELECT index_ask();
UPDATE bt SET k = k + 1000, t = t || '.', note = '' WHERE id % 8 = 0;
DELETE FROM bt WHERE id % 7 = 0;
INSERT INTO bt SELECT g, g % 50, 'text ' || g % 30, g, 'second' FROM generate_series(1001, 1200) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE bt SET note = 'gone';
UPDATE bt SET k = k + 1000, t = t || '.' WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM bt WHERE id % 2 = 0;
UPDATE bt SET k = k + 1000, t = t || '.';
INSERT INTO bt SELECT g, g % 50, 'text ' || g % 30, g, 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM bt WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO bt SELECT g, g % 50, 'text ' || g % 30, g, 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
VACUUM bt;
SELECT index_ask();
INSERT INTO bt SELECT g, NULL, NULL, g, 'fourth' FROM generate_series(1301, 1400) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM bt WHERE k = 9;
UPDATE bt SET k = k + 1000, t = t || '.', note = 'under it';
DELETE FROM bt WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) bt;
SELECT index_ask();
REINDEX TABLE bt;
SELECT index_ask();
UPDATE bt SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY bt;
SELECT index_ask();
BEGIN;
UPDATE bt SET k = k + 1000, t = t || '.' WHERE id % 2 = 0;
UPDATE bt SET note = 'late';
CREATE INDEX bt_again ON bt (k, v, t);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- many equal keys: posting lists made, split, taken apart
UPDATE bt SET k = 5, t = 'same' WHERE id % 2 = 0;
SELECT index_ask();
UPDATE bt SET k = 6 WHERE id % 4 = 0;
BEGIN;
UPDATE bt SET k = 7;
ROLLBACK;
SELECT index_ask();
VACUUM bt;
SELECT index_ask();
-- the same key again and again: entries of dead versions go
DO $$ BEGIN FOR i IN 1 .. 80 LOOP UPDATE bt SET k = i % 3, note = i::text WHERE id = 10; END LOOP; END $$;
DO $$ BEGIN FOR i IN 1 .. 80 LOOP UPDATE bt SET k = i % 3, note = i::text WHERE id = 20; COMMIT; END LOOP; END $$;
SELECT index_ask();
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
SELECT indexrelid::regclass, bt_index_parent_check(indexrelid, true, true) FROM pg_index WHERE indrelid = 'bt'::regclass ORDER BY indexrelid::regclass::text;
DROP TABLE bt, index_q;
DROP FUNCTION index_ask, index_plans;
