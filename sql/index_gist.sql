-- GiST indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE gi (id int, b box, r int4range, pt point, note text);
INSERT INTO gi SELECT g, box(point(g % 40, g / 40), point(g % 40 + 2, g / 40 + 2)), int4range(g, g + 10), point(g % 40, g / 40), 'note' FROM generate_series(1, 1000) g;
CREATE INDEX gi_b ON gi USING gist (b);
CREATE INDEX gi_r ON gi USING gist (r) INCLUDE (id);
CREATE INDEX gi_p ON gi USING gist (pt) WHERE id % 2 = 0;
INSERT INTO index_q (q) VALUES ('SELECT id, note FROM gi WHERE b && box ''(3,3),(9,9)'''), ('SELECT id FROM gi WHERE b <@ box ''(90,0),(130,20)'''),
	('SELECT id, r FROM gi WHERE r && ''[100,130)'''), ('SELECT id, note FROM gi WHERE r @> 600'),
	('SELECT id, pt <-> point(10,10) FROM gi WHERE id % 2 = 0 AND pt <@ box ''(5,5),(15,15)'''),
	('SELECT pt <-> point(10.3,10.4) FROM gi WHERE id % 2 = 0 ORDER BY pt <-> point(10.3,10.4) LIMIT 5'),
	('SELECT id FROM gi WHERE r -|- ''[40,50)''');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE gi SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE gi SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500) WHERE id % 4 = 0;
SELECT index_ask();
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500), note = '' WHERE id % 8 = 0;
DELETE FROM gi WHERE id % 7 = 0;
INSERT INTO gi SELECT g, box(point(g % 40, 5), point(g % 40 + 2, 7)), int4range(g % 300, g % 300 + 5), point(g % 40, 5), 'second' FROM generate_series(1001, 1200) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE gi SET note = 'gone';
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500) WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM gi WHERE id % 2 = 0;
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500);
INSERT INTO gi SELECT g, box(point(g % 40, 5), point(g % 40 + 2, 7)), int4range(g % 300, g % 300 + 5), point(g % 40, 5), 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM gi WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO gi SELECT g, box(point(g % 40, 5), point(g % 40 + 2, 7)), int4range(g % 300, g % 300 + 5), point(g % 40, 5), 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
VACUUM gi;
SELECT index_ask();
INSERT INTO gi SELECT g, box(point(g % 40, 5), point(g % 40 + 2, 7)), int4range(g % 300, g % 300 + 5), point(g % 40, 5), 'fourth' FROM generate_series(1301, 1400) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM gi WHERE r && '[90,120)';
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500), note = 'under it';
DELETE FROM gi WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) gi;
SELECT index_ask();
REINDEX TABLE gi;
SELECT index_ask();
UPDATE gi SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY gi;
SELECT index_ask();
BEGIN;
UPDATE gi SET b = box(b[0] + point(100, 0), b[1] + point(100, 0)), r = int4range(lower(r) + 500, upper(r) + 500) WHERE id % 2 = 0;
UPDATE gi SET note = 'late';
CREATE INDEX gi_again ON gi USING gist (b) WITH (buffering = on);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- nearest first, while rows move away
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT pt <-> point(20.1, 10.2), note FROM gi WHERE id % 2 = 0 AND id < 1000 ORDER BY pt <-> point(20.1, 10.2);
FETCH 2 FROM c;
UPDATE gi SET pt = point(0, 0), note = 'away';
FETCH 3 FROM c;
ROLLBACK;
SELECT index_ask();
DROP TABLE gi, index_q;
DROP FUNCTION index_ask, index_plans;
