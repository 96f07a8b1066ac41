-- Hash indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE ih_q (n serial, q text);
CREATE FUNCTION ih_ask() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; seq text; idx text; o text;
BEGIN
	FOR r IN SELECT n, 'SELECT count(*) || '' '' || coalesce(sum(hashtextextended(r::text, 0) % 1000000), 0) FROM (' || q || ') r' AS q FROM ih_q ORDER BY n
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
CREATE FUNCTION ih_plans() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; l text;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR r IN SELECT q FROM ih_q ORDER BY n
	LOOP
		FOR l IN EXECUTE 'EXPLAIN (COSTS OFF) ' || r.q
		LOOP
			IF l ~ 'Seq Scan' THEN RETURN NEXT 'no index: ' || r.q; END IF;
		END LOOP;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
CREATE TABLE ih (id int, k int, t text, note text);
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'note' FROM generate_series(1, 1000) g;
CREATE INDEX ih_k ON ih USING hash (k);
CREATE INDEX ih_t ON ih USING hash (t) WITH (fillfactor = 50);
CREATE INDEX ih_p ON ih USING hash (k) WHERE id > 500;
INSERT INTO ih_q (q) VALUES ('SELECT id, k, note FROM ih WHERE k = 7'), ('SELECT id FROM ih WHERE k = 1007'),
	('SELECT * FROM ih WHERE t = ''text 11'''), ('SELECT * FROM ih WHERE t = ''text 12.'' AND k = 12'),
	('SELECT id FROM ih WHERE k = 3 AND id > 500'), ('SELECT id FROM ih WHERE k = 2008 OR k = 8');
SELECT ih_plans();
SELECT ih_ask();
-- in place: no column of an index
UPDATE ih SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ih SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT ih_ask();
-- moved: their columns
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 4 = 0;
SELECT ih_ask();
UPDATE ih SET k = k + 1000, t = t || '.', note = '' WHERE id % 8 = 0;
DELETE FROM ih WHERE id % 7 = 0;
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'second' FROM generate_series(1001, 1200) g;
SELECT ih_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ih SET note = 'gone';
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 3 = 1;
SELECT ih_ask();
SAVEPOINT s;
DELETE FROM ih WHERE id % 2 = 0;
UPDATE ih SET k = k + 1000, t = t || '.';
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'third' FROM generate_series(1201, 1300) g;
SELECT ih_ask();
ROLLBACK TO s;
SELECT ih_ask();
ROLLBACK;
SELECT ih_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT ih_ask();
DELETE FROM ih WHERE id % 5 = 1;
SELECT ih_ask();
SELECT ih_ask();
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'third' FROM generate_series(1201, 1300) g;
SELECT ih_ask();
VACUUM ih;
SELECT ih_ask();
INSERT INTO ih SELECT g, g % 50, 'text ' || g % 30, 'fourth' FROM generate_series(1301, 1400) g;
SELECT ih_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ih WHERE k = 9;
UPDATE ih SET k = k + 1000, t = t || '.', note = 'under it';
DELETE FROM ih WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT ih_ask();
VACUUM (INDEX_CLEANUP ON) ih;
SELECT ih_ask();
REINDEX TABLE ih;
SELECT ih_ask();
UPDATE ih SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ih;
SELECT ih_ask();
BEGIN;
UPDATE ih SET k = k + 1000, t = t || '.' WHERE id % 2 = 0;
UPDATE ih SET note = 'late';
CREATE INDEX ih_again ON ih USING hash (k);
SELECT ih_ask();
COMMIT;
SELECT ih_ask();
-- overflow pages, and splits while old versions are open
INSERT INTO ih SELECT g, 7, 'same', 'n' FROM generate_series(2001, 4000) g;
SELECT ih_ask();
DELETE FROM ih WHERE id > 2000 AND id % 10 <> 0;
VACUUM ih;
SELECT ih_ask();
DROP TABLE ih, ih_q;
DROP FUNCTION ih_ask, ih_plans;
