-- What a transaction sees of its own changes: by later commands, by cursors
-- and functions with older ones, after savepoints, through every kind of scan.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE own (id int, v int, t text);
CREATE UNIQUE INDEX own_id ON own (id);
CREATE INDEX own_v ON own (v);
-- the same key deleted and inserted again and again by one transaction: each
-- uniqueness check meets all the rows that ended
CREATE TABLE own_key (a int PRIMARY KEY, n int);
DO $$
BEGIN
	FOR i IN 1..700 LOOP
		DELETE FROM own_key;
		INSERT INTO own_key SELECT 1, i;
	END LOOP;
END $$;
SELECT * FROM own_key;
BEGIN;
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		BEGIN
			DELETE FROM own_key WHERE a = 1;
			INSERT INTO own_key VALUES (1, i);
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT * FROM own_key;
INSERT INTO own_key VALUES (1, 0) ON CONFLICT (a) DO UPDATE SET n = own_key.n + 1000;
INSERT INTO own_key VALUES (1, 0) ON CONFLICT DO NOTHING;
SELECT * FROM own_key;
SAVEPOINT s;
INSERT INTO own_key VALUES (1, 5);
ROLLBACK TO s;
SELECT * FROM own_key;
ROLLBACK;
SELECT * FROM own_key;

-- one question, asked through each kind of scan
CREATE FUNCTION own_seen() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	way text;
	one text;
	first text;
BEGIN
	FOREACH way IN ARRAY ARRAY['seqscan', 'indexscan', 'bitmapscan', 'indexonlyscan'] LOOP
		PERFORM set_config('enable_seqscan', CASE way WHEN 'seqscan' THEN 'on' ELSE 'off' END, true);
		PERFORM set_config('enable_indexscan', CASE way WHEN 'indexscan' THEN 'on' ELSE 'off' END, true);
		PERFORM set_config('enable_bitmapscan', CASE way WHEN 'bitmapscan' THEN 'on' ELSE 'off' END, true);
		PERFORM set_config('enable_indexonlyscan', CASE way WHEN 'indexonlyscan' THEN 'on' ELSE 'off' END, true);
		IF way = 'indexonlyscan' THEN
			PERFORM set_config('enable_indexscan', 'on', true);
			SELECT count(*) || ' rows, ids ' || COALESCE(sum(id), 0) INTO one FROM own WHERE id BETWEEN 0 AND 100000;
			IF first NOT LIKE one || '%' THEN
				RETURN way || ': ' || one || ' instead of ' || first;
			END IF;
			CONTINUE;
		END IF;
		SELECT count(*) || ' rows, ids ' || COALESCE(sum(id), 0) || ', v ' || COALESCE(sum(v), 0) ||
			', hash ' || md5(COALESCE(string_agg(id || ':' || v || ':' || t, ',' ORDER BY id, v), ''))
			INTO one FROM own WHERE id BETWEEN 0 AND 100000;
		IF first IS NULL THEN
			first := one;
		ELSIF first <> one THEN
			RETURN way || ': ' || one || ' instead of ' || first;
		END IF;
	END LOOP;
	RETURN first;
END $$;

-- a ladder of commands, savepoints and cursors; each cursor has the command id
-- with which it was declared
INSERT INTO own SELECT g, g, 'old' FROM generate_series(1, 300) g;
BEGIN;
DECLARE c0 SCROLL CURSOR FOR SELECT count(*), sum(id), sum(v), count(DISTINCT t) FROM own;
DECLARE r0 SCROLL CURSOR FOR SELECT id, v, t FROM own WHERE id > 290 ORDER BY id;
UPDATE own SET t = 'one' WHERE id % 3 = 0;
SELECT own_seen();
DECLARE r1 SCROLL CURSOR FOR SELECT id, v, t FROM own WHERE id > 290 ORDER BY id;
FETCH 2 FROM r1;
DELETE FROM own WHERE id % 5 = 0;
SELECT own_seen();
SAVEPOINT a;
INSERT INTO own SELECT g, -g, 'two' FROM generate_series(5, 400, 5) g;
UPDATE own SET v = v + 1000 WHERE id % 7 = 0;
SELECT own_seen();
DECLARE r2 SCROLL CURSOR FOR SELECT id, v, t FROM own WHERE id > 290 ORDER BY id, v;
SAVEPOINT b;
DELETE FROM own WHERE id % 2 = 0;
INSERT INTO own VALUES (2, 2, 'three');
SELECT own_seen();
DECLARE r3 SCROLL CURSOR FOR SELECT id, v, t FROM own WHERE id > 290 ORDER BY id, v;
FETCH 3 FROM r3;
FETCH 2 FROM r2;
ROLLBACK TO b;
SELECT own_seen();
FETCH ALL FROM r2;
UPDATE own SET t = 'after b' WHERE id BETWEEN 280 AND 299;
SELECT own_seen();
RELEASE b;
MOVE ABSOLUTE 0 IN r2;
FETCH ALL FROM r2;
ROLLBACK TO a;
SELECT own_seen();
FETCH ALL FROM r1;
FETCH ALL FROM r0;
UPDATE own SET t = 'after a' WHERE id > 295;
SELECT own_seen();
MOVE ABSOLUTE 0 IN r0;
FETCH ALL FROM r0;
FETCH ALL FROM c0;
COMMIT;
SELECT own_seen();

