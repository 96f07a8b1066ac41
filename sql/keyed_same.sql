-- A value that is stored in another way is the same key: TOAST moves an indexed
-- column out of line because of another one, ALTER TABLE asks for longer headers or
-- for no compression, a column's default becomes a value of the row.  No index gets
-- a second entry of it, and the row needn't move.
SET zheap.update_indexed_in_place = on;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE FUNCTION many(n text, k int) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT string_agg(md5(n || i), '') FROM generate_series(1, k) i $$;
CREATE TABLE sz (id int PRIMARY KEY, k int, url text, note text) USING zheap;
CREATE TABLE sh (id int PRIMARY KEY, k int, url text, note text) USING heap;
CREATE FUNCTION both_do(stmt text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(stmt, '@', 'sz');
	EXECUTE replace(stmt, '@', 'sh');
END $$;
SELECT both_do('CREATE INDEX @_k ON @ (k)');
SELECT both_do('CREATE INDEX @_url ON @ (url)');
SELECT both_do('CREATE INDEX @_both ON @ (k, url)');
SELECT both_do('INSERT INTO @ SELECT g, g, CASE WHEN g % 2 = 0 THEN ''u'' || g ELSE many(g || ''-'', 40) END, ''n'' FROM generate_series(1, 40) g');
-- until keys change in place (Z55)
DO $$
BEGIN
	LOOP
		UPDATE sz SET k = k + 1 WHERE id = 40;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags('sz', 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
UPDATE sz SET k = 40 WHERE id = 40;
-- what each index shows of both tables; nothing if they agree
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE c text; z text; h text;
BEGIN
	FOREACH c IN ARRAY ARRAY['k', 'url', '(k, url)'] LOOP
		EXECUTE format('SELECT string_agg(id::text, '' '') FROM (SELECT id FROM sz WHERE %s > %s ORDER BY %1$s) s', c,
			CASE c WHEN 'k' THEN '0' WHEN 'url' THEN '''''' ELSE 'ROW(0, '''')' END) INTO z;
		EXECUTE format('SELECT string_agg(id::text, '' '') FROM (SELECT id FROM sh WHERE %s > %s ORDER BY %1$s) s', c,
			CASE c WHEN 'k' THEN '0' WHEN 'url' THEN '''''' ELSE 'ROW(0, '''')' END) INTO h;
		IF z IS DISTINCT FROM h THEN RETURN NEXT c || ': zheap ' || z || E'\nheap ' || h; END IF;
	END LOOP;
	RETURN QUERY SELECT 'values of ' || count(*) FROM sz FULL JOIN sh USING (id)
		WHERE (sz.k, sz.url, sz.note) IS DISTINCT FROM (sh.k, sh.url, sh.note) HAVING count(*) > 0;
	PERFORM bt_index_check(i, true) FROM unnest('{sz_pkey,sz_k,sz_url,sz_both}'::regclass[]) i;
END $$;
CREATE TABLE tid_before AS SELECT id, ctid AS tid FROM sz;
CREATE FUNCTION moved() RETURNS text LANGUAGE sql AS
	$$ SELECT string_agg(id::text, ' ' ORDER BY id) FROM sz JOIN tid_before USING (id) WHERE sz.ctid <> tid AND id <> 40 $$;
SELECT * FROM differences();
-- out of line, unasked; with other keys beside
SELECT both_do('UPDATE @ SET note = many(id || ''+'', 30) WHERE id IN (3, 5)');
SELECT both_do('UPDATE @ SET note = many(id || ''+'', 30), k = k + 100 WHERE id IN (7, 9)');
SELECT count(*) FROM sz WHERE pg_column_size(url) > 1000 AND id IN (3, 5, 7, 9);
SELECT * FROM differences();
-- back into the row, its key first; again, when it may have old entries
SELECT both_do('UPDATE @ SET k = k + 100 WHERE id IN (3, 7)');
SELECT both_do('UPDATE @ SET note = ''short'' WHERE id IN (3, 5, 7, 9)');
SELECT both_do('UPDATE @ SET note = many(id || ''*'', 30), k = k - 100 WHERE id IN (3, 5, 7, 9)');
SELECT * FROM differences();
SELECT both_do('UPDATE @ SET url = many(id || ''-'', 40) WHERE id IN (1, 3, 5)');
SELECT * FROM differences();
-- a header of four bytes, of one byte
ALTER TABLE sz ALTER url SET STORAGE PLAIN;
ALTER TABLE sh ALTER url SET STORAGE PLAIN;
SELECT both_do('UPDATE @ SET url = ''u'' || id, note = ''plain'' WHERE id IN (2, 4, 6)');
SELECT both_do('UPDATE @ SET url = ''u'' || id, note = ''plain'', k = k + 100 WHERE id IN (8, 10)');
SELECT * FROM differences();
ALTER TABLE sz ALTER url SET STORAGE EXTENDED;
ALTER TABLE sh ALTER url SET STORAGE EXTENDED;
SELECT both_do('UPDATE @ SET url = ''u'' || id, note = ''short'' WHERE id IN (2, 4, 8)');
SELECT * FROM differences();
-- those whose k changed in an index that has their long url, too
SELECT moved();
-- compressed, and not any more; long in all, so that they are compressed
SELECT both_do('UPDATE @ SET url = repeat(''r'' || id, 800), note = ''n'' WHERE id IN (11, 12, 13, 14)');
SELECT * FROM differences();
SELECT min(pg_column_size(url)) < 200 AS compressed FROM sz WHERE id IN (11, 12, 13, 14);
ALTER TABLE sz ALTER url SET STORAGE EXTERNAL;
ALTER TABLE sh ALTER url SET STORAGE EXTERNAL;
SELECT both_do('UPDATE @ SET url = repeat(''r'' || id, 800), k = k + 100 WHERE id IN (11, 12)');
SELECT both_do('UPDATE @ SET url = repeat(''r'' || id, 800) WHERE id = 13');
SELECT * FROM differences();
-- the default of a column that was added becomes a value of the row
ALTER TABLE sz ADD d text DEFAULT 'dflt';
ALTER TABLE sh ADD d text DEFAULT 'dflt';
SELECT both_do('CREATE INDEX @_d ON @ (d, k)');
SELECT both_do('UPDATE @ SET d = ''dflt'', k = k + 1 WHERE id IN (15, 16)');
SELECT both_do('UPDATE @ SET d = ''dfl'' || ''t'' WHERE id IN (17, 18)');
SELECT both_do('UPDATE @ SET d = ''else'' WHERE id IN (15, 17, 19)');
SELECT both_do('UPDATE @ SET d = ''dflt'' WHERE id IN (15, 17, 19)');
SELECT * FROM differences();
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM sz WHERE d = 'dflt' ORDER BY d, k) s;
SELECT bt_index_check('sz_d', true);
RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_sort;
SELECT count(*) FROM zheap_check('sz');
VACUUM sz;
SELECT * FROM differences();
DROP TABLE sz, sh, tid_before;
DROP FUNCTION differences, moved, both_do, many;
-- With the settings as they are: a row whose unique column goes out of line stays,
-- with an index over an expression too
RESET zheap.update_indexed_in_place;
CREATE TABLE sz (url text PRIMARY KEY, note text) USING zheap;
CREATE INDEX ON sz (upper(url));
INSERT INTO sz SELECT string_agg(md5(g || '-' || i), ''), 'n' FROM generate_series(1, 3) g, generate_series(1, 40) i GROUP BY g;
CREATE TABLE tid_before AS SELECT md5(url) AS u, ctid AS tid FROM sz;
UPDATE sz SET note = (SELECT string_agg(md5('+' || i), '') FROM generate_series(1, 30) i);
SELECT count(*) FROM sz JOIN tid_before ON u = md5(url) WHERE tid <> sz.ctid;
SELECT count(*) FROM zheap_check('sz');
DROP TABLE sz, tid_before;
