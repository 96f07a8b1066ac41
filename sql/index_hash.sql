-- Hash indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE ih (id int, k int, t text, note text);
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'note' FROM generate_series(1, 1000) g;
CREATE INDEX ih_k ON ih USING hash (k);
CREATE INDEX ih_t ON ih USING hash (t) WITH (fillfactor = 50);
CREATE INDEX ih_p ON ih USING hash (k) WHERE id > 500;
INSERT INTO index_q (q) VALUES ('SELECT id, k, note FROM ih WHERE k = 7'), ('SELECT id FROM ih WHERE k = 1007'),
	('SELECT * FROM ih WHERE t = ''text 11'''), ('SELECT * FROM ih WHERE t = ''text 12.'' AND k = 12'),
	('SELECT id FROM ih WHERE k = 3 AND id > 500'), ('SELECT id FROM ih WHERE k = 2008 OR k = 8');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE ih SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ih SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 4 = 0;
SELECT index_ask();
UPDATE ih SET k = k + 1000, t = t || '.', note = '' WHERE id % 8 = 0;
DELETE FROM ih WHERE id % 7 = 0;
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'second' FROM generate_series(1001, 1200) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ih SET note = 'gone';
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM ih WHERE id % 2 = 0;
UPDATE ih SET k = k + 1000, t = t || '.';
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM ih WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
VACUUM ih;
SELECT index_ask();
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'fourth' FROM generate_series(1301, 1400) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ih WHERE k = 9;
UPDATE ih SET k = k + 1000, t = t || '.', note = 'under it';
DELETE FROM ih WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) ih;
SELECT index_ask();
REINDEX TABLE ih;
SELECT index_ask();
UPDATE ih SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ih;
SELECT index_ask();
BEGIN;
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 2 = 0;
UPDATE ih SET note = 'late';
CREATE INDEX ih_again ON ih USING hash (k);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- overflow pages, and splits while old versions are open
INSERT INTO ih SELECT g, 7, 'same', 'n' FROM generate_series(2001, 4000) g;
SELECT index_ask();
DELETE FROM ih WHERE id > 2000 AND id % 10 <> 0;
VACUUM ih;
SELECT index_ask();
DROP TABLE ih, index_q;
DROP FUNCTION index_ask, index_plans;
