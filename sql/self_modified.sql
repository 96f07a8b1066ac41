-- Silent fault looked for: a row skipped, or an error that isn't one, because
-- the command that changed the row is taken for another command.
SET default_table_access_method = zheap;
\set VERBOSITY terse
CREATE TABLE sm (id int PRIMARY KEY, v int, k int);
CREATE INDEX ON sm (k);
INSERT INTO sm SELECT g, 0, g FROM generate_series(1, 4) g;
-- joined twice: the first change stands, the second is skipped
UPDATE sm SET v = sm.v + x FROM (VALUES (1, 1), (1, 1), (2, 5)) y(i, x) WHERE id = i RETURNING id, v;
UPDATE sm SET k = sm.k + 10 FROM (VALUES (1), (1)) y(i) WHERE id = i RETURNING id, k;
DELETE FROM sm USING (VALUES (4), (4)) y(i) WHERE id = i RETURNING id;
INSERT INTO sm VALUES (4, 0, 4);
-- changed by an earlier command of the transaction: not skipped
BEGIN;
UPDATE sm SET v = 1 WHERE id = 3;
UPDATE sm SET v = v + 1 WHERE id = 3 RETURNING v;
UPDATE sm SET k = 33 WHERE id = 3;
UPDATE sm SET v = v + 1 WHERE id = 3 RETURNING v, k;
SAVEPOINT s;
UPDATE sm SET v = v + 1 WHERE id = 3 RETURNING v;
RELEASE s;
DELETE FROM sm WHERE id = 3 RETURNING v;
ROLLBACK;
-- changed by the statement itself, through a function, a CTE, a trigger
CREATE FUNCTION sm_f(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE sm SET v = 50 WHERE id = i; RETURN 1; END $$;
UPDATE sm SET v = sm_f(id) WHERE id = 2;
DELETE FROM sm WHERE id = 2 AND sm_f(id) = 1;
SELECT * FROM sm WHERE id = 2;
WITH a AS (UPDATE sm SET v = 10 WHERE id = 1 RETURNING v), b AS (UPDATE sm SET v = 20 WHERE id = 1 RETURNING v) SELECT count(*) BETWEEN 0 AND 2 FROM a, b;
SELECT v IN (10, 20) FROM sm WHERE id = 1;
MERGE INTO sm USING (VALUES (1), (1)) s(id) ON sm.id = s.id WHEN MATCHED THEN UPDATE SET v = 3;
MERGE INTO sm USING (VALUES (1), (1)) s(id) ON sm.id = s.id WHEN MATCHED THEN DELETE;
INSERT INTO sm VALUES (2, 1, 1), (2, 2, 2) ON CONFLICT (id) DO UPDATE SET v = sm.v + 1;
INSERT INTO sm VALUES (9, 1, 1), (9, 2, 2) ON CONFLICT (id) DO UPDATE SET v = sm.v + 1;
INSERT INTO sm VALUES (9, 1, 1), (9, 2, 2) ON CONFLICT (id) DO NOTHING;
CREATE FUNCTION sm_t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 55 THEN UPDATE sm SET k = 5 WHERE id = NEW.id; END IF; RETURN NEW; END $$;
CREATE TRIGGER t BEFORE UPDATE ON sm FOR EACH ROW EXECUTE FUNCTION sm_t();
UPDATE sm SET v = 55 WHERE id = 2;
UPDATE sm SET v = 6 WHERE id = 2 RETURNING *;
SELECT * FROM sm ORDER BY id;
DROP TABLE sm;
DROP FUNCTION sm_f, sm_t;
-- met twice, and changed by a function after the first time: what counts is the
-- change that ended the version which the command sees
CREATE TABLE smf (id int PRIMARY KEY, v int, k int);
CREATE INDEX ON smf (k);
CREATE FUNCTION smf_change(i int, way text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF way = 'update' THEN UPDATE smf SET v = v + 100 WHERE id = i;
	ELSIF way = 'twice' THEN
		UPDATE smf SET v = v + 100 WHERE id = i;
		UPDATE smf SET v = v + 1000 WHERE id = i;
	ELSIF way = 'move' THEN UPDATE smf SET k = k + 100 WHERE id = i;
	ELSIF way = 'delete' THEN DELETE FROM smf WHERE id = i;
	ELSE
		BEGIN
			UPDATE smf SET v = v + 100 WHERE id = i;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END IF;
	RETURN 1;
END $$;
INSERT INTO smf SELECT g, g, g FROM generate_series(1, 20) g;
UPDATE smf SET v = smf.v + n FROM (VALUES (1, 1), (1, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'update');
UPDATE smf SET v = smf.v + n FROM (VALUES (2, 1), (2, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'twice');
UPDATE smf SET v = smf.v + n FROM (VALUES (3, 1), (3, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'move');
UPDATE smf SET v = smf.v + n FROM (VALUES (4, 1), (4, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'delete');
UPDATE smf SET v = smf.v + n FROM (VALUES (5, 1), (5, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'undone');
UPDATE smf SET k = smf.k + n FROM (VALUES (6, 1), (6, 2)) s(i, n) WHERE id = i RETURNING id, k, smf_change(id, 'update');
DELETE FROM smf USING (VALUES (7), (7)) s(i) WHERE id = i RETURNING id, smf_change(id, 'update');
-- by the function first
UPDATE smf SET v = smf.v + smf_change(i, 'update') FROM (VALUES (8), (8)) s(i) WHERE id = i;
UPDATE smf SET v = smf.v + smf_change(i, 'undone') FROM (VALUES (9), (9)) s(i) WHERE id = i;
DELETE FROM smf USING (VALUES (10)) s(i) WHERE id = i AND smf_change(i, 'update') = 1;
-- changed before in the same transaction, and by a savepoint
BEGIN;
UPDATE smf SET v = v + 7 WHERE id IN (11, 12);
UPDATE smf SET v = smf.v + n FROM (VALUES (11, 1), (11, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'twice');
SAVEPOINT a;
UPDATE smf SET v = smf.v + n FROM (VALUES (12, 1), (12, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'undone');
UPDATE smf SET v = smf.v + n FROM (VALUES (12, 1), (12, 2)) s(i, n) WHERE id = i RETURNING id, v, smf_change(id, 'move');
RELEASE a;
COMMIT;
SELECT * FROM smf WHERE id <= 12 ORDER BY id;
DROP TABLE smf;
DROP FUNCTION smf_change;
