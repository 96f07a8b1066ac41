-- BRIN indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE ib_q (n serial, q text);
CREATE FUNCTION ib_ask() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; seq text; idx text; o text;
BEGIN
	FOR r IN SELECT n, 'SELECT count(*) || '' '' || coalesce(sum(hashtextextended(r::text, 0) % 1000000), 0) FROM (' || q || ') r' AS q FROM ib_q ORDER BY n
	LOOP
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
		SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
		EXECUTE r.q INTO seq;
		o := '';
		SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' bitmap scan: ' || idx; END IF;
		SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' index scan: ' || idx; END IF;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' index only scan: ' || idx; END IF;
		RETURN NEXT seq || o;
	END LOOP;
END $$;
-- each query must use an index when asked to
CREATE FUNCTION ib_plans() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; l text;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR r IN SELECT q FROM ib_q ORDER BY n
	LOOP
		FOR l IN EXECUTE 'EXPLAIN (COSTS OFF) ' || r.q
		LOOP
			IF l ~ 'Seq Scan' THEN RETURN NEXT 'no index: ' || r.q; END IF;
		END LOOP;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
CREATE TABLE ib (id int, k int, d numeric, x int, note text);
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'note' FROM generate_series(1, 800) g;
CREATE INDEX ib_k ON ib USING brin (k) WITH (pages_per_range = 1);
CREATE INDEX ib_d ON ib USING brin (d numeric_minmax_multi_ops, k) WITH (pages_per_range = 2);
CREATE INDEX ib_x ON ib USING brin (x int4_bloom_ops) WITH (pages_per_range = 1, autosummarize = on);
INSERT INTO ib_q (q) VALUES ('SELECT id, note FROM ib WHERE k BETWEEN 100 AND 200'), ('SELECT id FROM ib WHERE k > 6900'),
	('SELECT id, d FROM ib WHERE d < 10'), ('SELECT id FROM ib WHERE d > 200 AND k < 9000'), ('SELECT id, note FROM ib WHERE x = 17'),
	('SELECT id FROM ib WHERE k = 777'), ('SELECT id FROM ib WHERE k IS NULL');
SELECT ib_plans();
SELECT ib_ask();
-- in place: no column of an index
UPDATE ib SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ib SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT ib_ask();
-- moved: their columns
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 4 = 0;
SELECT ib_ask();
UPDATE ib SET k = k + 5000, d = d + 10, note = '' WHERE id % 8 = 0;
DELETE FROM ib WHERE id % 7 = 0;
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'second' FROM generate_series(801, 1000) g;
SELECT ib_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ib SET note = 'gone';
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 3 = 1;
SELECT ib_ask();
SAVEPOINT s;
DELETE FROM ib WHERE id % 2 = 0;
UPDATE ib SET k = k + 5000, d = d + 10;
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'third' FROM generate_series(1001, 1100) g;
SELECT ib_ask();
ROLLBACK TO s;
SELECT ib_ask();
ROLLBACK;
SELECT ib_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT ib_ask();
DELETE FROM ib WHERE id % 5 = 1;
SELECT ib_ask();
SELECT ib_ask();
INSERT INTO ib SELECT g, g, g / 10.0, g % 100, 'third' FROM generate_series(1001, 1100) g;
SELECT ib_ask();
VACUUM ib;
SELECT ib_ask();
INSERT INTO ib SELECT g, g, g / 10.0, NULL, 'fourth' FROM generate_series(1101, 1200) g;
SELECT ib_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ib WHERE k < 400;
UPDATE ib SET k = k + 5000, d = d + 10, note = 'under it';
DELETE FROM ib WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT ib_ask();
VACUUM (INDEX_CLEANUP ON) ib;
SELECT ib_ask();
REINDEX TABLE ib;
SELECT ib_ask();
UPDATE ib SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ib;
SELECT ib_ask();
BEGIN;
UPDATE ib SET k = k + 5000, d = d + 10 WHERE id % 2 = 0;
UPDATE ib SET note = 'late';
CREATE INDEX ib_again ON ib USING brin (k) WITH (pages_per_range = 1);
SELECT ib_ask();
COMMIT;
SELECT ib_ask();
-- ranges summarized while changes are open, then undone; desummarized; new
INSERT INTO ib SELECT g, g, 0, 0, 'new' FROM generate_series(20001, 20600) g;
SELECT ib_ask();
SELECT brin_summarize_new_values('ib_k') > 0;
SELECT ib_ask();
BEGIN;
UPDATE ib SET k = -k WHERE id > 20000;
SELECT brin_summarize_new_values('ib_k') >= 0;
ROLLBACK;
SELECT ib_ask();
BEGIN;
UPDATE ib SET note = 'w' WHERE id > 20000;
SELECT brin_desummarize_range('ib_k', 0);
SELECT brin_summarize_range('ib_k', 0);
SELECT ib_ask();
SAVEPOINT s;
DELETE FROM ib WHERE id < 20300;
UPDATE ib SET k = 0;
SELECT brin_desummarize_range('ib_k', 1);
SELECT brin_summarize_range('ib_k', 1);
ROLLBACK TO s;
SELECT ib_ask();
COMMIT;
VACUUM ib;
SELECT ib_ask();
DROP TABLE ib, ib_q;
DROP FUNCTION ib_ask, ib_plans;
