-- Triggers that change rows themselves, INSTEAD OF triggers, transition
-- tables, partitions.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE tg_log (n serial, what text, o text, w text);
CREATE FUNCTION tg_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO tg_log (what, o, w) VALUES (concat_ws(' ', TG_TABLE_NAME, TG_WHEN, TG_OP, TG_ARGV[0]),
		CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END,
		CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END);
	RETURN coalesce(NEW, OLD);
END $$;
CREATE FUNCTION tg_logged() RETURNS SETOF text LANGUAGE sql AS $$
	WITH l AS (DELETE FROM tg_log RETURNING *)
	SELECT concat_ws(': ', what, coalesce(o, '-') || ' -> ' || coalesce(w, '-')) FROM l ORDER BY n
$$;
-- BEFORE triggers that change NEW, skip the row, or change the row itself
CREATE TABLE tg (id int PRIMARY KEY, v int, t text);
INSERT INTO tg SELECT g, 0, 'row' FROM generate_series(1, 5) g;
CREATE FUNCTION tg_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v = 13 THEN RETURN NULL; END IF;
	IF NEW.v = 14 THEN RETURN OLD; END IF;
	IF NEW.v = 15 THEN
		UPDATE tg SET v = 16 WHERE id = NEW.id;
		RETURN NEW;
	END IF;
	IF NEW.v = 17 THEN
		DELETE FROM tg WHERE id = NEW.id;
		RETURN NEW;
	END IF;
	IF NEW.v = 18 THEN
		UPDATE tg SET v = 19 WHERE id = NEW.id + 1;
	END IF;
	NEW.t := NEW.t || '+' || NEW.v;
	RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE UPDATE ON tg FOR EACH ROW EXECUTE FUNCTION tg_before();
CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON tg FOR EACH ROW EXECUTE FUNCTION tg_note();
UPDATE tg SET v = 1 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 13 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 14 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 15 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 17 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 18 WHERE id = 1 RETURNING *;
UPDATE tg SET v = 18 WHERE id IN (3, 4) RETURNING *;
SELECT tg_logged();
SELECT * FROM tg ORDER BY id;
DROP TRIGGER b ON tg;
-- AFTER triggers that update the row that fired them, to a depth
CREATE FUNCTION tg_again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v < 4 THEN
		UPDATE tg SET v = v + 1 WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER a AFTER UPDATE ON tg FOR EACH ROW EXECUTE FUNCTION tg_again();
UPDATE tg SET v = 1 WHERE id IN (1, 2);
SELECT tg_logged();
SELECT * FROM tg ORDER BY id;
DROP TRIGGER a ON tg;
CREATE CONSTRAINT TRIGGER a AFTER UPDATE ON tg DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tg_again();
CREATE CONSTRAINT TRIGGER y AFTER UPDATE OR DELETE ON tg DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tg_note('late');
BEGIN;
UPDATE tg SET v = 1 WHERE id = 3;
UPDATE tg SET v = 2 WHERE id = 3;
DELETE FROM tg WHERE id = 4;
UPDATE tg SET v = 1 WHERE id = 5;
DELETE FROM tg WHERE id = 5;
COMMIT;
SELECT tg_logged();
SELECT * FROM tg ORDER BY id;
-- a trigger that fails takes everything back
CREATE FUNCTION tg_fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v = 100 THEN RAISE EXCEPTION 'no % to %', OLD.v, NEW.v; END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER f AFTER UPDATE ON tg DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW EXECUTE FUNCTION tg_fail();
UPDATE tg SET v = v + 98;
BEGIN;
SET CONSTRAINTS f DEFERRED;
UPDATE tg SET v = 100 WHERE id = 1;
UPDATE tg SET v = 99 WHERE id = 1;
COMMIT;
BEGIN;
UPDATE tg SET v = 50 WHERE id = 1;
SAVEPOINT s;
UPDATE tg SET v = 100 WHERE id = 1;
ROLLBACK TO s;
UPDATE tg SET v = 51 WHERE id = 1;
COMMIT;
SELECT tg_logged();
SELECT * FROM tg ORDER BY id;
DROP TABLE tg;
-- INSTEAD OF on a view, and an updatable view over a table with triggers
CREATE TABLE tg_base (id int PRIMARY KEY, v int);
INSERT INTO tg_base SELECT g, g FROM generate_series(1, 4) g;
CREATE TRIGGER n AFTER INSERT OR UPDATE OR DELETE ON tg_base FOR EACH ROW EXECUTE FUNCTION tg_note();
CREATE VIEW tg_view AS SELECT id, v, v * 10 AS ten FROM tg_base;
UPDATE tg_view SET v = v + 1 WHERE id = 1 RETURNING *;
CREATE FUNCTION tg_instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		UPDATE tg_base SET v = -v WHERE id = OLD.id;
		RETURN OLD;
	ELSIF TG_OP = 'INSERT' THEN
		INSERT INTO tg_base VALUES (NEW.id, NEW.ten / 10);
		NEW.v := NEW.ten / 10;
		RETURN NEW;
	END IF;
	UPDATE tg_base SET v = NEW.ten / 10 WHERE id = OLD.id;
	UPDATE tg_base SET v = v + 1 WHERE id = OLD.id RETURNING v, v * 10 INTO NEW.v, NEW.ten;
	RETURN NEW;
