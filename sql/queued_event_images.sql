-- Silent fault looked for: a second update of a row in place changes the NEW
-- (and OLD) of an event that is still queued.
SET default_table_access_method = zheap;
CREATE TABLE sq (id int PRIMARY KEY, v int);
CREATE TABLE sq_seen (n serial, what text);
CREATE FUNCTION sq_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO sq_seen (what) VALUES (concat_ws(' ', TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN OLD.v END, '>', CASE WHEN TG_OP <> 'DELETE' THEN NEW.v END)); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER d AFTER INSERT OR UPDATE OR DELETE ON sq DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sq_note();
BEGIN;
INSERT INTO sq VALUES (1, 1);
UPDATE sq SET v = 2;
UPDATE sq SET v = 3;
SAVEPOINT s;
UPDATE sq SET v = 4;
ROLLBACK TO s;
UPDATE sq SET v = 5;
DELETE FROM sq;
COMMIT;
SELECT what FROM sq_seen ORDER BY n;
TRUNCATE sq_seen;
INSERT INTO sq VALUES (1, 1);
BEGIN;
UPDATE sq SET v = 2;
UPDATE sq SET v = 3;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT what FROM sq_seen ORDER BY n;
UPDATE sq SET v = 4;
SET CONSTRAINTS ALL DEFERRED;
UPDATE sq SET v = 5;
UPDATE sq SET v = 6;
COMMIT;
SELECT what FROM sq_seen ORDER BY n;
-- one statement that changes a row, whose immediate trigger changes it again
CREATE FUNCTION sq_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v < 9 THEN UPDATE sq SET v = v + 1; END IF; RETURN NULL; END $$;
CREATE TRIGGER a AFTER UPDATE ON sq FOR EACH ROW EXECUTE FUNCTION sq_more();
CREATE TRIGGER b AFTER UPDATE ON sq FOR EACH ROW EXECUTE FUNCTION sq_note();
TRUNCATE sq_seen;
UPDATE sq SET v = 7;
SELECT what FROM sq_seen ORDER BY n;
DROP TABLE sq, sq_seen;
DROP FUNCTION sq_note, sq_more;
