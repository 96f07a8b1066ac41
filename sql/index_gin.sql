-- GIN indexes on rows that change in place, move, end, come
-- back by rollback, are vacuumed and reindexed: the index always finds what a
-- sequential scan finds.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE ig_q (n serial, q text);
CREATE FUNCTION ig_ask() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; seq text; idx text; o text;
BEGIN
	FOR r IN SELECT n, 'SELECT count(*) || '' '' || coalesce(sum(hashtextextended(r::text, 0) % 1000000), 0) FROM (' || q || ') r' AS q FROM ig_q ORDER BY n
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
CREATE FUNCTION ig_plans() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; l text;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR r IN SELECT q FROM ig_q ORDER BY n
	LOOP
		FOR l IN EXECUTE 'EXPLAIN (COSTS OFF) ' || r.q
		LOOP
			IF l ~ 'Seq Scan' THEN RETURN NEXT 'no index: ' || r.q; END IF;
		END LOOP;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
CREATE TABLE ig (id int, a int[], d tsvector, j jsonb, note text);
INSERT INTO ig SELECT g, ARRAY[g % 10, g % 7, g % 13], to_tsvector('simple', 'word w' || g % 40 || ' x' || g % 9), jsonb_build_object('k', g % 11, 'l', ARRAY[g % 3, g % 5]), 'note' FROM generate_series(1, 1000) g;
CREATE INDEX ig_a ON ig USING gin (a) WITH (fastupdate = off);
CREATE INDEX ig_d ON ig USING gin (d) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX ig_j ON ig USING gin (j, a);
INSERT INTO ig_q (q) VALUES ('SELECT id, note FROM ig WHERE a @> ''{3,4}'''), ('SELECT id FROM ig WHERE a && ''{12,25}'''),
	('SELECT id, note FROM ig WHERE d @@ ''w7'''), ('SELECT id FROM ig WHERE d @@ ''w11 & (x3 | moved)'''),
	('SELECT id, note FROM ig WHERE d @@ ''mov:* & !w2'''), ('SELECT id FROM ig WHERE j @> ''{"k": 4}'''),
	('SELECT id, note FROM ig WHERE j @> ''{"l": [2, 4]}'' AND a @> ''{5}''');
SELECT ig_plans();
SELECT ig_ask();
-- in place: no column of an index
UPDATE ig SET note = 'changed ' || id WHERE id % 3 = 0;
UPDATE ig SET note = repeat('longer ', 3) WHERE id % 5 = 0;
SELECT ig_ask();
-- moved: their columns
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 4 = 0;
SELECT ig_ask();
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40), note = '' WHERE id % 8 = 0;
DELETE FROM ig WHERE id % 7 = 0;
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'second w' || g % 40), '{"k": 4}', 'second' FROM generate_series(1001, 1200) g;
SELECT ig_ask();
-- own changes, undone in parts and as a whole
BEGIN;
UPDATE ig SET note = 'gone';
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 3 = 1;
SELECT ig_ask();
SAVEPOINT s;
DELETE FROM ig WHERE id % 2 = 0;
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40);
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'third w' || g % 40), '{"k": 5}', 'third' FROM generate_series(1201, 1300) g;
SELECT ig_ask();
ROLLBACK TO s;
SELECT ig_ask();
ROLLBACK;
SELECT ig_ask();
-- entries of what was taken back or ended are killed by scans, and reused
SELECT ig_ask();
DELETE FROM ig WHERE id % 5 = 1;
SELECT ig_ask();
SELECT ig_ask();
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'third w' || g % 40), '{"k": 5}', 'third' FROM generate_series(1201, 1300) g;
SELECT ig_ask();
VACUUM ig;
SELECT ig_ask();
INSERT INTO ig SELECT g, ARRAY[g % 10, 3, 4], to_tsvector('simple', 'fourth w' || g % 40), '{"k": 6}', 'fourth' FROM generate_series(1301, 1400) g;
SELECT ig_ask();
-- an old cursor over what changes
BEGIN;
SET LOCAL enable_seqscan = off;
DECLARE c CURSOR FOR SELECT count(*), sum(id), min(note), max(note) FROM ig WHERE d @@ 'w9';
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40), note = 'under it';
DELETE FROM ig WHERE id % 2 = 1;
FETCH ALL FROM c;
COMMIT;
SELECT ig_ask();
VACUUM (INDEX_CLEANUP ON) ig;
SELECT ig_ask();
REINDEX TABLE ig;
SELECT ig_ask();
UPDATE ig SET note = 'again', id = id;
REINDEX TABLE CONCURRENTLY ig;
SELECT ig_ask();
BEGIN;
UPDATE ig SET a = a || (id % 20 + 20), d = to_tsvector('simple', 'moved w' || id % 40) WHERE id % 2 = 0;
UPDATE ig SET note = 'late';
CREATE INDEX ig_again ON ig USING gin (d);
SELECT ig_ask();
COMMIT;
SELECT ig_ask();
-- the pending list: found before and after it is merged, undone or not
BEGIN;
INSERT INTO ig SELECT g, '{1}', to_tsvector('simple', 'pending w7'), '{}', 'p' FROM generate_series(3001, 3050) g;
SELECT ig_ask();
ROLLBACK;
SELECT gin_clean_pending_list('ig_d') >= 0;
SELECT ig_ask();
INSERT INTO ig SELECT g, '{1}', to_tsvector('simple', 'pending w7'), '{}', 'p' FROM generate_series(3001, 3050) g;
UPDATE ig SET note = 'pending' WHERE id > 3000;
SELECT ig_ask();
ALTER INDEX ig_d SET (fastupdate = off);
VACUUM ig;
SELECT ig_ask();
DROP TABLE ig, ig_q;
DROP FUNCTION ig_ask, ig_plans;
