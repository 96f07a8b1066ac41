-- Updates that stay where they are.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE upd (id int PRIMARY KEY, n int, t text, f float8, x numeric);
INSERT INTO upd SELECT g, g, 'text ' || g, g / 2.0, g FROM generate_series(1, 500) g;
UPDATE upd SET n = n + 1000;
SELECT count(*), sum(n), sum(f), sum(x), min(t), max(t) FROM upd;
UPDATE upd SET n = n + 1 WHERE id <= 100 RETURNING id % 50 = 0 AND n > 1000 AS ok, id % 100 = 0 AS hundred;
-- same values, shorter, longer, null and back
UPDATE upd SET t = t;
UPDATE upd SET t = '' WHERE id % 2 = 0;
SELECT count(*), sum(length(t)) FROM upd;
UPDATE upd SET t = repeat('y', id % 60) WHERE id % 2 = 0;
SELECT count(*), sum(length(t)) FROM upd;
UPDATE upd SET t = NULL, n = NULL WHERE id % 3 = 0;
SELECT count(*), count(t), count(n), sum(n) FROM upd;
UPDATE upd SET t = 'back', n = id WHERE t IS NULL;
SELECT count(*), count(t), count(n), sum(n) FROM upd;
-- all columns at once, from itself, from another table
UPDATE upd SET (n, t, f, x) = (id * 2, 'all', id, -id);
SELECT sum(n), min(t), max(t), sum(f), sum(x) FROM upd;
UPDATE upd u SET n = v.n FROM upd v WHERE v.id = 501 - u.id;
SELECT sum(n), sum(n * id) FROM upd;
-- several times in one transaction, with cursors that see what was
BEGIN;
DECLARE c0 CURSOR FOR SELECT id, n FROM upd WHERE id <= 3 ORDER BY id;
UPDATE upd SET n = -1 WHERE id <= 3;
DECLARE c1 CURSOR FOR SELECT id, n FROM upd WHERE id <= 3 ORDER BY id;
UPDATE upd SET n = -2 WHERE id <= 2;
DECLARE c2 CURSOR FOR SELECT id, n FROM upd WHERE id <= 3 ORDER BY id;
UPDATE upd SET n = -3 WHERE id = 1;
FETCH ALL FROM c0;
FETCH ALL FROM c1;
FETCH ALL FROM c2;
SELECT id, n FROM upd WHERE id <= 3 ORDER BY id;
COMMIT;
SELECT id, n FROM upd WHERE id <= 3 ORDER BY id;
-- an update joined to two partners for a row takes one, as heap
UPDATE upd SET n = s.v FROM (VALUES (10, 77), (10, 77)) s(id, v) WHERE upd.id = s.id;
SELECT n FROM upd WHERE id = 10;
-- triggers see the old and the new row, immediate and deferred
CREATE TABLE upd_log (seq serial, op text, oldn int, newn int);
CREATE FUNCTION upd_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO upd_log (op, oldn, newn) VALUES (TG_WHEN || ' ' || TG_ARGV[0], OLD.n, NEW.n);
	RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE UPDATE ON upd FOR EACH ROW EXECUTE FUNCTION upd_note('before');
CREATE TRIGGER a AFTER UPDATE ON upd FOR EACH ROW WHEN (OLD.n IS DISTINCT FROM NEW.n) EXECUTE FUNCTION upd_note('after');
CREATE CONSTRAINT TRIGGER d AFTER UPDATE ON upd DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION upd_note('deferred');
BEGIN;
UPDATE upd SET n = 1 WHERE id = 20;
UPDATE upd SET n = 2 WHERE id = 20;
SAVEPOINT s;
UPDATE upd SET n = 3 WHERE id = 20;
ROLLBACK TO s;
UPDATE upd SET n = 4 WHERE id = 20;
UPDATE upd SET n = 4 WHERE id = 20;
COMMIT;
SELECT op, oldn, newn FROM upd_log ORDER BY seq;
DROP TRIGGER a ON upd; DROP TRIGGER b ON upd; DROP TRIGGER d ON upd;
-- transition tables
TRUNCATE upd_log;
CREATE FUNCTION upd_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO upd_log (op, oldn, newn)
		SELECT 'table', o.n, n.n FROM o JOIN n USING (id) ORDER BY id;
	RETURN NULL;
END $$;
CREATE TRIGGER tt AFTER UPDATE ON upd REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION upd_tables();
UPDATE upd SET n = id + 1 WHERE id BETWEEN 30 AND 33;
SELECT op, oldn, newn FROM upd_log ORDER BY seq;
DROP TABLE upd, upd_log;
DROP FUNCTION upd_note, upd_tables;
-- columns added, with and without a default, and dropped
CREATE TABLE upd_col (id int, a text);
INSERT INTO upd_col VALUES (1, 'a'), (2, 'b'), (3, 'c');
ALTER TABLE upd_col ADD COLUMN n int;
ALTER TABLE upd_col ADD COLUMN d text DEFAULT 'dflt';
SELECT * FROM upd_col ORDER BY id;
UPDATE upd_col SET n = id WHERE id = 1;
UPDATE upd_col SET d = 'changed' WHERE id = 2;
SELECT * FROM upd_col ORDER BY id;
ALTER TABLE upd_col DROP COLUMN a;
UPDATE upd_col SET n = 5 WHERE id = 3;
SELECT * FROM upd_col ORDER BY id;
DROP TABLE upd_col;
