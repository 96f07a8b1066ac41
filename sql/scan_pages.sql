-- Rows held while a scan goes on to other pages, ends or begins anew, and while
-- the same session changes them in place.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE sp (id int, v int, n numeric, i interval, t text, x text);
INSERT INTO sp SELECT g, g % 7, g * 1.5, g * interval '1 day', 'row ' || g, repeat(chr(97 + g % 26), 300 + g) FROM generate_series(1, 120) g;
CREATE INDEX sp_id ON sp (id);
CREATE INDEX sp_v ON sp (v);
-- changed while the statement runs, so that what is held would show it
CREATE FUNCTION sp_change(which int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN UPDATE sp SET t = 'changed', n = -1, i = '0', x = repeat('!', 250) WHERE id = which; RETURN which; END $$;
CREATE FUNCTION sp_sum() RETURNS TABLE (rows bigint, v bigint, n numeric, i interval, t text) LANGUAGE sql AS $$ SELECT count(*), sum(v), sum(n), sum(i), md5(string_agg(id || t || x, ',' ORDER BY id)) FROM sp $$;
SELECT * FROM sp_sum();

-- nodes that keep rows over the ends of pages
SET enable_hashjoin = off; SET enable_hashagg = off; SET enable_indexonlyscan = off;
BEGIN;
SELECT count(*), md5(string_agg(a.t || b.t || left(b.x, 3), ',' ORDER BY a.id)) FROM sp a JOIN sp b ON a.id = b.id WHERE sp_change(a.id) = b.id;
ROLLBACK;
BEGIN;
SET LOCAL enable_mergejoin = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
SELECT count(*), md5(string_agg(a.t || b.t || left(b.x, 3), ',' ORDER BY a.id)) FROM sp a JOIN sp b ON a.id = b.id AND sp_change(a.id) = b.id;
SELECT count(*) FROM sp WHERE t = 'changed';
ROLLBACK;
BEGIN;
SELECT md5(string_agg(w, ',')) FROM (SELECT id || lag(t, 15) OVER () || left(lead(x, 20) OVER (), 2) || first_value(n) OVER () || last_value(i) OVER (ROWS BETWEEN CURRENT ROW AND 30 FOLLOWING) AS w FROM sp WHERE sp_change(121 - id) > 0) s;
ROLLBACK;
SELECT v, count(DISTINCT t), count(DISTINCT left(x, 1)), min(n), max(i), (array_agg(t ORDER BY id DESC))[1] FROM sp GROUP BY v ORDER BY v;
SELECT DISTINCT ON (v) v, id, n, t, length(x) FROM sp ORDER BY v, id DESC;
SELECT count(*) FROM (SELECT DISTINCT left(x, 1), i > interval '50 days' FROM sp) s;
SELECT id, t, length(x) FROM sp WHERE x = (SELECT max(x) FROM sp s WHERE s.v = sp.v) ORDER BY id;
WITH RECURSIVE r AS (SELECT * FROM sp WHERE id = 1 UNION ALL SELECT sp.* FROM r JOIN sp ON sp.id = r.id + 17) SELECT id, t, n FROM r;

-- DML of the table that is scanned
BEGIN;
UPDATE sp SET t = sp.t || '/' || o.t, n = sp.n + o.n FROM sp o WHERE o.id = 121 - sp.id;
SELECT * FROM sp_sum();
WITH u AS (UPDATE sp SET t = o.t, x = left(o.x, 200) FROM (SELECT id + 1 AS id, t, x FROM sp) o WHERE o.id = sp.id RETURNING sp.t = o.t AS same, length(sp.x) AS len) SELECT same, len, count(*) FROM u GROUP BY 1, 2;
SELECT * FROM sp_sum();
WITH d AS (DELETE FROM sp USING sp o WHERE o.id = sp.id + 60 AND o.v = 3 RETURNING sp.id, sp.t, o.n) SELECT * FROM d ORDER BY id;
MERGE INTO sp USING sp o ON sp.id = o.id + 60 WHEN MATCHED THEN UPDATE SET t = o.t, n = o.n WHEN NOT MATCHED THEN INSERT VALUES (o.id + 1000, o.v, o.n, o.i, o.t, o.x);
SELECT * FROM sp_sum();
ROLLBACK;

-- cursors, across the ends of pages and back, rows changed in between
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, t, n, left(x, 2) AS x FROM sp;
MOVE 22 FROM c;
FETCH 2 FROM c;
UPDATE sp SET t = 'new', x = repeat('?', 300), n = 0;
FETCH BACKWARD 3 FROM c;
FETCH 4 FROM c;
MOVE LAST FROM c;
FETCH BACKWARD 2 FROM c;
MOVE ABSOLUTE 46 FROM c;
UPDATE sp SET t = 'current' WHERE CURRENT OF c RETURNING id, t;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM c;
FETCH ABSOLUTE 1 FROM c;
ROLLBACK;
DO $$
DECLARE
	r sp; kept sp[]; s text := '';
BEGIN
	FOR r IN SELECT * FROM sp LOOP
		kept := kept || r;
		UPDATE sp SET t = 'in the loop', n = 0 WHERE id = r.id % 120 + 1;
	END LOOP;
	FOREACH r IN ARRAY kept LOOP
		s := s || r.t || r.n || left(r.x, 1);
	END LOOP;
	RAISE NOTICE '% %', cardinality(kept), md5(s);
	RAISE NOTICE '%', (SELECT md5(string_agg(id || t || n, ',' ORDER BY id)) FROM sp);
	ROLLBACK;
END $$;

-- bitmap, exact and lossy; samples; TID ranges; rescans
SET enable_seqscan = off; SET enable_indexscan = off;
SELECT count(*), sum(n), md5(string_agg(t || x, ',' ORDER BY id)) FROM sp WHERE v IN (1, 4) OR id BETWEEN 30 AND 50;
BEGIN;
SELECT count(*), md5(string_agg(a.t || b.t, ',' ORDER BY a.id, b.id)) FROM sp a, LATERAL (SELECT * FROM sp WHERE v = a.v AND sp_change(a.id) > 0) b WHERE a.id < 30 AND a.v = 2;
ROLLBACK;
RESET enable_seqscan; RESET enable_indexscan;
SELECT count(*), md5(string_agg(t || x, ',' ORDER BY id)) FROM sp TABLESAMPLE BERNOULLI (100);
SELECT count(*), md5(string_agg(t || x, ',' ORDER BY id)) FROM sp TABLESAMPLE SYSTEM (100);
SELECT count(*), sum(n) FROM sp WHERE ctid < '(100000,1)';
SELECT a.v, (SELECT count(*) FROM sp b WHERE b.t || b.x > a.t || a.x) AS above FROM sp a WHERE a.id % 30 = 0 ORDER BY a.id;

-- rows with nulls, with columns missing, and nothing but nulls
BEGIN;
ALTER TABLE sp ADD COLUMN late numeric DEFAULT 7.25, ADD COLUMN never int;
UPDATE sp SET n = NULL, t = NULL WHERE id % 3 = 0;
UPDATE sp SET late = id, never = id WHERE id % 5 = 0;
SELECT count(n), count(t), count(never), sum(late), sum(n), md5(string_agg(concat_ws(',', id, v, n, i, t, left(x, 2), late, never), ';' ORDER BY id)) FROM sp;
SELECT * FROM (SELECT id, n, t, late, never, never IS NULL AS is_null FROM sp) s WHERE id IN (1, 3, 5, 15, 120) ORDER BY id;
ROLLBACK;
SELECT * FROM sp_sum();
DROP TABLE sp;
DROP FUNCTION sp_change, sp_sum;

-- undo of a temporary table: the second transaction's begins on the page that
-- held the first one's, whose rows look like a record of the second one's at
-- every eighth byte
CREATE TEMP TABLE sp_few (id int, t text);
CREATE TEMP TABLE sp_wide (id int, b bytea);
ALTER TABLE sp_wide ALTER b SET STORAGE PLAIN;
INSERT INTO sp_few VALUES (1, 'the row');
INSERT INTO sp_wide SELECT g, decode(repeat('8002031002004001', 230), 'hex') FROM generate_series(1, 4) g;
BEGIN;
DECLARE c CURSOR FOR SELECT id, md5(b) FROM sp_wide;
UPDATE sp_wide SET b = decode(repeat('41', 1840), 'hex');
FETCH ALL FROM c;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM sp_few;
DO $$ BEGIN FOR i IN 1 .. 40 LOOP UPDATE sp_few SET t = repeat('x', i); END LOOP; END $$;
FETCH ALL FROM c;
COMMIT;
SELECT * FROM sp_few;
