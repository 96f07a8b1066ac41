-- GIN indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE ig (id int, a int[], d tsvector, j jsonb, note text);
INSERT INTO ig SELECT g, ARRAY[g % 10, g % 7, g % 13], to_tsvector('simple', 'word w' || g % 40 || ' x' || g % 9), jsonb_build_object('k', g % 11, 'l', ARRAY[g % 3, g % 5]), 'note' FROM generate_series(1, 1000) g;
CREATE INDEX ig_a ON ig USING gin (a) WITH (fastupdate = off);
CREATE INDEX ig_d ON ig USING gin (d) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX ig_j ON ig USING gin (j, a);
INSERT INTO index_q (q) VALUES ('SELECT id, note FROM ig WHERE a @> ''{3,4}'''), ('SELECT id FROM ig WHERE a && ''{12,25}'''),
	('SELECT id, note FROM ig WHERE d @@ ''w7'''), ('SELECT id FROM ig WHERE d @@ ''w11 & (x3 | moved)'''),
	('SELECT id, note FROM ig WHERE d @@ ''mov:* & !w2'''), ('SELECT id FROM ig WHERE j @> ''{"k": 4}'''),
	('SELECT id, note FROM ig WHERE j @> ''{"l": [2, 4]}'' AND a @> ''{5}''');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE ig SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ig SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 4 = 0;
SELECT index_ask();
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40), note = '' WHERE id % 8 = 0;
DELETE FROM ig WHERE id % 7 = 0;
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'second w' || g % 40), '{"k": 4}', 'second' FROM generate_series(1001, 1200) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ig SET note = 'gone';
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM ig WHERE id % 2 = 0;
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40);
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'third w' || g % 40), '{"k": 5}', 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM ig WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'third w' || g % 40), '{"k": 5}', 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
VACUUM ig;
SELECT index_ask();
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'fourth w' || g % 40), '{"k": 6}', 'fourth' FROM generate_series(1301, 1400) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ig WHERE d @@ 'w9';
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40), note = 'under it';
DELETE FROM ig WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) ig;
SELECT index_ask();
REINDEX TABLE ig;
SELECT index_ask();
UPDATE ig SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ig;
SELECT index_ask();
BEGIN;
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 2 = 0;
UPDATE ig SET note = 'late';
CREATE INDEX ig_again ON ig USING gin (d);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- the pending list: found before and after it is merged, undone or not
BEGIN;
INSERT INTO ig SELECT g, '{1}', to_tsvector('simple', 'pending w7'), '{}', 'p' FROM generate_series(3001, 3050) g;
SELECT index_ask();
ROLLBACK;
SELECT gin_clean_pending_list('ig_d') >= 0;
SELECT index_ask();
INSERT INTO ig SELECT g, '{1}', to_tsvector('simple', 'pending w7'), '{}', 'p' FROM generate_series(3001, 3050) g;
UPDATE ig SET note = 'pending' WHERE id > 3000;
SELECT index_ask();
ALTER INDEX ig_d SET (fastupdate = off);
VACUUM ig;
SELECT index_ask();
DROP TABLE ig, index_q;
DROP FUNCTION index_ask, index_plans;
