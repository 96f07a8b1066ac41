-- Columns of soft indexes change in place (Z44 to Z55): the row keeps its TID,
-- and is found by its present key, once, by every kind of scan.  What heap's
-- twin table shows is right.
SET zheap.update_indexed_in_place = on;
SET jit = off;
CREATE TABLE kz (id int PRIMARY KEY, a int, b text, c int, d numeric, e text) USING zheap;
CREATE TABLE kh (id int PRIMARY KEY, a int, b text, c int, d numeric, e text) USING heap;
-- one statement on both; @ is the table
CREATE FUNCTION both_do(stmt text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n bigint[] := '{}'; r bigint;
BEGIN
	EXECUTE replace(stmt, '@', 'kz'); GET DIAGNOSTICS r = ROW_COUNT; n := n || r;
	EXECUTE replace(stmt, '@', 'kh'); GET DIAGNOSTICS r = ROW_COUNT; n := n || r;
	IF n[1] <> n[2] THEN RAISE EXCEPTION 'zheap %, heap %', n[1], n[2]; END IF;
END $$;
SELECT both_do('CREATE INDEX @_a ON @ (a)');
SELECT both_do('CREATE INDEX @_b ON @ (b, a)');
SELECT both_do('CREATE INDEX @_c ON @ (c) WITH (deduplicate_items = off)');
-- one whose values can be equal and differ; one without a plain key, which isn't soft
SELECT both_do('CREATE INDEX @_d ON @ (d)');
SELECT both_do('CREATE INDEX @_e ON @ (lower(e))');
SELECT both_do('INSERT INTO @ SELECT i, i % 20, ''b'' || i % 7, i, i, ''e'' || i FROM generate_series(1, 300) i');
-- keys of a table change in place when the snapshots of the first update are gone (Z55)
CREATE PROCEDURE keyed_allow(t regclass) LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		BEGIN
			EXECUTE format('UPDATE %1$s SET %2$I = %2$I + 1 WHERE ctid = (SELECT ctid FROM %1$s LIMIT 1)', t,
				(SELECT attname FROM pg_attribute WHERE attrelid = t AND attnum = 2));
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags(t, 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CALL keyed_allow('kz');
VACUUM kz; VACUUM kh;
-- what all kinds of scans show of both; nothing if they agree
CREATE FUNCTION keyed_differences() RETURNS SETOF text LANGUAGE plpgsql
	SET enable_sort = off AS $$
DECLARE q text; plan text; z text; h text;
BEGIN
	FOREACH plan IN ARRAY ARRAY['enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		PERFORM set_config(plan, 'on', true);
		FOREACH q IN ARRAY ARRAY[
			'SELECT a FROM @ WHERE a > -9 ORDER BY a',
			'SELECT a FROM @ WHERE a > -9 ORDER BY a DESC',
			'SELECT b, a FROM @ WHERE b > '''' ORDER BY b, a',
			'SELECT c FROM @ WHERE c > -9 ORDER BY c DESC',
			'SELECT count(*) FROM @ WHERE a = 3',
			'SELECT count(*) FROM @ WHERE b = ''b1''',
			'SELECT * FROM (SELECT * FROM @ WHERE a IN (3, 4, 1003) OFFSET 0) s ORDER BY id',
			'SELECT * FROM (SELECT * FROM @ WHERE a = 3 AND b = ''b1'' OFFSET 0) s ORDER BY id',
			'SELECT * FROM (SELECT * FROM @ WHERE a = 3 OR c = 7 OFFSET 0) s ORDER BY id',
			'SELECT id, a FROM (SELECT * FROM @ WHERE a > -9 OFFSET 0) s ORDER BY id'] LOOP
			EXECUTE 'SELECT string_agg(x::text, '' '') FROM (' || replace(q, '@', 'kz') || ') x' INTO z;
			EXECUTE 'SELECT string_agg(x::text, '' '') FROM (' || replace(q, '@', 'kh') || ') x' INTO h;
			IF z IS DISTINCT FROM h THEN
				RETURN NEXT concat_ws(E'\n', plan, q, z, h);
			END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT keyed_differences();
-- rows that moved since
CREATE TABLE kz_was AS SELECT id, ctid AS tid FROM kz;
CREATE FUNCTION keyed_moved() RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	SELECT string_agg(id::text, ' ' ORDER BY id) INTO r FROM kz JOIN kz_was w USING (id) WHERE kz.ctid <> w.tid;
	TRUNCATE kz_was; INSERT INTO kz_was SELECT id, ctid FROM kz;
	RETURN coalesce(r, 'none');
END $$;

-- the map's bits were set: a key that is gone must not be believed
SELECT both_do('UPDATE @ SET a = a + 1000 WHERE id = 23');
SELECT keyed_moved();
SELECT keyed_differences();
-- back to the old key, and forth; with entries in a posting list and without
SELECT both_do('UPDATE @ SET a = a - 1000, c = -c WHERE id = 23');
SELECT both_do('UPDATE @ SET c = -c WHERE id = 23');
SELECT keyed_differences();
-- rolled back, by savepoints too, then the aborted key by another transaction
BEGIN;
SELECT both_do('UPDATE @ SET a = 3 WHERE id IN (23, 24, 25)');
SAVEPOINT s;
SELECT both_do('UPDATE @ SET a = 4, b = ''b1'' WHERE id IN (24, 25)');
SELECT keyed_differences();
ROLLBACK TO s;
SELECT keyed_differences();
SELECT both_do('UPDATE @ SET a = 4 WHERE id = 25');
SAVEPOINT t;
SELECT both_do('DELETE FROM @ WHERE id = 24');
ROLLBACK TO t;
SELECT keyed_differences();
ROLLBACK;
SELECT keyed_differences();
SELECT both_do('UPDATE @ SET a = 4, b = ''b1'' WHERE id IN (24, 25)');
SELECT id FROM kz WHERE id = 24 FOR UPDATE;
SELECT both_do('UPDATE @ SET a = 3 WHERE id IN (24, 25)');
SELECT keyed_differences();
SELECT keyed_moved();
-- a scan of the index that the update changes
SET enable_seqscan = off;
SELECT both_do('UPDATE @ SET a = a + 1 WHERE a > 15');
SET enable_bitmapscan = off;
SELECT both_do('UPDATE @ SET a = a + 1 WHERE a > 15');
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT keyed_differences();
SELECT keyed_moved();

-- what makes a row move: other indexes, values that aren't in the row as they are
SELECT both_do('UPDATE @ SET a = 5, d = d + 1 WHERE id = 40');
SELECT both_do('UPDATE @ SET d = ''41.00'' WHERE id = 41');
SELECT both_do('UPDATE @ SET e = upper(e) WHERE id = 42');
SELECT both_do('UPDATE @ SET id = 1043 WHERE id = 43');
SELECT both_do('UPDATE @ SET b = repeat(''y'', 2500) WHERE id = 44');
SELECT keyed_moved();
SELECT keyed_differences();
ALTER TABLE kz ALTER b SET STORAGE EXTERNAL; ALTER TABLE kh ALTER b SET STORAGE EXTERNAL;
-- an indexed value goes out of line by an update of another column
SELECT both_do('UPDATE @ SET b = repeat(''z'', 1500) WHERE id = 45');
SELECT both_do('UPDATE @ SET b = repeat(''w'', 1500) WHERE id = 45');
SELECT both_do('UPDATE @ SET e = repeat(''e'', 7000) WHERE id = 45');
SELECT keyed_differences();
SELECT both_do('UPDATE @ SET a = 3 WHERE id = 45');
SELECT keyed_differences();

-- nobody can compare such a value with an entry that VACUUM meets: the older entry
-- stays, and so does the mark
CREATE TABLE kz_out (id int PRIMARY KEY, n int, s text, x text) USING zheap;
ALTER TABLE kz_out ALTER x SET STORAGE MAIN;
CREATE INDEX ON kz_out (s);
CREATE INDEX ON kz_out (n);
INSERT INTO kz_out VALUES (1, 1, repeat('s', 30), 'x');
CALL keyed_allow('kz_out');
UPDATE kz_out SET s = 'other';
UPDATE kz_out SET s = repeat('s', 30);
UPDATE kz_out SET x = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 90) i);
SELECT ctid, 'hasexternal' = ANY (i.flags) AS out_of_line FROM kz_out, zheap_page_items('kz_out', 0) i WHERE lp = 1;
VACUUM (TRUNCATE off) kz_out; CREATE TABLE kz_tick (); DROP TABLE kz_tick;
VACUUM (TRUNCATE off) kz_out; CREATE TABLE kz_tick (); DROP TABLE kz_tick;
VACUUM (TRUNCATE off) kz_out; CREATE TABLE kz_tick (); DROP TABLE kz_tick;
VACUUM (TRUNCATE off) kz_out;
SET enable_seqscan = off;
SELECT count(*) FROM kz_out WHERE s = 'other';
RESET enable_seqscan;
SELECT * FROM zheap_check('kz_out');
DROP TABLE kz_out;

-- blanks at the end, which bpchar's opclasses leave aside: a column with a length has
-- all of them, one without has values that are equal and not the same; whether the
-- first may stay depends on what the minor's opclass says
CREATE DOMAIN kz_five AS char(5);
CREATE TABLE kz_blank (id int PRIMARY KEY, n int, c bpchar, f char(5), d kz_five) USING zheap;
CREATE INDEX ON kz_blank (n);
CREATE INDEX ON kz_blank (c);
CREATE INDEX ON kz_blank (c bpchar_pattern_ops);
CREATE INDEX ON kz_blank (f);
CREATE INDEX ON kz_blank (d);
INSERT INTO kz_blank SELECT i, i, 'c', 'f', 'd' FROM generate_series(1, 4) i;
CALL keyed_allow('kz_blank');
UPDATE kz_blank SET f = 'g  ' WHERE id = 1;
UPDATE kz_blank SET f = 'f  ' WHERE id = 1;
UPDATE kz_blank SET c = 'c  ' WHERE id = 2;
UPDATE kz_blank SET c = 'b', n = 7 WHERE id = 3;
UPDATE kz_blank SET c = 'b  ' WHERE id = 3;
UPDATE kz_blank SET d = 'e' WHERE id = 4;
SELECT id, ctid = format('(0,%s)', id)::tid AS stayed FROM kz_blank WHERE id > 1 ORDER BY id;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT id, octet_length(c) FROM kz_blank WHERE c IN ('b', 'c') ORDER BY id;
SELECT id, octet_length(c) FROM kz_blank WHERE c ~<=~ 'c' ORDER BY id;
SELECT id, octet_length(f) FROM kz_blank WHERE f = 'f' ORDER BY id;
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT * FROM zheap_check('kz_blank');
DROP TABLE kz_blank; DROP DOMAIN kz_five;

-- two entries, the second is too big for its index
SELECT both_do('UPDATE @ SET b = ''b1'' WHERE id = 46');
BEGIN;
SAVEPOINT s;
UPDATE kz SET a = 3, b = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 90) i) WHERE id = 46;
ROLLBACK TO s;
SELECT keyed_differences();
COMMIT;
-- uniqueness on other columns
SELECT both_do('INSERT INTO @ VALUES (46, 3, ''b1'') ON CONFLICT (id) DO UPDATE SET a = 4, b = ''b2''');
SELECT both_do('INSERT INTO @ VALUES (46, 3, ''b1'') ON CONFLICT DO NOTHING');
SELECT keyed_differences();

