-- SP-GiST indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
\getenv abs_srcdir PG_ABS_SRCDIR
\set answers :abs_srcdir '/sql/include/index_answers.sql'
\i :answers
CREATE TABLE si (id int, t text, r int4range, pt point, ip inet, note text);
INSERT INTO si SELECT g, substr(md5((g % 200)::text), 1, 6), int4range(g, g + 10), point(g % 40, g / 40), ('10.0.' || g % 20 || '.' || g % 250)::inet, 'note' FROM generate_series(1, 1000) g;
CREATE INDEX si_t ON si USING spgist (t);
CREATE INDEX si_r ON si USING spgist (r);
CREATE INDEX si_p ON si USING spgist (pt) INCLUDE (id);
CREATE INDEX si_k ON si USING spgist (pt kd_point_ops);
CREATE INDEX si_i ON si USING spgist (ip);
INSERT INTO index_q (q) VALUES ('SELECT id, note FROM si WHERE t = ''a87ff6'''), ('SELECT id, t FROM si WHERE t ^@ ''c'''),
	('SELECT id FROM si WHERE t ^@ ''f'' AND id > 100'), ('SELECT id, note FROM si WHERE r && ''[100,130)'''),
	('SELECT id FROM si WHERE r @> 600'), ('SELECT id, pt::text FROM si WHERE pt <@ box ''(5,5),(15,15)'''),
	('SELECT id FROM si WHERE pt <@ box ''(60,0),(70,20)'''), ('SELECT id, note FROM si WHERE ip << ''10.0.7.0/24'''),
	('SELECT pt <-> point(10.31, 10.42) FROM si ORDER BY pt <-> point(10.31, 10.42) LIMIT 4');
SELECT index_plans();
SELECT index_ask();
-- in place: no column of an index
UPDATE si SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE si SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT index_ask();
-- moved: their columns
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0) WHERE id % 4 = 0;
SELECT index_ask();
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0), note = '' WHERE id % 8 = 0;
DELETE FROM si WHERE id % 7 = 0;
INSERT INTO si SELECT g, substr(md5((g % 200)::text), 1, 6), int4range(g % 300, g % 300 + 5), point(g % 40, 5), '10.0.7.1', 'second' FROM generate_series(1001, 1200) g;
SELECT index_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE si SET note = 'gone';
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0) WHERE id % 3 = 1;
SELECT index_ask();
SAVEPOINT s;
DELETE FROM si WHERE id % 2 = 0;
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0);
INSERT INTO si SELECT g, substr(md5((g % 200)::text), 1, 6), int4range(g % 300, g % 300 + 5), point(g % 40, 6), '10.0.7.2', 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
ROLLBACK TO s;
SELECT index_ask();
ROLLBACK;
SELECT index_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT index_ask();
DELETE FROM si WHERE id % 5 = 1;
SELECT index_ask();
SELECT index_ask();
INSERT INTO si SELECT g, substr(md5((g % 200)::text), 1, 6), int4range(g % 300, g % 300 + 5), point(g % 40, 6), '10.0.7.2', 'third' FROM generate_series(1201, 1300) g;
SELECT index_ask();
VACUUM si;
SELECT index_ask();
INSERT INTO si SELECT g, substr(md5((g % 200)::text), 1, 6), int4range(g % 300, g % 300 + 5), point(g % 40, 7), '10.0.7.3', 'fourth' FROM generate_series(1301, 1400) g;
SELECT index_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM si WHERE r && '[90,120)';
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0), note = 'under it';
DELETE FROM si WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT index_ask();
VACUUM (INDEX_CLEANUP ON) si;
SELECT index_ask();
REINDEX TABLE si;
SELECT index_ask();
UPDATE si SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY si;
SELECT index_ask();
BEGIN;
UPDATE si SET t = t || 'z', r = int4range(lower(r) + 500, upper(r) + 500), pt = pt + point(50, 0) WHERE id % 2 = 0;
UPDATE si SET note = 'late';
CREATE INDEX si_again ON si USING spgist (t);
SELECT index_ask();
COMMIT;
SELECT index_ask();
-- entries that lead elsewhere, for which SP-GiST looks at the table
CREATE TABLE si_long (id int, t text) USING zheap;
CREATE INDEX ON si_long USING spgist (t);
INSERT INTO si_long SELECT i, repeat(chr(97 + i % 3), i % 5) || i || repeat('x', i % 100)
	FROM generate_series(1, 3000) i;
SELECT count(*) FROM zheap_check('si_long');
-- which bulk deletion names twice as long as they are young
BEGIN;
CREATE TABLE si_led (t text) USING zheap;
CREATE INDEX ON si_led USING spgist (t);
INSERT INTO si_led SELECT repeat(chr(97 + g % 20), g % 30 * 40) FROM generate_series(1, 24) g;
SELECT * FROM zheap_check('si_led');
COMMIT;
DROP TABLE si_led;
DROP TABLE si_long;
DROP TABLE si, index_q;
DROP FUNCTION index_ask, index_plans;
