-- Silent fault looked for: values in the toast table to which no row points any
-- more, which nothing would ever delete.  zheap_check() finds those that are
-- planted here, and no others.
SET default_table_access_method = zheap;
SET client_min_messages = warning;
CREATE TABLE toc (id int PRIMARY KEY, k int, big text, other text);
ALTER TABLE toc ALTER big SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL;
CREATE INDEX toc_k ON toc (k);
SELECT reltoastrelid AS toast, reltoastrelid::regclass AS toastname FROM pg_class WHERE relname = 'toc' \gset
CREATE FUNCTION toc_found() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(what, 'pg_toast_\d+', 'pg_toast_N'), 'at \(\d+,\d+\)', 'at (B,O)')
	FROM zheap_check('toc') ORDER BY 1 $$;
INSERT INTO toc SELECT g, g, repeat(md5(g::text), 200), repeat(md5((-g)::text), 100) FROM generate_series(1, 40) g;
SELECT * FROM toc_found();

-- replaced, moved, deleted, rolled back, in progress, of a column that is gone
UPDATE toc SET big = repeat(md5(big), 200) WHERE id < 10;
UPDATE toc SET k = -k WHERE id BETWEEN 5 AND 15;
UPDATE toc SET k = 100 + k, big = NULL WHERE id = 16;
DELETE FROM toc WHERE id BETWEEN 17 AND 20;
BEGIN;
INSERT INTO toc SELECT g, g, repeat(md5(g::text), 200) FROM generate_series(41, 50) g;
UPDATE toc SET big = repeat('a', 9000) WHERE id = 21;
SAVEPOINT s;
UPDATE toc SET big = repeat('b', 9000), other = repeat('c', 9000) WHERE id < 25;
DELETE FROM toc WHERE id > 45;
SELECT * FROM toc_found();
ROLLBACK TO s;
SELECT * FROM toc_found();
ROLLBACK;
SELECT * FROM toc_found();
INSERT INTO toc VALUES (1, 1, repeat('x', 9000)) ON CONFLICT DO NOTHING;
INSERT INTO toc VALUES (2, 2, repeat('x', 9000)) ON CONFLICT (id) DO UPDATE SET other = excluded.big;
ALTER TABLE toc DROP other;
SELECT * FROM toc_found();
UPDATE toc SET k = k + 1 WHERE id < 8;
SELECT * FROM toc_found();
VACUUM FULL toc;
SELECT * FROM toc_found();

-- planted: a value nobody has, and chunks of one that somebody has
SELECT reltoastrelid::regclass AS toastname FROM pg_class WHERE relname = 'toc' \gset
SET allow_system_table_mods = on;
UPDATE pg_class SET relkind = 'r' WHERE oid = :toast;
INSERT INTO :toastname VALUES (1, 0, 'planted'), (1, 1, 'planted'), (4294967295, 0, 'planted');
UPDATE pg_class SET relkind = 't' WHERE oid = :toast;
SELECT * FROM toc_found();
BEGIN;
UPDATE pg_class SET relkind = 'r' WHERE oid = :toast;
DELETE FROM :toastname WHERE chunk_id = 1;
UPDATE pg_class SET relkind = 't' WHERE oid = :toast;
SELECT * FROM toc_found();
ROLLBACK;
SELECT * FROM toc_found();
-- a rewrite leaves them behind
VACUUM FULL toc;
SELECT * FROM toc_found();
-- without indexes nothing of this is looked at
SELECT * FROM zheap_check('toc', false);
DROP TABLE toc;
DROP FUNCTION toc_found;