-- mark and restore: both sides of a merge join have old entries
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_seqscan = off;
SELECT both_do('UPDATE @ SET c = c % 10 WHERE id <= 100');
SELECT both_do('UPDATE @ SET c = -c WHERE c < 0');
SELECT (SELECT count(*) FROM kz x JOIN kz y ON x.a = y.c) = (SELECT count(*) FROM kh x JOIN kh y ON x.a = y.c) AS same;
RESET enable_hashjoin; RESET enable_nestloop;
-- a cursor goes back and forth over pages of the index
BEGIN;
DECLARE cz SCROLL CURSOR FOR SELECT id, a FROM kz WHERE a > -9 ORDER BY a;
MOVE FORWARD ALL IN cz;
MOVE BACKWARD ALL IN cz;
MOVE FORWARD 150 IN cz;
SELECT both_do('UPDATE @ SET a = a + 1 WHERE id > 100');
MOVE BACKWARD ALL IN cz;
MOVE FORWARD ALL IN cz;
COMMIT;
RESET enable_seqscan;
SELECT keyed_differences();

-- columns added without a rewrite: the row gets the value that it has
SELECT both_do('ALTER TABLE @ ADD f int DEFAULT 7');
SELECT both_do('CREATE INDEX @_f ON @ (f)');
SELECT both_do('UPDATE @ SET f = 7 WHERE id = 60');
SELECT both_do('UPDATE @ SET f = 8 WHERE id IN (60, 61)');
SELECT both_do('UPDATE @ SET f = 7 WHERE id IN (60, 61)');
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), count(DISTINCT id) FROM kz WHERE f = 7;
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT * FROM zheap_check('kz', true);

