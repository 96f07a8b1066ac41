-- Savepoints and exception blocks.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE sp (id int PRIMARY KEY, n int);
INSERT INTO sp SELECT g, 0 FROM generate_series(1, 20) g;
BEGIN;
UPDATE sp SET n = 1 WHERE id = 1;
SAVEPOINT a;
UPDATE sp SET n = 2 WHERE id = 1;
UPDATE sp SET n = 2 WHERE id = 2;
SAVEPOINT b;
UPDATE sp SET n = 3 WHERE id <= 3;
INSERT INTO sp VALUES (100, 3);
DELETE FROM sp WHERE id = 4;
SELECT * FROM sp WHERE id <= 4 OR id = 100 ORDER BY id;
ROLLBACK TO b;
SELECT * FROM sp WHERE id <= 4 OR id = 100 ORDER BY id;
UPDATE sp SET n = 30 WHERE id = 3;
INSERT INTO sp VALUES (100, 4);
RELEASE b;
ROLLBACK TO a;
SELECT * FROM sp WHERE id <= 4 OR id = 100 ORDER BY id;
UPDATE sp SET n = n + 10 WHERE id = 1;
COMMIT;
SELECT * FROM sp WHERE id <= 4 OR id = 100 ORDER BY id;
-- released, then all rolled back
BEGIN;
SAVEPOINT a; UPDATE sp SET n = 50; RELEASE a;
SAVEPOINT b; DELETE FROM sp WHERE id > 10; RELEASE b;
UPDATE sp SET n = 60 WHERE id = 1;
ROLLBACK;
SELECT count(*), sum(n) FROM sp;
-- parent writes before and after an aborted child, then aborts too
BEGIN;
UPDATE sp SET n = 1 WHERE id = 5;
SAVEPOINT a; UPDATE sp SET n = 2 WHERE id IN (5, 6); ROLLBACK TO a;
UPDATE sp SET n = 3 WHERE id IN (5, 6, 7);
SELECT id, n FROM sp WHERE id BETWEEN 5 AND 7 ORDER BY id;
ROLLBACK;
SELECT id, n FROM sp WHERE id BETWEEN 5 AND 7 ORDER BY id;
-- a loop of exceptions: each undone, the rest kept
DO $$
BEGIN
	FOR i IN 1..500 LOOP
		BEGIN
			UPDATE sp SET n = n + 1 WHERE id = 8;
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'odd only';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT n FROM sp WHERE id = 8;
-- deep nesting; duplicates caught
CREATE FUNCTION sp_nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE sp SET n = n + 1 WHERE id = 9;
	IF depth > 0 THEN
		BEGIN
			PERFORM sp_nest(depth - 1);
			IF depth % 3 = 0 THEN
				INSERT INTO sp VALUES (1, 1);
			END IF;
		EXCEPTION WHEN unique_violation THEN
			UPDATE sp SET n = n + 100 WHERE id = 9;
		END;
	END IF;
END $$;
SELECT sp_nest(10);
SELECT n FROM sp WHERE id = 9;
-- cursors across savepoints
BEGIN;
DECLARE c CURSOR FOR SELECT id, n FROM sp WHERE id BETWEEN 5 AND 7 ORDER BY id;
SAVEPOINT a;
UPDATE sp SET n = 99 WHERE id BETWEEN 5 AND 7;
ROLLBACK TO a;
UPDATE sp SET n = 98 WHERE id BETWEEN 5 AND 7;
FETCH ALL FROM c;
COMMIT;
SELECT id, n FROM sp WHERE id BETWEEN 5 AND 7 ORDER BY id;
DROP FUNCTION sp_nest;
DROP TABLE sp;