-- a command whose function and triggers make further ones on the same pages:
-- the outer command must see none of them, the inner ones all before
TRUNCATE own;
INSERT INTO own SELECT g, g, 'old' FROM generate_series(1, 100) g;
CREATE TABLE own_log (id int, seen bigint);
CREATE FUNCTION own_change(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE own SET t = 'in ' || i WHERE id = i + 1;
	DELETE FROM own WHERE id = 101 - i;
	INSERT INTO own VALUES (1000 + i, i, 'new');
	INSERT INTO own_log SELECT i, count(*) FROM own;
	RETURN (SELECT count(*) FROM own WHERE t LIKE 'in%' OR t = 'new');
END $$;
CREATE FUNCTION own_look() RETURNS bigint LANGUAGE sql STABLE AS
	$$SELECT count(*) FROM own WHERE t LIKE 'in%' OR t = 'new'$$;
BEGIN;
UPDATE own SET v = v + 1;
SELECT id, t, own_change(id), own_look() FROM own WHERE id <= 8 ORDER BY id;
SELECT own_seen();
SELECT count(*), sum(seen) FROM own_log;
DECLARE c CURSOR FOR SELECT id, v, t FROM own WHERE id < 30 OR id > 1000 ORDER BY id;
FETCH 5 FROM c;
SELECT own_change(20);
UPDATE own SET t = t || '!' WHERE id < 30;
FETCH ALL FROM c;
SELECT own_seen();
ROLLBACK;
SELECT own_seen();
CREATE FUNCTION own_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() > 1 THEN
		RETURN NULL;
	END IF;
	UPDATE own SET t = 'trigger ' || NEW.id WHERE id = NEW.id + 50;
	INSERT INTO own_log SELECT NEW.id, count(*) FROM own WHERE t LIKE 'trigger%';
	RETURN NULL;
END $$;
CREATE TRIGGER own_after AFTER UPDATE OF v ON own FOR EACH ROW EXECUTE FUNCTION own_trigger();
TRUNCATE own_log;
BEGIN;
SAVEPOINT s;
UPDATE own SET v = v + 1 WHERE id <= 10;
SELECT own_seen();
ROLLBACK TO s;
UPDATE own SET v = v + 1 WHERE id BETWEEN 5 AND 15;
WITH d AS (DELETE FROM own WHERE id % 4 = 0 RETURNING id), u AS (
	UPDATE own SET v = v * 2 WHERE id % 4 = 1 RETURNING id)
	SELECT (SELECT count(*) FROM own), (SELECT count(*) FROM d), (SELECT count(*) FROM u);
SELECT own_seen();
SELECT count(*), sum(id), sum(seen) FROM own_log;
COMMIT;
SELECT own_seen();
DROP TRIGGER own_after ON own;

-- rows of one page changed by a transaction before mine, by mine and by its
-- savepoints, deleted by a join that comes back to the page
CREATE TABLE own_part (id int, v int);
INSERT INTO own_part SELECT g, 0 FROM generate_series(1, 200) g;
BEGIN;
UPDATE own_part SET v = 1 WHERE id % 2 = 0;
SAVEPOINT a;
UPDATE own_part SET v = 2 WHERE id % 4 = 0;
SAVEPOINT b;
UPDATE own_part SET v = 3 WHERE id % 8 = 0;
SELECT v, count(*) FROM own_part GROUP BY v ORDER BY v;
ROLLBACK TO a;
SELECT v, count(*) FROM own_part GROUP BY v ORDER BY v;
WITH moved AS (DELETE FROM own_part p USING generate_series(1, 200, 3) g WHERE p.id = g RETURNING p.*)
	INSERT INTO own_part SELECT id + 1000, v FROM moved;
SELECT v, count(*), min(id), max(id) FROM own_part GROUP BY v ORDER BY v;
SELECT min(id), max(id) FROM own_part;
COMMIT;
SELECT v, count(*), min(id), max(id) FROM own_part GROUP BY v ORDER BY v;

-- one statement a row, in any order, on rows that the transaction has made;
-- triggers and deferred checks look at them again
CREATE TABLE own_ref (id int PRIMARY KEY);
INSERT INTO own_ref VALUES (1), (2);
CREATE TABLE own_rows (id int PRIMARY KEY, v int, ref int REFERENCES own_ref DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE own_seen_by_trigger (what text, n int, v bigint);
CREATE FUNCTION own_row_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO own_seen_by_trigger VALUES (TG_OP, COALESCE(NEW.id, OLD.id),
		(CASE WHEN TG_OP = 'INSERT' THEN 0 ELSE OLD.v END) * 1000 + (CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE NEW.v END));
	RETURN NULL;
END $$;
CREATE TRIGGER own_rows_after AFTER INSERT OR UPDATE OR DELETE ON own_rows FOR EACH ROW EXECUTE FUNCTION own_row_trigger();
BEGIN;
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		INSERT INTO own_rows VALUES (i, 1, 1);
	END LOOP;
	FOR i IN 1..300 LOOP
		UPDATE own_rows SET v = v + 1 WHERE id = 1 + (i * 97) % 300;
	END LOOP;
	FOR i IN 1..300 LOOP
		BEGIN
			UPDATE own_rows SET v = v + 1 WHERE id = 1 + (i * 89) % 300;
			IF i % 4 = 0 THEN
				RAISE EXCEPTION 'back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
	FOR i IN 1..100 LOOP
		DELETE FROM own_rows WHERE id = i * 3;
	END LOOP;
END $$;
SELECT v, count(*), sum(id) FROM own_rows GROUP BY v ORDER BY v;
SELECT what, count(*), sum(n), sum(v) FROM own_seen_by_trigger GROUP BY what ORDER BY what;
-- there and back again: only what is left is checked
UPDATE own_rows SET ref = 99 WHERE id = 1;
UPDATE own_rows SET ref = 1 WHERE id = 1;
UPDATE own_rows SET ref = 99 WHERE id = 2;
DELETE FROM own_rows WHERE id = 2;
INSERT INTO own_rows VALUES (2, 5, 2);
UPDATE own_rows SET ref = 99 WHERE id = 4;
SAVEPOINT s;
UPDATE own_rows SET ref = 98 WHERE id IN (4, 5);
ROLLBACK TO s;
UPDATE own_rows SET ref = 2, v = v + 10 WHERE id = 4 RETURNING *;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
UPDATE own_rows SET ref = 2 WHERE id = 1;
UPDATE own_rows SET ref = 99 WHERE id = 1;
UPDATE own_rows SET v = v + 1 WHERE id = 1;
COMMIT;
WITH a AS (UPDATE own_rows SET v = v + 1 WHERE id <= 5 RETURNING id, v)
	SELECT a.id, a.v, r.v FROM a JOIN own_rows r ON r.id = a.id ORDER BY a.id;
BEGIN;
UPDATE own_rows SET v = 0 WHERE id <= 5;
-- a row twice in one command
UPDATE own_rows r SET v = r.v + g FROM generate_series(1, 3) g WHERE r.id = 1;
SELECT count(*) FROM own_rows WHERE v BETWEEN 0 AND 3 AND id <= 5;
MERGE INTO own_rows r USING (VALUES (1), (1)) s(id) ON r.id = s.id WHEN MATCHED THEN UPDATE SET v = r.v + 1;
ROLLBACK;
SELECT v, count(*), sum(id), sum(ref) FROM own_rows GROUP BY v ORDER BY v;

-- temporary tables, too
CREATE TEMP TABLE own_temp (id int PRIMARY KEY, v int);
BEGIN;
INSERT INTO own_temp SELECT g, 0 FROM generate_series(1, 50) g;
DECLARE t0 CURSOR FOR SELECT count(*), sum(v) FROM own_temp;
UPDATE own_temp SET v = 1 WHERE id <= 25;
SAVEPOINT s;
DELETE FROM own_temp WHERE id % 2 = 0;
DECLARE t1 CURSOR FOR SELECT count(*), sum(v) FROM own_temp;
INSERT INTO own_temp VALUES (2, 7);
SELECT count(*), sum(v) FROM own_temp;
FETCH t1;
ROLLBACK TO s;
SELECT count(*), sum(v) FROM own_temp;
FETCH t0;
COMMIT;
SELECT count(*), sum(v) FROM own_temp;
-- a row changed 3,000 times by my transaction, read by a query that is older: what
-- each of these did to the page isn't read again at the next one.  Five pages are
-- looked at for each update.
CREATE TABLE own_again (id int PRIMARY KEY, v int);
INSERT INTO own_again VALUES (1, 0);
CREATE FUNCTION own_changed(times int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..times LOOP
		UPDATE own_again SET v = v + 1;
	END LOOP;
	PERFORM * FROM own_again;
	RETURN times;
END $$;
CREATE FUNCTION own_pages(times int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE p json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
		WITH w AS MATERIALIZED (SELECT own_changed(' || times || '))
		SELECT (SELECT v FROM own_again) FROM w' INTO p;
	RETURN (p->0->'Plan'->>'Shared Hit Blocks')::int;
END $$;
SELECT own_pages(3000) < 7 * 3000 AS few;
WITH w AS MATERIALIZED (SELECT own_changed(10)) SELECT (SELECT v FROM own_again), w FROM w;
SELECT v FROM own_again;
DROP TABLE own_again;
DROP FUNCTION own_changed, own_pages;
DROP TABLE own, own_key, own_log, own_part, own_temp, own_rows, own_ref, own_seen_by_trigger;
DROP FUNCTION own_seen, own_change, own_look, own_trigger, own_row_trigger;