-- many changes of one row between vacuums; then VACUUM deletes what is old
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		PERFORM both_do(format('UPDATE @ SET a = %s, c = %s WHERE id = 70', i % 17, i));
	END LOOP;
END $$;
SELECT keyed_differences();
VACUUM kz;
SELECT * FROM zheap_check('kz', true);
SELECT keyed_differences();
-- under the other setting, and built again
SET zheap.update_indexed_in_place = off;
SELECT keyed_moved() <> '';
SELECT both_do('UPDATE @ SET a = 14 WHERE id IN (70, 71)');
SELECT keyed_moved();
SELECT keyed_differences();
SET zheap.update_indexed_in_place = on;
SELECT both_do('UPDATE @ SET a = 12 WHERE id IN (70, 71)');
REINDEX TABLE kz;
SELECT keyed_differences();
VACUUM FULL kz;
SELECT keyed_differences();
SELECT both_do('UPDATE @ SET a = 13 WHERE id IN (70, 71)');
CLUSTER kz USING kz_a;
SELECT keyed_differences();
SELECT * FROM zheap_check('kz', true);
DROP FUNCTION both_do, keyed_differences, keyed_moved;
DROP TABLE kz, kh, kz_was;

-- triggers and a partitioned table see an update like any other
CREATE TABLE kt (id int PRIMARY KEY, k int) USING zheap;
CREATE INDEX kt_k ON kt (k);
INSERT INTO kt VALUES (1, 1), (2, 2);
CALL keyed_allow('kt');
CREATE FUNCTION kt_show() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% % -> %', TG_WHEN, OLD, NEW; RETURN NEW; END $$;
CREATE TRIGGER b BEFORE UPDATE ON kt FOR EACH ROW EXECUTE FUNCTION kt_show();
CREATE TRIGGER a AFTER UPDATE ON kt FOR EACH ROW EXECUTE FUNCTION kt_show();
UPDATE kt SET k = k + 1 RETURNING ctid, *;
SET enable_seqscan = off;
UPDATE kt SET k = k - 1 WHERE k = 3 RETURNING ctid, *;
SELECT * FROM kt WHERE k = 2;
DROP TABLE kt;
DROP FUNCTION kt_show;

