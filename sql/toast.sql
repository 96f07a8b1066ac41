-- Large values: compressed, out of line, changed, kept, rolled back.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE FUNCTION tst_random(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT string_agg(md5(seed || '.' || g), '') FROM generate_series(1, n / 32) g $$;
CREATE TABLE tst (id int PRIMARY KEY, n int, t text, j jsonb, b bytea);
INSERT INTO tst SELECT g, 0, tst_random(g, g * 3200), NULL, NULL FROM generate_series(1, 10) g;
SELECT id, length(t), md5(t) = md5(tst_random(id, id * 3200)) AS same FROM tst ORDER BY id;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'tst'::regclass;
-- another column; the toasted one; both; back to a short one and to null
UPDATE tst SET n = n + id;
SELECT sum(n), count(*) FILTER (WHERE t = tst_random(id, id * 3200)) AS same FROM tst;
UPDATE tst SET t = tst_random(id + 100, 6400) WHERE id <= 5;
SELECT id, length(t), t = tst_random(id + 100, 6400) AS same FROM tst WHERE id <= 6 ORDER BY id;
UPDATE tst SET t = t || 'tail', n = -1 WHERE id = 6;
SELECT n, right(t, 8) = right(tst_random(6, 19200), 4) || 'tail' AS same FROM tst WHERE id = 6;
UPDATE tst SET t = 'short' WHERE id = 7;
UPDATE tst SET t = NULL WHERE id = 8;
SELECT id, t FROM tst WHERE id IN (7, 8) ORDER BY id;
UPDATE tst SET t = tst_random(id, 9600) WHERE id IN (7, 8);
SELECT id, length(t), t = tst_random(id, 9600) AS same FROM tst WHERE id IN (7, 8) ORDER BY id;
UPDATE tst SET t = t;
SELECT count(*), sum(length(t)) FROM tst;
-- rolled back: inserts, updates, deletes, of savepoints too
CREATE TABLE tst_before AS SELECT id, n, md5(t) AS m FROM tst;
CREATE FUNCTION tst_same() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN NOT EXISTS ((SELECT id, n, md5(t) FROM tst) EXCEPT ALL TABLE tst_before)
		AND NOT EXISTS (TABLE tst_before EXCEPT ALL (SELECT id, n, md5(t) FROM tst)) THEN 'same' ELSE 'DIFFERENT' END $$;
BEGIN; UPDATE tst SET t = tst_random(1, 32000); ROLLBACK;
SELECT tst_same();
BEGIN; UPDATE tst SET t = 'x', n = 1; UPDATE tst SET t = tst_random(2, 3200); ROLLBACK;
SELECT tst_same();
BEGIN; DELETE FROM tst; ROLLBACK;
SELECT tst_same();
BEGIN; INSERT INTO tst SELECT g, 0, tst_random(g, 6400) FROM generate_series(20, 30) g; ROLLBACK;
SELECT tst_same();
BEGIN;
UPDATE tst SET n = 5 WHERE id = 1;
SAVEPOINT a;
UPDATE tst SET t = tst_random(3, 16000) WHERE id < 4;
SELECT count(*) FILTER (WHERE t = tst_random(3, 16000)) FROM tst;
SAVEPOINT b;
DELETE FROM tst WHERE id < 4;
ROLLBACK TO b;
SELECT count(*) FILTER (WHERE t = tst_random(3, 16000)) FROM tst;
ROLLBACK TO a;
UPDATE tst SET n = (SELECT n FROM tst_before WHERE id = 1) WHERE id = 1;
COMMIT;
SELECT tst_same();
-- an old snapshot reads the old value, also when it opens it late
BEGIN;
DECLARE c CURSOR FOR SELECT id, md5(t) = (SELECT m FROM tst_before b WHERE b.id = tst.id) AS same FROM tst WHERE id < 4 ORDER BY id;
UPDATE tst SET t = tst_random(4, 8000) WHERE id < 3;
DELETE FROM tst WHERE id = 3;
FETCH ALL FROM c;
SELECT id, length(t) FROM tst WHERE id < 4 ORDER BY id;
ROLLBACK;
-- deleted and vacuumed, inserted again
DELETE FROM tst WHERE id > 5;
VACUUM tst;
INSERT INTO tst SELECT g, 0, tst_random(g, 6400) FROM generate_series(6, 12) g;
SELECT count(*), sum(length(t)) FROM tst;
-- the four kinds of storage, and compression
CREATE TABLE tst_sto (id int PRIMARY KEY, p text, e text, m text, x text);
ALTER TABLE tst_sto ALTER p SET STORAGE PLAIN, ALTER e SET STORAGE EXTERNAL,
	ALTER m SET STORAGE MAIN, ALTER x SET STORAGE EXTENDED;
INSERT INTO tst_sto VALUES (1, repeat('p', 1000), repeat('e', 5000), repeat('m', 5000), repeat('x', 5000)),
	(2, repeat('p', 2000), repeat('e', 100), repeat('m', 100000), repeat('x', 300000)),
	(3, NULL, tst_random(1, 9600), tst_random(2, 6400), tst_random(3, 9600)),
	(4, '', '', '', '');
SELECT id, length(p), length(e), length(m), length(x),
	pg_column_size(e) = length(e) AS e_plain, pg_column_size(x) < length(x) AS x_compressed FROM tst_sto ORDER BY id;
SELECT id, substr(e, 4990, 20) = repeat('e', 11) AS sliced FROM tst_sto WHERE id = 1;
SELECT e = tst_random(1, 9600), m = tst_random(2, 6400), x = tst_random(3, 9600) FROM tst_sto WHERE id = 3;
UPDATE tst_sto SET p = repeat('q', 500), x = repeat('y', 200000) WHERE id = 2;
UPDATE tst_sto SET (p, e, m, x) = (x, m, e, p) WHERE id = 4;
UPDATE tst_sto SET m = e, e = m WHERE id = 3;
SELECT id, length(p), md5(e), md5(m), length(x) FROM tst_sto ORDER BY id;
-- the header of a row says that it holds something out of line: none any more
UPDATE tst_sto SET (p, e, m, x) = ('a', 'b', 'c', 'd') WHERE id = 3;
SELECT * FROM tst_sto WHERE id = 3;
-- a megabyte and more, of several types
INSERT INTO tst (id, t) VALUES (100, tst_random(1, 1048576));
INSERT INTO tst (id, t) VALUES (101, repeat('long and dull', 1000000));
INSERT INTO tst (id, b) VALUES (102, decode(tst_random(5, 2097152), 'hex'));
INSERT INTO tst (id, j) SELECT 103, jsonb_object_agg('key' || g, jsonb_build_array(g, md5(g::text), g % 2 = 0)) FROM generate_series(1, 5000) g;
SELECT id, length(t), length(b), j -> 'key77', md5(coalesce(t, '') || coalesce(b::text, '') || coalesce(j::text, '')) FROM tst WHERE id >= 100 ORDER BY id;
UPDATE tst SET j = jsonb_set(j, '{key77,0}', '"new"'), n = 1 WHERE id = 103;
SELECT j -> 'key77', (SELECT count(*) FROM jsonb_object_keys(j)) FROM tst WHERE id = 103;
UPDATE tst SET t = substr(t, 1, 500000) WHERE id = 100;
SELECT length(t), t = tst_random(1, 500000) FROM tst WHERE id = 100;
BEGIN; UPDATE tst SET t = 'gone', b = NULL WHERE id >= 100; ROLLBACK;
SELECT id, length(t), length(b) FROM tst WHERE id >= 100 ORDER BY id;
CREATE TABLE tst_arr (id int, a text[], i int[], k numeric[]);
INSERT INTO tst_arr SELECT 1, array_agg(md5(g::text)), array_agg(g), array_agg(g / 7.0) FROM generate_series(1, 20000) g;
SELECT array_length(a, 1), a[777], i[19999], k[3] FROM tst_arr;
UPDATE tst_arr SET a[777] = 'changed', i = i[1:3];
SELECT array_length(a, 1), a[777], i, a[778] FROM tst_arr;
-- large values through triggers, returning, insert .. select, functions
CREATE FUNCTION tst_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'old % new %', length(OLD.t), length(NEW.t);
	NEW.n = 77;
	RETURN NEW;
END $$;
CREATE TRIGGER tst_b BEFORE UPDATE ON tst FOR EACH ROW EXECUTE FUNCTION tst_note();
CREATE TRIGGER tst_a AFTER UPDATE ON tst FOR EACH ROW EXECUTE FUNCTION tst_note();
UPDATE tst SET t = t || t WHERE id = 1 RETURNING id, n, length(t);
DROP TRIGGER tst_a ON tst; DROP TRIGGER tst_b ON tst;
CREATE TABLE tst_copy AS TABLE tst;
INSERT INTO tst_copy SELECT * FROM tst;
SELECT count(*), count(DISTINCT (id, md5(t))) FROM tst_copy;
DELETE FROM tst;
SELECT count(*), sum(length(t)) FROM tst_copy;
SELECT count(*) FROM tst;
-- indexed columns with large values; a hash of one as expression index
CREATE TABLE tst_idx (id int, t text);
CREATE INDEX tst_idx_md5 ON tst_idx (md5(t));
INSERT INTO tst_idx SELECT g, tst_random(g, 3200) FROM generate_series(1, 50) g;
UPDATE tst_idx SET t = tst_random(id + 50, 3200) WHERE id % 2 = 0;
SET enable_seqscan = off;
SELECT id FROM tst_idx WHERE md5(t) = md5(tst_random(7, 3200));
SELECT id FROM tst_idx WHERE md5(t) = md5(tst_random(8, 3200));
SELECT id FROM tst_idx WHERE md5(t) = md5(tst_random(58, 3200));
RESET enable_seqscan;
-- columns added and dropped
ALTER TABLE tst_copy DROP COLUMN b, ADD COLUMN z text DEFAULT repeat('default', 1000);
SELECT count(*), sum(length(t)), sum(length(z)) FROM tst_copy;
UPDATE tst_copy SET z = z || '.' WHERE id = 1;
SELECT length(t), length(z) FROM tst_copy WHERE id = 1;
VACUUM tst, tst_copy;
SELECT count(*), sum(length(t)), sum(length(z)) FROM tst_copy;