END $$;
CREATE TRIGGER i INSTEAD OF INSERT OR UPDATE OR DELETE ON tg_view FOR EACH ROW EXECUTE FUNCTION tg_instead();
INSERT INTO tg_view (id, ten) VALUES (10, 500) RETURNING *;
UPDATE tg_view SET ten = ten + 100 WHERE v < 5 AND id > 1 RETURNING *;
DELETE FROM tg_view WHERE id = 3 RETURNING *;
SELECT tg_logged();
SELECT * FROM tg_view ORDER BY id;
DROP VIEW tg_view;
DROP TABLE tg_base;
-- transition tables: plain, on conflict, partitioned with moves, cascades
CREATE FUNCTION tg_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP IN ('UPDATE', 'DELETE') THEN
		INSERT INTO tg_log (what, o) SELECT concat_ws(' ', TG_TABLE_NAME, TG_OP, 'old'), r FROM (SELECT o::text r FROM o ORDER BY 1) x;
	END IF;
	IF TG_OP IN ('UPDATE', 'INSERT') THEN
		INSERT INTO tg_log (what, w) SELECT concat_ws(' ', TG_TABLE_NAME, TG_OP, 'new'), r FROM (SELECT n::text r FROM n ORDER BY 1) x;
	END IF;
	RETURN NULL;
END $$;
CREATE PROCEDURE tg_transitions(t regclass) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TRIGGER ti AFTER INSERT ON %s REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION tg_tables()', t);
	EXECUTE format('CREATE TRIGGER tu AFTER UPDATE ON %s REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION tg_tables()', t);
	EXECUTE format('CREATE TRIGGER td AFTER DELETE ON %s REFERENCING OLD TABLE AS o FOR EACH STATEMENT EXECUTE FUNCTION tg_tables()', t);
END $$;
CREATE TABLE tt (id int PRIMARY KEY, k int, v text);
CREATE INDEX ON tt (k);
CALL tg_transitions('tt');
INSERT INTO tt SELECT g, g, 'v' FROM generate_series(1, 4) g;
UPDATE tt SET v = v || id WHERE id < 3;
UPDATE tt SET k = k + 1, v = v || '*';
UPDATE tt SET v = repeat(v, 2) || k FROM (VALUES (1), (1), (2)) s(i) WHERE tt.id = s.i;
INSERT INTO tt VALUES (4, 40, 'new'), (5, 50, 'new') ON CONFLICT (id) DO UPDATE SET v = tt.v || excluded.v;
MERGE INTO tt USING (VALUES (1, 'a'), (2, 'b'), (9, 'c')) s(id, v) ON tt.id = s.id
	WHEN MATCHED AND tt.id = 1 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, s.v);
WITH w AS (UPDATE tt SET v = 'with' WHERE id = 3 RETURNING *) UPDATE tt SET v = tt.v || w.v FROM w WHERE tt.id = 4;
BEGIN;
UPDATE tt SET v = 'one';
SAVEPOINT s;
UPDATE tt SET v = 'two';
ROLLBACK TO s;
UPDATE tt SET v = v || 'three' WHERE id < 4;
COMMIT;
DELETE FROM tt WHERE id < 4;
SELECT tg_logged();
SELECT * FROM tt ORDER BY id;
DROP TABLE tt;
CREATE TABLE tp (id int, p int, v text, PRIMARY KEY (id, p)) PARTITION BY LIST (p);
CREATE TABLE tp1 PARTITION OF tp FOR VALUES IN (1);
CREATE TABLE tp2 (v text, extra int, p int NOT NULL, id int NOT NULL);
ALTER TABLE tp2 DROP COLUMN extra;
ALTER TABLE tp ATTACH PARTITION tp2 FOR VALUES IN (2);
CREATE TABLE tp3 PARTITION OF tp FOR VALUES IN (3) USING heap;
CALL tg_transitions('tp');
CREATE TRIGGER r AFTER INSERT OR UPDATE OR DELETE ON tp FOR EACH ROW EXECUTE FUNCTION tg_note('row');
INSERT INTO tp SELECT g, g % 3 + 1, 'v' || g FROM generate_series(1, 6) g;
UPDATE tp SET v = v || '+';
UPDATE tp SET p = p % 3 + 1 WHERE id < 4;
UPDATE tp SET v = 'in 2' WHERE p = 2;
INSERT INTO tp VALUES (1, 3, 'c'), (7, 1, 'c') ON CONFLICT (id, p) DO UPDATE SET v = tp.v || excluded.v;
DELETE FROM tp WHERE p > 1;
SELECT tg_logged();
SELECT * FROM tp ORDER BY id;
DROP TABLE tp;
-- cascades fire triggers with transition tables of the other table
CREATE TABLE tf (id int PRIMARY KEY, v int);
CREATE TABLE tfc (id int PRIMARY KEY, f int REFERENCES tf ON UPDATE CASCADE ON DELETE SET NULL, v int);
INSERT INTO tf SELECT g, g FROM generate_series(1, 4) g;
INSERT INTO tfc SELECT g, g % 3 + 1, g FROM generate_series(1, 6) g;
CALL tg_transitions('tfc');
CREATE TRIGGER r AFTER UPDATE ON tfc FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tg_note('row');
UPDATE tf SET id = id + 10 WHERE id < 3;
DELETE FROM tf WHERE id = 3;
SELECT tg_logged();
SELECT * FROM tfc ORDER BY id;
DROP TABLE tfc, tf, tg_log;
DROP FUNCTION tg_note, tg_logged, tg_before, tg_again, tg_fail, tg_instead, tg_tables;
DROP PROCEDURE tg_transitions;