-- for some tables only: by name, with a schema or without, quoted where SQL needs it
SET zheap.update_indexed_in_place = off;
CREATE SCHEMA "Keyed, too";
CREATE TABLE "Keyed, too"."List" (id int PRIMARY KEY, k int) USING zheap;
CREATE INDEX ON "Keyed, too"."List" (k);
INSERT INTO "Keyed, too"."List" VALUES (1, 1);
-- is the row where it was after a change of its key
CREATE FUNCTION stays(list text, OUT stays bool) LANGUAGE plpgsql AS $$
DECLARE
	was tid := (SELECT ctid FROM "Keyed, too"."List");
BEGIN
	PERFORM set_config('zheap.update_indexed_in_place_tables', list, false);
	UPDATE "Keyed, too"."List" SET k = k + 1;
	stays := was = (SELECT ctid FROM "Keyed, too"."List");
END $$;
SET zheap.update_indexed_in_place = on;
CALL keyed_allow('"Keyed, too"."List"');
SELECT stays('');
SET zheap.update_indexed_in_place = off;
SELECT list, stays(list) FROM unnest(ARRAY['', '"List"', 'List', '"Keyed, too"."List"', 'kp, "Keyed, too"."List" ,ka', 'kp,"List"x', '"Keyed, too".list', ',,"List"', '"Keyed, too']) list;
SET zheap.update_indexed_in_place_tables = kp, '"List"';
SHOW zheap.update_indexed_in_place_tables;
ALTER TABLE "Keyed, too"."List" RENAME TO other;
SELECT ctid AS was FROM "Keyed, too".other \gset
UPDATE "Keyed, too".other SET k = k + 1;
SELECT ctid <> :'was' AS moved, k FROM "Keyed, too".other;
-- whatever else quotes names
SET quote_all_identifiers = on;
SET zheap.update_indexed_in_place_tables = other;
SELECT ctid AS was FROM "Keyed, too".other \gset
UPDATE "Keyed, too".other SET k = k + 1;
SELECT ctid <> :'was' AS moved, k FROM "Keyed, too".other;
RESET quote_all_identifiers;
RESET zheap.update_indexed_in_place_tables;
SELECT * FROM zheap_check('"Keyed, too".other', true);
DROP SCHEMA "Keyed, too" CASCADE;
DROP FUNCTION stays;

