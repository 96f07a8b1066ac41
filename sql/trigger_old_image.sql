-- Silent fault looked for: OLD equal to NEW after an update in place, in AFTER
-- triggers, WHEN, transition tables, audit rows and cascades.
SET default_table_access_method = zheap;
CREATE TABLE so (id int PRIMARY KEY, v int);
CREATE TABLE so_audit (n serial, was text, became text);
CREATE FUNCTION so_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO so_audit (was, became) VALUES (OLD, NEW); RETURN NULL; END $$;
CREATE FUNCTION so_stmt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO so_audit (was, became) SELECT o, n FROM o JOIN n USING (id) ORDER BY id; RETURN NULL; END $$;
CREATE TRIGGER r AFTER UPDATE ON so FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION so_row();
CREATE TRIGGER s AFTER UPDATE ON so REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION so_stmt();
INSERT INTO so VALUES (1, 10), (2, 20);
UPDATE so SET v = v + 1;
UPDATE so SET v = v WHERE id = 1;
SELECT was, became FROM so_audit ORDER BY n;
CREATE TABLE so_p (k int UNIQUE, v int);
CREATE TABLE so_c (k int REFERENCES so_p (k) ON UPDATE CASCADE, v int);
INSERT INTO so_p VALUES (1, 0), (2, 0);
INSERT INTO so_c VALUES (1, 0), (2, 0);
BEGIN;
UPDATE so_p SET v = v + 1;
UPDATE so_p SET k = k + 10, v = v + 1;
UPDATE so_p SET v = v + 1;
COMMIT;
SELECT * FROM so_c ORDER BY k;
DROP TABLE so, so_audit, so_c, so_p;
DROP FUNCTION so_row, so_stmt;
