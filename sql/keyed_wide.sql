-- Soft indexes with more than plain keys (Z44): INCLUDE, a predicate, an
-- expression, and types whose values can be equal without being the same.  Plain
-- keys change in place, other columns of the index make the row move.  Heap's twin
-- shows what is right.
SET zheap.update_indexed_in_place = on;
SET jit = off;
CREATE TABLE wz (id int PRIMARY KEY, a int, b int, n numeric, f float8, t text, v int) USING zheap;
CREATE TABLE wh (id int PRIMARY KEY, a int, b int, n numeric, f float8, t text, v int) USING heap;
-- one statement on both; @ is the table
CREATE FUNCTION both_do(stmt text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n bigint[] := '{}'; r bigint;
BEGIN
	EXECUTE replace(stmt, '@', 'wz'); GET DIAGNOSTICS r = ROW_COUNT; n := n || r;
	EXECUTE replace(stmt, '@', 'wh'); GET DIAGNOSTICS r = ROW_COUNT; n := n || r;
	IF n[1] <> n[2] THEN RAISE EXCEPTION 'zheap %, heap %', n[1], n[2]; END IF;
END $$;
SELECT both_do('CREATE INDEX @_include ON @ (a) INCLUDE (b)');
SELECT both_do('CREATE INDEX @_partial ON @ (a) WHERE b > 0');
SELECT both_do('CREATE INDEX @_expression ON @ (lower(t), a)');
SELECT both_do('CREATE INDEX @_n ON @ (n)');
SELECT both_do('CREATE INDEX @_f ON @ (f, a)');
SELECT both_do('INSERT INTO @ SELECT i, i % 20, i % 3 - 1, i, i, ''T'' || i % 5, 0 FROM generate_series(1, 200) i');
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
CALL keyed_allow('wz');
VACUUM wz; VACUUM wh;
-- what all kinds of scans show of both; nothing if they agree.  numeric and float8 with
-- their images: 1.0 isn't 1.00, 0 isn't -0
CREATE FUNCTION wide_differences() RETURNS SETOF text LANGUAGE plpgsql
	SET enable_sort = off AS $$
DECLARE q text; plan text; z text; h text;
BEGIN
	FOREACH plan IN ARRAY ARRAY['enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan'] LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		PERFORM set_config(plan, 'on', true);
		FOREACH q IN ARRAY ARRAY[
			'SELECT a, b FROM @ WHERE a > -9 AND b < 9 ORDER BY a',
			'SELECT a FROM @ WHERE a > -9 AND b > 0 ORDER BY a DESC',
			'SELECT count(*) FROM @ WHERE a = 3 AND b > 0',
			'SELECT sum(id) FROM @ WHERE lower(t) = ''t2'' AND a > 3',
			'SELECT lower(t), a FROM @ WHERE lower(t) > '''' ORDER BY lower(t), a',
			'SELECT n FROM @ WHERE n > -9 ORDER BY n',
			'SELECT n FROM @ WHERE n > -9 ORDER BY n DESC',
			'SELECT f, a FROM @ WHERE f > -9 ORDER BY f, a',
			'SELECT * FROM (SELECT * FROM @ WHERE n IN (3, 4, 1003) OFFSET 0) s ORDER BY id'] LOOP
			EXECUTE 'SELECT string_agg(x::text, '' '' ORDER BY x.*::text COLLATE "C") FROM (' || replace(q, '@', 'wz') || ') x' INTO z;
			EXECUTE 'SELECT string_agg(x::text, '' '' ORDER BY x.*::text COLLATE "C") FROM (' || replace(q, '@', 'wh') || ') x' INTO h;
			IF z IS DISTINCT FROM h THEN
				RETURN NEXT concat_ws(E'\n', plan, q, z, h);
			END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT wide_differences();
-- rows that moved since
CREATE TABLE wz_was AS SELECT id, ctid AS tid FROM wz;
CREATE FUNCTION wide_moved() RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	SELECT string_agg(id::text, ' ' ORDER BY id) INTO r FROM wz JOIN wz_was w USING (id) WHERE wz.ctid <> w.tid;
	TRUNCATE wz_was; INSERT INTO wz_was SELECT id, ctid FROM wz;
	RETURN coalesce(r, 'none');
END $$;

-- plain keys stay, back and forth; rows 1, 4, .. are beyond the predicate
SELECT both_do('UPDATE @ SET a = a + 1000 WHERE id BETWEEN 20 AND 29');
SELECT wide_moved();
SELECT wide_differences();
SELECT both_do('UPDATE @ SET a = a - 1000 WHERE id BETWEEN 20 AND 27');
SELECT both_do('UPDATE @ SET v = v + 1, a = a WHERE id BETWEEN 18 AND 31');
SELECT wide_moved();
SELECT wide_differences();
-- INCLUDE, predicate and expression: move
SELECT both_do('UPDATE @ SET b = b + 1 WHERE id = 30');
SELECT both_do('UPDATE @ SET b = -b, a = 4 WHERE id = 32');
SELECT both_do('UPDATE @ SET t = ''t7'' WHERE id = 33');
SELECT wide_moved();
SELECT wide_differences();
-- the same value in another case is another column, though not another key
SELECT both_do('UPDATE @ SET t = ''t4'', a = 5 WHERE id = 34');
SELECT wide_moved();
SELECT wide_differences();

-- equal and not the same: moves; another value stays, but not if an old entry is equal
SELECT both_do('UPDATE @ SET n = 40.0 WHERE id = 40');
SELECT both_do('UPDATE @ SET n = 1041.5 WHERE id = 41');
SELECT wide_moved();
SELECT wide_differences();
SELECT both_do('UPDATE @ SET n = 41.00 WHERE id = 41');
SELECT both_do('UPDATE @ SET n = 1042.5 WHERE id = 42');
SELECT both_do('UPDATE @ SET n = 42 WHERE id = 42');
SELECT wide_moved();
SELECT wide_differences();
SELECT both_do('UPDATE @ SET f = 0 WHERE id IN (43, 44)');
SELECT both_do('UPDATE @ SET f = ''-0'' WHERE id = 43');
SELECT both_do('UPDATE @ SET f = 7 WHERE id = 44');
SELECT both_do('UPDATE @ SET f = 0, a = a + 1 WHERE id = 44');
SELECT wide_moved();
SELECT wide_differences();
-- an entry of an aborted change counts, too
BEGIN;
SELECT both_do('UPDATE @ SET n = 5045.0 WHERE id = 45');
SELECT wide_differences();
ROLLBACK;
SELECT both_do('UPDATE @ SET n = 5045.00 WHERE id = 45');
BEGIN;
SELECT both_do('UPDATE @ SET n = 5046.0 WHERE id = 46');
ROLLBACK;
SELECT both_do('UPDATE @ SET n = 5046.0 WHERE id = 46');
SELECT wide_moved();
SELECT wide_differences();
-- two of them at once, by a trigger that changes the row before
SELECT both_do('UPDATE @ SET n = n + 0.5, f = f + 0.5, a = 7 WHERE id BETWEEN 50 AND 60');
SELECT both_do('UPDATE @ SET n = n - 0.5, f = f - 0.5, a = 8 WHERE id BETWEEN 50 AND 60');
SELECT wide_moved();
SELECT wide_differences();

-- an index that comes later: older versions have other columns
CREATE FUNCTION heap_like(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > ''T2'' COLLATE "C"';
SELECT both_do('UPDATE @ SET v = 1, a = a + 1 WHERE id < 20');
SELECT both_do('CREATE INDEX @_later ON @ (a) INCLUDE (v) WHERE heap_like(t)');
SELECT both_do('UPDATE @ SET v = 2 WHERE id = 9');
SELECT both_do('UPDATE @ SET a = a + 1 WHERE id = 9');
SELECT both_do('UPDATE @ SET a = a + 1 WHERE id < 20');
SELECT wide_moved();
SELECT wide_differences();
SET enable_seqscan = off;
SELECT (SELECT sum(a * v) FROM wz WHERE a > 0 AND heap_like(t)) = (SELECT sum(a * v) FROM wh WHERE a > 0 AND heap_like(t)) AS same;
RESET enable_seqscan;
SELECT * FROM zheap_check('wz');
REINDEX TABLE wz;
SELECT wide_differences();
SELECT * FROM zheap_check('wz');
-- VACUUM takes old entries away, and the marks
SELECT both_do('UPDATE @ SET a = a + 100, n = n + 100 WHERE id > 60');
VACUUM (INDEX_CLEANUP on) wz; CREATE TABLE tick (); DROP TABLE tick;
VACUUM (INDEX_CLEANUP on) wz; CREATE TABLE tick (); DROP TABLE tick;
VACUUM (INDEX_CLEANUP on) wz;
SELECT wide_differences();
SELECT count(*) AS marked FROM generate_series(0, pg_relation_size('wz') / 8192 - 1) b,
	zheap_page_items('wz', b::int) i WHERE 'stale' = ANY (i.flags);
SELECT * FROM zheap_check('wz');
-- functions of the whole row: inlined, they ask for one column
SELECT both_do('UPDATE @ SET v = id');
SELECT both_do('CREATE FUNCTION @_v(@) RETURNS int IMMUTABLE LANGUAGE sql AS ''SELECT $1.v''');
SELECT both_do('CREATE FUNCTION @_large(@) RETURNS boolean IMMUTABLE LANGUAGE sql AS ''SELECT $1.v > 150''');
SELECT both_do('CREATE UNIQUE INDEX @_row ON @ (@_v(@))');
SELECT both_do('CREATE INDEX @_row_partial ON @ (id) WHERE @_large(@)');
SELECT both_do('UPDATE @ SET v = 3 WHERE id = 5');
SELECT both_do('UPDATE @ SET v = 1009 WHERE id = 9');
SELECT both_do('UPDATE @ SET v = -v WHERE id = 190');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT id FROM wz WHERE wz_v(wz) = 1009;
DROP INDEX wz_row;
EXPLAIN (COSTS OFF) SELECT id, v FROM wz WHERE wz_large(wz) AND id < 156 ORDER BY id;
SELECT id, v FROM wz WHERE wz_large(wz) AND id < 156 ORDER BY id;
SELECT count(*) FROM wz WHERE wz_large(wz) AND id BETWEEN 186 AND 194;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT * FROM zheap_check('wz');
SET client_min_messages = warning;
DROP TABLE wz, wh, wz_was CASCADE;
DROP FUNCTION both_do, wide_differences, wide_moved, heap_like;
DROP PROCEDURE keyed_allow;
