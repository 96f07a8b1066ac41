-- Indexes: built, searched, kept right by every kind of change.
-- The answers are heap's.
SET default_table_access_method = zheap;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE FUNCTION idx_check(t regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE i regclass; n int := 0;
BEGIN
	FOR i IN SELECT indexrelid FROM pg_index x JOIN pg_class c ON c.oid = indexrelid
		JOIN pg_am a ON a.oid = c.relam WHERE indrelid = t AND amname = 'btree'
	LOOP
		PERFORM bt_index_check(i, true);
		n := n + 1;
	END LOOP;
	RETURN n || ' checked';
END $$;
CREATE TABLE idx (id int PRIMARY KEY, a int, b text, c int, d numeric);
CREATE UNIQUE INDEX idx_ab ON idx (a, b);
CREATE INDEX idx_part ON idx (c) WHERE c > 500;
CREATE INDEX idx_expr ON idx ((a + c), lower(b));
CREATE INDEX idx_incl ON idx (c) INCLUDE (b, d);
CREATE INDEX idx_desc ON idx (d DESC NULLS LAST);
INSERT INTO idx SELECT g, g % 10, 'B' || g, g, CASE WHEN g % 7 > 0 THEN g / 4.0 END FROM generate_series(1, 1000) g;
ANALYZE idx;
-- every query with and without indexes
CREATE FUNCTION idx_both(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE s text; i text; o text; b text;
BEGIN
	q := 'SELECT md5(string_agg(r::text, '' '' ORDER BY r::text)) || '' '' || count(*) FROM (' || q || ') r';
	SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
	EXECUTE q INTO s;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
	EXECUTE q INTO i;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;
	EXECUTE q INTO b;
	SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_bitmapscan = off;
	EXECUTE q INTO o;
	RETURN NEXT CASE WHEN s = i AND s = b AND s = o THEN 'same, ' || substr(s, 34)
		WHEN s IS NULL AND coalesce(i, b, o) IS NULL THEN 'none'
		ELSE concat_ws(' | ', 'DIFFERENT', s, i, b, o) END;
END $$;
CREATE FUNCTION idx_queries() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT idx_both(q) FROM unnest(ARRAY[
		'SELECT * FROM idx WHERE id BETWEEN 10 AND 200',
		'SELECT id FROM idx WHERE id > 900',
		'SELECT a, b FROM idx WHERE a = 3',
		'SELECT a, b FROM idx WHERE a = 3 AND b > ''B5''',
		'SELECT * FROM idx WHERE c > 500 AND c < 600',
		'SELECT c, b, d FROM idx WHERE c BETWEEN 100 AND 150',
		'SELECT id FROM idx WHERE a + c = 500',
		'SELECT id FROM idx WHERE a + c < 100 AND lower(b) > ''b3''',
		'SELECT d FROM idx WHERE d > 200',
		'SELECT d, id FROM idx WHERE d IS NULL',
		'SELECT id FROM idx WHERE a = 3 OR c < 50',
		'SELECT id FROM idx WHERE a = 3 AND c < 50',
		'SELECT id FROM idx WHERE id IN (1, 5, 900, 2000)']) q;
$$;
SELECT idx_queries();
SELECT idx_check('idx');
UPDATE idx SET d = d + 1 WHERE id % 3 = 0;
UPDATE idx SET b = lower(b) WHERE id % 5 = 0;
UPDATE idx SET c = c + 300 WHERE id % 4 = 0;
DELETE FROM idx WHERE id % 11 = 0;
INSERT INTO idx SELECT g, g % 10, 'B' || g, g, g FROM generate_series(1001, 1100) g;
SELECT idx_queries();
SELECT idx_check('idx');
BEGIN;
UPDATE idx SET a = a + 100, c = -c;
DELETE FROM idx WHERE id < 300;
SELECT idx_queries();
SELECT idx_check('idx');
SAVEPOINT s;
UPDATE idx SET d = NULL, b = 'n' || id;
ROLLBACK TO s;
SELECT idx_queries();
ROLLBACK;
SELECT idx_queries();
SELECT idx_check('idx');
VACUUM idx;
SELECT idx_queries();
SELECT idx_check('idx');
-- backwards, ordered, min and max, merge joins
SET enable_seqscan = off;
SELECT id FROM idx ORDER BY id DESC LIMIT 5;
SELECT id, d FROM idx ORDER BY d DESC NULLS LAST, id LIMIT 3;
SELECT min(id), max(id), min(c), max(c) FROM idx;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM idx WHERE id < 20 ORDER BY id;
FETCH 5 FROM c;
UPDATE idx SET id = id + 5000 WHERE id < 20;
FETCH BACKWARD 3 FROM c;
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
ROLLBACK;
RESET enable_seqscan;
-- unique: immediate, deferred, of several rows, with nulls
INSERT INTO idx VALUES (1, 1, 'x', 1, 1);
INSERT INTO idx VALUES (9000, 1, 'B1', 1, 1);
UPDATE idx SET id = 2 WHERE id = 1;
UPDATE idx SET id = id + 1 WHERE id IN (1, 2);
CREATE TABLE idx_u (k int UNIQUE, d int UNIQUE DEFERRABLE INITIALLY DEFERRED, i int UNIQUE DEFERRABLE, n int UNIQUE NULLS NOT DISTINCT);
INSERT INTO idx_u SELECT g, g, g, g FROM generate_series(1, 10) g;
INSERT INTO idx_u (n) VALUES (NULL);
INSERT INTO idx_u (n) VALUES (NULL);
INSERT INTO idx_u (k, n) VALUES (NULL, 11);
BEGIN;
INSERT INTO idx_u VALUES (11, 5, 11, 12);
UPDATE idx_u SET d = 11 WHERE k = 5;
COMMIT;
SELECT k, d FROM idx_u WHERE k IN (5, 11) ORDER BY k;
UPDATE idx_u SET d = d + 1, i = i + 1 WHERE k IS NOT NULL;
BEGIN;
UPDATE idx_u SET d = 3 WHERE k = 1;
SELECT k, d FROM idx_u WHERE d = 3 ORDER BY k;
COMMIT;
BEGIN;
UPDATE idx_u SET d = 3 WHERE k = 1;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
DELETE FROM idx_u WHERE k = 1;
INSERT INTO idx_u VALUES (1, 100, 100, 100);
UPDATE idx_u SET k = 2 WHERE k = 1;
ROLLBACK;
BEGIN;
UPDATE idx_u SET k = 200 WHERE k = 1;
INSERT INTO idx_u VALUES (1, 201, 201, 201);
COMMIT;
SELECT k FROM idx_u WHERE k IN (1, 200) ORDER BY k;
BEGIN;
INSERT INTO idx_u VALUES (300, 300, 300, 300);
ROLLBACK;
INSERT INTO idx_u VALUES (300, 300, 300, 300);
SELECT count(*) FROM idx_u WHERE k = 300;
SELECT idx_check('idx_u');
-- indexes made when there are several versions of the rows
CREATE TABLE idx_late (id int, a int, b text);
INSERT INTO idx_late SELECT g, g, 'b' || g FROM generate_series(1, 500) g;
UPDATE idx_late SET a = a + 1000 WHERE id % 2 = 0;
DELETE FROM idx_late WHERE id % 10 = 0;
BEGIN;
INSERT INTO idx_late SELECT g, g FROM generate_series(501, 600) g;
ROLLBACK;
BEGIN;
UPDATE idx_late SET a = -1, b = b || b;
ROLLBACK;
CREATE UNIQUE INDEX idx_late_a ON idx_late (a);
CREATE INDEX idx_late_b ON idx_late (b) WHERE id > 100;
SELECT idx_check('idx_late');
BEGIN;
UPDATE idx_late SET a = a + 1 WHERE id > 400;
DELETE FROM idx_late WHERE id = 1;
INSERT INTO idx_late VALUES (1, 1, 'again');
CREATE INDEX idx_late_id ON idx_late (id);
CREATE INDEX idx_late_ab ON idx_late (a, b);
SET LOCAL enable_seqscan = off;
SELECT * FROM idx_late WHERE id = 1;
SELECT count(*), sum(a) FROM idx_late WHERE id > 400;
COMMIT;
SELECT idx_check('idx_late');
UPDATE idx_late SET a = 3 WHERE id = 5;
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX idx_late_dup ON idx_late ((a % 2));
\set VERBOSITY default
REINDEX INDEX idx_late_a;
REINDEX TABLE idx_late;
SELECT idx_check('idx_late');
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(a) FROM idx_late WHERE id BETWEEN 1 AND 100;
UPDATE idx_late SET a = -a, id = id + 7000 WHERE id BETWEEN 1 AND 100;
FETCH c;
COMMIT;
DROP INDEX idx_late_id, idx_late_ab;
SET maintenance_work_mem = '1MB';
CREATE INDEX idx_late_big ON idx_late (b, a, id);
RESET maintenance_work_mem;
SELECT idx_check('idx_late');
-- primary key added, dropped, on another column; foreign keys
ALTER TABLE idx_late ADD PRIMARY KEY (id);
ALTER TABLE idx_late DROP CONSTRAINT idx_late_pkey;
INSERT INTO idx_late VALUES (1000000, 2000001, 'x'), (1000000, 2000002, 'x');
ALTER TABLE idx_late ADD PRIMARY KEY (id);
CREATE TABLE idx_parent (id int PRIMARY KEY, v int);
CREATE TABLE idx_casc (id int PRIMARY KEY, p int REFERENCES idx_parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE idx_null (id int PRIMARY KEY, p int DEFAULT 1 REFERENCES idx_parent ON DELETE SET NULL ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE idx_def (id int, p int DEFAULT 1 REFERENCES idx_parent ON DELETE SET DEFAULT);
CREATE TABLE idx_rest (id int, p int REFERENCES idx_parent ON DELETE RESTRICT);
INSERT INTO idx_parent SELECT g, 0 FROM generate_series(1, 10) g;
INSERT INTO idx_casc SELECT g, g % 5 + 2 FROM generate_series(1, 20) g;
INSERT INTO idx_null SELECT g, g % 5 + 2 FROM generate_series(1, 20) g;
INSERT INTO idx_def SELECT g, 7 FROM generate_series(1, 3) g;
INSERT INTO idx_rest VALUES (1, 8);
INSERT INTO idx_casc VALUES (100, 100);
UPDATE idx_parent SET v = v + 1;
DELETE FROM idx_parent WHERE id = 2;
UPDATE idx_parent SET id = 33 WHERE id = 3;
DELETE FROM idx_parent WHERE id = 7;
DELETE FROM idx_parent WHERE id = 8;
SELECT p, count(*) FROM idx_casc GROUP BY p ORDER BY p;
SELECT p, count(*) FROM idx_null GROUP BY p ORDER BY p;
SELECT p, count(*) FROM idx_def GROUP BY p ORDER BY p;
BEGIN;
INSERT INTO idx_null VALUES (50, 50);
INSERT INTO idx_parent VALUES (50);
COMMIT;
BEGIN;
INSERT INTO idx_null VALUES (51, 51);
COMMIT;
SELECT id, v FROM idx_parent ORDER BY id;
SELECT idx_check(t) FROM unnest('{idx_parent,idx_casc,idx_null}'::regclass[]) t;
-- a self-referencing tree, deleted from its root
CREATE TABLE idx_tree (id int PRIMARY KEY, p int REFERENCES idx_tree ON DELETE CASCADE);
INSERT INTO idx_tree SELECT g, nullif(g / 2, 0) FROM generate_series(1, 63) g;
DELETE FROM idx_tree WHERE id = 2;
SELECT count(*), sum(id) FROM idx_tree;
BEGIN; DELETE FROM idx_tree; ROLLBACK;
SELECT count(*), sum(id) FROM idx_tree;
