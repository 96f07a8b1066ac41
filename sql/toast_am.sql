-- Silent fault looked for: large values written as heap tuples into zheap
-- pages, or chunks lost with the old version of a row.
SET default_table_access_method = zheap;
CREATE TABLE ta (id int PRIMARY KEY, v int, big text);
ALTER TABLE ta ALTER big SET STORAGE EXTERNAL;
SELECT a.amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam WHERE c.relname = 'ta';
INSERT INTO ta SELECT g, g, repeat(chr(96 + g), 10000) FROM generate_series(1, 3) g;
UPDATE ta SET v = v + 1;
BEGIN;
DECLARE c CURSOR FOR SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
UPDATE ta SET big = repeat('new', 5000) WHERE id = 1;
UPDATE ta SET big = NULL WHERE id = 2;
DELETE FROM ta WHERE id = 3;
SAVEPOINT s;
UPDATE ta SET big = repeat('undone', 5000);
ROLLBACK TO s;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
FETCH ALL FROM c;
ROLLBACK;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
UPDATE ta SET big = big || 'x' WHERE id = 1;
DELETE FROM ta WHERE id = 2;
VACUUM ta;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
DROP TABLE ta;
-- Silent fault looked for: a variable has a value that RETURNING gave, the
-- change is rolled back, and the variable's chunks with it.
CREATE FUNCTION ta_val(seed int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), 9000) FROM generate_series(1, 300) g $$;
CREATE TABLE tz (id int PRIMARY KEY, big text) USING zheap;
CREATE TABLE th (id int PRIMARY KEY, big text) USING heap;
ALTER TABLE tz ALTER big SET STORAGE EXTERNAL;
ALTER TABLE th ALTER big SET STORAGE EXTERNAL;
INSERT INTO tz SELECT g, ta_val(g) FROM generate_series(1, 3) g;
INSERT INTO th TABLE tz;
CREATE FUNCTION ta_keep(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE kept text;
BEGIN
	BEGIN
		EXECUTE change INTO kept;
		RAISE EXCEPTION 'back';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	RETURN length(kept) || ' ' || md5(kept);
END $$;
SELECT what, ta_keep(format(change, 'tz')) AS kept, ta_keep(format(change, 'tz')) = ta_keep(format(change, 'th')) AS as_heap
FROM (VALUES ('value', 'UPDATE %s SET big = ta_val(10) WHERE id = 1 RETURNING big'),
	('longer', 'UPDATE %s SET big = big || ''x'' WHERE id = 1 RETURNING big'),
	('unchanged', 'UPDATE %s SET id = 20 WHERE id = 1 RETURNING big'),
	('move', 'UPDATE %s SET big = ta_val(10), id = 20 WHERE id = 1 RETURNING big'),
	('insert', 'INSERT INTO %s VALUES (11, ta_val(11)) RETURNING big'),
	('conflict', 'INSERT INTO %s AS t VALUES (1, ta_val(11)) ON CONFLICT (id) DO UPDATE SET big = t.big || excluded.big RETURNING big'),
	('cte', 'WITH u AS (UPDATE %s SET big = ta_val(10) WHERE id = 1 RETURNING big) SELECT big FROM u'),
	('delete', 'DELETE FROM %s WHERE id = 1 RETURNING big')) v(what, change);
-- read in the subtransaction: by an expression, as README says
CREATE FUNCTION ta_read(t regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE kept text;
BEGIN
	BEGIN
		EXECUTE format('UPDATE %s SET big = ta_val(10) WHERE id = 1', t);
		EXECUTE format('SELECT big || '''' FROM %s WHERE id = 1', t) INTO kept;
		RAISE EXCEPTION 'back';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	RETURN length(kept) || ' ' || md5(kept);
END $$;
SELECT ta_read('tz'), ta_read('tz') = ta_read('th') AS as_heap;
SELECT count(*) FROM tz JOIN th USING (id, big);
DROP TABLE tz, th;
DROP FUNCTION ta_keep, ta_read, ta_val;