-- another access method and back, in one session; parallel scans; exclusion
CREATE TABLE kp (id int PRIMARY KEY, k int, r int4range, EXCLUDE USING gist (r WITH &&)) USING zheap;
CREATE INDEX kp_k ON kp (k);
INSERT INTO kp SELECT g, g, int4range(g, g + 1) FROM generate_series(1, 2000) g;
SET zheap.update_indexed_in_place = on;
CALL keyed_allow('kp');
UPDATE kp SET k = k + 10000 WHERE id % 2 = 0;
UPDATE kp SET k = k - 10000 WHERE id % 4 = 0;
INSERT INTO kp VALUES (0, 0, int4range(10, 11));
SET enable_seqscan = off; SET enable_bitmapscan = off;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
SELECT count(*), sum(k), sum(id) FROM kp WHERE k > 500;
SET enable_indexonlyscan = off;
SELECT count(*), sum(k) FROM kp WHERE k > 500;
RESET max_parallel_workers_per_gather; RESET enable_indexonlyscan;
SELECT id FROM kp WHERE k = 2; SELECT id FROM kp WHERE k = 4; SELECT id FROM kp WHERE k = 10002; SELECT id FROM kp WHERE k = 10004;
ALTER TABLE kp SET ACCESS METHOD heap;
SELECT count(*), sum(k), sum(id) FROM kp WHERE k > 500;
UPDATE kp SET k = k + 1 WHERE k > 500;
ALTER TABLE kp SET ACCESS METHOD zheap;
CALL keyed_allow('kp');
UPDATE kp SET k = k - 1 WHERE k > 500;
SELECT count(*), sum(k), sum(id) FROM kp WHERE k > 500;
SELECT id FROM kp WHERE k = 502; SELECT id FROM kp WHERE k = 10002;
ALTER INDEX kp_k SET (fillfactor = 80);
SELECT id FROM kp WHERE k = 10002;
DISCARD ALL;
SET enable_seqscan = off;
SELECT id FROM kp WHERE k = 10002;
SELECT * FROM zheap_check('kp', true);
DROP TABLE kp;

-- EXPLAIN counts the rows found by entries of older keys
RESET enable_seqscan;
CREATE TABLE ke (id int PRIMARY KEY, k int, t text) USING zheap;
CREATE INDEX ke_k ON ke (k);
INSERT INTO ke SELECT g, g, 'e' FROM generate_series(1, 100) g;
SET zheap.update_indexed_in_place = on;
CALL keyed_allow('ke');
CREATE FUNCTION removed(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE l text;
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || q LOOP
		RETURN QUERY SELECT s FROM substring(l FROM 'Gather|Limit|Nested Loop|Index (?:Only )?Scan|Bitmap Heap Scan|Rows Removed.*') s WHERE s IS NOT NULL;
	END LOOP;
END $$;
BEGIN;
UPDATE ke SET k = k + 100 WHERE id BETWEEN 11 AND 20;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SELECT * FROM removed('SELECT t FROM ke WHERE k BETWEEN 11 AND 22');
SELECT * FROM removed('SELECT t FROM ke WHERE k BETWEEN 5 AND 20 ORDER BY k DESC LIMIT 1');
SELECT * FROM removed('SELECT k FROM ke WHERE k BETWEEN 11 AND 22');
SELECT * FROM removed('SELECT ke.t FROM (VALUES (11), (12), (21), (22)) v (x), LATERAL (SELECT t FROM ke WHERE k BETWEEN x - 1 AND x OFFSET 0) ke');
SELECT * FROM removed('SELECT t FROM ke WHERE k BETWEEN 111 AND 120');
SET LOCAL enable_bitmapscan = on; SET LOCAL enable_indexscan = off;
SELECT * FROM removed('SELECT t FROM ke WHERE k BETWEEN 11 AND 22');
SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on;
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT * FROM removed('SELECT t FROM ke WHERE k BETWEEN 11 AND 22');
ROLLBACK;
DROP FUNCTION removed;
DROP TABLE ke;
DROP PROCEDURE keyed_allow;
