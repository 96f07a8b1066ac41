-- TIDs as users give and see them.  A TID with an offset that no page has is
-- nobody's, whatever way it comes in; and a row's TID looks the same in queries,
-- RETURNING, triggers and their conditions.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE ts (id int PRIMARY KEY, v int, k int);
CREATE INDEX ts_k ON ts (k);
INSERT INTO ts SELECT g, g, g FROM generate_series(1, 5) g;
-- offsets of 8192 and more, alone and together with real ones
CREATE TABLE ts_tid (n serial, t tid) USING heap;
INSERT INTO ts_tid (t) SELECT format('(0,%s)', b + 1)::tid
	FROM unnest(ARRAY[0, 512, 4096, 8192, 16384, 24576, 32768, 40960, 49152, 57344]) b;
INSERT INTO ts_tid (t) VALUES ('(0,65535)'), ('(0,65534)'), ('(0,65533)'), ('(0,65520)'), ('(0,65521)'), ('(0,0)'), ('(1,1)'), ('(4294967295,1)'), ('(4294967295,65535)');
SELECT 'one', id FROM ts WHERE ctid = '(0,32769)';
SELECT 'any', id FROM ts WHERE ctid = ANY ('{"(0,1)","(0,8193)","(0,2)","(0,16386)"}'::tid[]);
SELECT 'range', id FROM ts WHERE ctid > '(0,8192)' AND ctid < '(0,40961)';
SELECT 'range', id FROM ts WHERE ctid >= '(0,2)' AND ctid <= '(0,8193)';
SELECT 'below', count(*) FROM ts WHERE ctid <= '(0,32769)';
CREATE FUNCTION ts_by(t tid) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN SELECT 'select ' || id AS s FROM ts WHERE ctid = t LOOP RETURN NEXT r.s; END LOOP;
	FOR r IN SELECT 'locked ' || id AS s FROM ts WHERE ctid = t FOR UPDATE LOOP RETURN NEXT r.s; END LOOP;
	FOR r IN SELECT 'keyshare ' || id AS s FROM ts WHERE ctid = t FOR KEY SHARE LOOP RETURN NEXT r.s; END LOOP;
	UPDATE ts SET v = v WHERE ctid = t RETURNING id INTO r;
	IF FOUND THEN RETURN NEXT 'updated ' || r.id; END IF;
	DELETE FROM ts WHERE ctid = t RETURNING id INTO r;
	IF FOUND THEN RETURN NEXT 'deleted ' || r.id; END IF;
EXCEPTION WHEN OTHERS THEN
	RETURN NEXT sqlstate;
END $$;
SELECT n, t, ts_by(t) FROM ts_tid WHERE n > 1 ORDER BY n;
SELECT * FROM ts ORDER BY id;
-- through joins of all kinds
SELECT n, id FROM ts_tid JOIN ts ON ts.ctid = t ORDER BY n;
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT n, id FROM ts_tid JOIN ts ON ts.ctid = t ORDER BY n;
SET enable_nestloop = off; SET enable_mergejoin = on;
SELECT n, id FROM ts_tid JOIN ts ON ts.ctid = t ORDER BY n;
RESET ALL;
SET default_table_access_method = zheap;
UPDATE ts SET v = v + 100 FROM ts_tid WHERE ts.ctid = t AND n > 1;
DELETE FROM ts USING ts_tid WHERE ts.ctid = t AND n > 1;
SELECT n, (SELECT id FROM ts WHERE ctid = t) FROM ts_tid ORDER BY n;
-- functions that follow a row
CREATE FUNCTION ts_current(t tid) RETURNS text LANGUAGE plpgsql AS $$
BEGIN RETURN currtid2('ts', t); EXCEPTION WHEN OTHERS THEN RETURN sqlstate; END $$;
SELECT n, t, ts_current(t) FROM ts_tid ORDER BY n;
-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM ts WHERE ctid = ANY ('{"(0,3)","(0,16387)","(0,4)","(0,32772)"}'::tid[]);
FETCH c;
UPDATE ts SET v = 33 WHERE CURRENT OF c RETURNING *;
FETCH c;
DELETE FROM ts WHERE CURRENT OF c RETURNING *;
FETCH c;
ROLLBACK;

-- what triggers are shown.  Each note compares with the TID that a query saw
-- before the statement.
CREATE TABLE ts_was (id int, t tid) USING heap;
CREATE TABLE ts_log (n serial, what text) USING heap;
CREATE FUNCTION ts_remember() RETURNS void LANGUAGE sql AS $$
	TRUNCATE ts_was, ts_log RESTART IDENTITY;
	INSERT INTO ts_was SELECT id, ctid FROM ts; $$;
CREATE FUNCTION ts_note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	note text := concat_ws(' ', TG_NAME, TG_OP);
BEGIN
	IF TG_OP <> 'INSERT' THEN
		note := note || ' old ' || OLD.v || CASE WHEN OLD.ctid = (SELECT t FROM ts_was WHERE id = OLD.id) THEN ' as it was' ELSE ' AT ' || OLD.ctid END;
	END IF;
	IF TG_OP <> 'DELETE' AND TG_WHEN = 'AFTER' THEN
		note := note || ' new ' || NEW.v || CASE WHEN EXISTS (SELECT FROM ts WHERE ctid = NEW.ctid AND id = NEW.id) THEN ' as it is' ELSE ' gone' END;
	END IF;
	INSERT INTO ts_log (what) VALUES (note);
	IF TG_WHEN = 'BEFORE' THEN RETURN coalesce(NEW, OLD); END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER after_row AFTER INSERT OR UPDATE OR DELETE ON ts FOR EACH ROW EXECUTE FUNCTION ts_note();
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT OR UPDATE OR DELETE ON ts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ts_note();
SELECT ts_remember();
UPDATE ts SET v = v + 1;
SELECT what FROM ts_log ORDER BY n;
SELECT ts_remember();
UPDATE ts SET k = k + 1 WHERE id < 3;
SELECT what FROM ts_log ORDER BY n;
-- again and again, in one transaction and in savepoints
SELECT ts_remember();
BEGIN;
UPDATE ts SET v = 0 WHERE id = 1;
SAVEPOINT s;
UPDATE ts SET v = 1 WHERE id = 2;
ROLLBACK TO s;
UPDATE ts SET v = 2 WHERE id = 2;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT what FROM ts_log ORDER BY n;
SELECT ts_remember();
UPDATE ts SET v = 3 WHERE id < 3;
DELETE FROM ts WHERE id = 5;
SELECT what FROM ts_log ORDER BY n;
COMMIT;
-- ON CONFLICT, MERGE, the old row fetched anew after a BEFORE trigger
CREATE TRIGGER before_row BEFORE UPDATE OR DELETE ON ts FOR EACH ROW EXECUTE FUNCTION ts_note();
SELECT ts_remember();
INSERT INTO ts VALUES (1, 10, 1), (9, 9, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE ts.ctid = (SELECT t FROM ts_was w WHERE w.id = ts.id) RETURNING id, (ctid = (SELECT t FROM ts_was w WHERE w.id = ts.id)) IS NULL AS new;
MERGE INTO ts USING (VALUES (2), (3)) m(id) ON ts.id = m.id AND ts.ctid = (SELECT t FROM ts_was w WHERE w.id = ts.id)
	WHEN MATCHED AND m.id = 2 THEN UPDATE SET v = 20
	WHEN MATCHED THEN DELETE;
SELECT what FROM ts_log ORDER BY n;
DROP TRIGGER before_row ON ts;
DROP TRIGGER deferred ON ts;
DROP TRIGGER after_row ON ts;
-- conditions of triggers
CREATE FUNCTION ts_was(i int) RETURNS tid LANGUAGE sql AS 'SELECT t FROM ts_was WHERE id = i';
CREATE TRIGGER when_old AFTER UPDATE ON ts FOR EACH ROW WHEN (OLD.ctid = ts_was(OLD.id)) EXECUTE FUNCTION ts_note();
CREATE TRIGGER when_not AFTER UPDATE ON ts FOR EACH ROW WHEN (OLD.ctid IS DISTINCT FROM ts_was(OLD.id)) EXECUTE FUNCTION ts_note();
CREATE TRIGGER when_new AFTER UPDATE ON ts FOR EACH ROW WHEN (OLD.ctid <> NEW.ctid AND OLD.tableoid = NEW.tableoid) EXECUTE FUNCTION ts_note();
CREATE TRIGGER when_delete AFTER DELETE ON ts FOR EACH ROW WHEN (OLD.ctid = ts_was(OLD.id)) EXECUTE FUNCTION ts_note();
SELECT ts_remember();
UPDATE ts SET v = v + 1;
DELETE FROM ts WHERE id = 1;
SELECT what FROM ts_log ORDER BY what;
SELECT ts_remember();
INSERT INTO ts VALUES (2, 30, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
SELECT what FROM ts_log ORDER BY what;
DROP TRIGGER when_old ON ts;
DROP TRIGGER when_not ON ts;
DROP TRIGGER when_new ON ts;
DROP TRIGGER when_delete ON ts;
-- rules, views, RETURNING, row movement, transition tables
CREATE TABLE ts_rule (was boolean) USING heap;
CREATE RULE r AS ON UPDATE TO ts DO ALSO INSERT INTO ts_rule VALUES (OLD.ctid = ts_was(OLD.id));
SELECT ts_remember();
UPDATE ts SET v = v + 1;
SELECT was, count(*) FROM ts_rule GROUP BY was;
DROP RULE r ON ts;
CREATE VIEW ts_view AS SELECT *, ctid AS c FROM ts WHERE v < 1000 WITH CHECK OPTION;
SELECT ts_remember();
SELECT count(*) FROM ts_view WHERE c = ts_was(id);
UPDATE ts_view SET v = v + 1 WHERE c = ts_was(id);
WITH u AS (UPDATE ts SET v = v + 1 RETURNING id, ctid AS c) SELECT count(*) FROM u;
BEGIN;
CREATE TEMP TABLE ts_returned ON COMMIT DROP AS SELECT 0 AS id, '(0,0)'::tid AS c;
WITH u AS (UPDATE ts SET v = v + 1 RETURNING id, ctid AS c) INSERT INTO ts_returned SELECT * FROM u;
SELECT count(*) FROM ts_returned r JOIN ts ON ts.ctid = r.c AND ts.id = r.id;
WITH d AS (DELETE FROM ts WHERE id > 2 RETURNING id, ctid AS c) INSERT INTO ts_returned SELECT * FROM d;
SELECT r.id, count(*), count(DISTINCT r.c) FROM ts_returned r GROUP BY r.id ORDER BY r.id;
ROLLBACK;
CREATE TABLE ts_part (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE ts_part1 PARTITION OF ts_part FOR VALUES FROM (0) TO (10);
CREATE TABLE ts_part2 PARTITION OF ts_part FOR VALUES FROM (10) TO (20);
INSERT INTO ts_part SELECT g, g FROM generate_series(1, 5) g;
CREATE FUNCTION ts_part_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ts_log (what) VALUES (concat_ws(' ', TG_OP, TG_RELNAME, CASE WHEN TG_OP <> 'INSERT' THEN 'old ' || OLD.id || ' ' || (OLD.ctid <= '(0,300)') END, CASE WHEN TG_OP <> 'DELETE' THEN 'new ' || NEW.id || ' ' || EXISTS (SELECT FROM ts_part p WHERE p.ctid = NEW.ctid AND p.tableoid = TG_RELID AND p.id = NEW.id) END));
	RETURN NULL;
END $$;
CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON ts_part FOR EACH ROW EXECUTE FUNCTION ts_part_note();
SELECT ts_remember();
UPDATE ts_part SET id = id + 10, v = 0 WHERE id < 3 RETURNING tableoid::regclass, id, ctid <= '(0,300)' AS sound;
UPDATE ts_part SET v = v + 1 WHERE id > 3;
SELECT what FROM ts_log ORDER BY n;
CREATE FUNCTION ts_stmt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM ctid FROM old_rows;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO ts_log (what) VALUES (sqlstate); RETURN NULL;
END $$;
CREATE TRIGGER s AFTER UPDATE ON ts REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION ts_stmt();
SELECT ts_remember();
UPDATE ts SET v = v + 1;
SELECT what FROM ts_log ORDER BY n;
DROP VIEW ts_view;
DROP TABLE ts, ts_tid, ts_was, ts_log, ts_rule, ts_part;
DROP FUNCTION ts_by, ts_current, ts_remember, ts_note, ts_was, ts_part_note, ts_stmt;
