-- INSERT .. ON CONFLICT where the session has the table in a strong lock: made,
-- altered or emptied by the same transaction, or locked.  And exclusion
-- constraints made for rows of all kinds.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE ol (id int PRIMARY KEY, v int);
INSERT INTO ol VALUES (1, 1), (2, 2);
CREATE FUNCTION ol_twice(mode text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	IF mode <> '' THEN EXECUTE format('LOCK TABLE ol IN %s MODE', mode); END IF;
	-- the row of an earlier transaction, of mine, and one that is new
	BEGIN
		INSERT INTO ol VALUES (1, 10), (1, 20) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
		RETURN NEXT 'old: done';
	EXCEPTION WHEN OTHERS THEN RETURN NEXT 'old: ' || sqlstate;
	END;
	UPDATE ol SET v = v + 1 WHERE id = 2;
	BEGIN
		INSERT INTO ol VALUES (2, 10), (2, 20) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
		RETURN NEXT 'mine: done';
	EXCEPTION WHEN OTHERS THEN RETURN NEXT 'mine: ' || sqlstate;
	END;
	BEGIN
		INSERT INTO ol VALUES (3, 10), (3, 20) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
		RETURN NEXT 'new: done';
	EXCEPTION WHEN OTHERS THEN RETURN NEXT 'new: ' || sqlstate;
	END;
	INSERT INTO ol VALUES (2, 10) ON CONFLICT (id) DO UPDATE SET v = ol.v + excluded.v;
	INSERT INTO ol VALUES (2, 10) ON CONFLICT (id) DO UPDATE SET v = ol.v + excluded.v;
	INSERT INTO ol VALUES (2, 10), (2, 11) ON CONFLICT DO NOTHING;
	RETURN QUERY SELECT ol.id || ' ' || ol.v FROM ol ORDER BY ol.id;
	DELETE FROM ol WHERE id > 2;
	UPDATE ol SET v = id;
END $$;
SELECT ol_twice('');
SELECT ol_twice('SHARE');
SELECT ol_twice('SHARE ROW EXCLUSIVE');
SELECT ol_twice('EXCLUSIVE');
SELECT ol_twice('ACCESS EXCLUSIVE');
BEGIN; ALTER TABLE ol ADD COLUMN w int DEFAULT 3; SELECT ol_twice(''); COMMIT;
BEGIN; TRUNCATE ol; INSERT INTO ol VALUES (1, 1), (2, 2); SELECT ol_twice(''); COMMIT;
BEGIN; CREATE INDEX ol_v ON ol (v); SELECT ol_twice(''); ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT ol_twice('SHARE'); ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT ol_twice('SHARE'); ROLLBACK;
DROP TABLE ol;
BEGIN;
CREATE TABLE ol (id int PRIMARY KEY, v int);
INSERT INTO ol VALUES (1, 1), (2, 2);
SELECT ol_twice('');
COMMIT;
-- a new exclusion constraint sees rows committed, mine and mine in place, and
-- knows each row from itself; the arbiter of the same transaction works
CREATE TABLE oe (id int, r int4range, v int);
INSERT INTO oe SELECT g, int4range(10 * g, 10 * g + 5), 0 FROM generate_series(1, 200) g;
BEGIN;
UPDATE oe SET v = 1 WHERE id % 2 = 0;
INSERT INTO oe SELECT g, int4range(10 * g, 10 * g + 5), 0 FROM generate_series(201, 300) g;
UPDATE oe SET v = 2 WHERE id % 3 = 0;
ALTER TABLE oe ADD CONSTRAINT oe_r EXCLUDE USING gist (r WITH &&);
INSERT INTO oe VALUES (0, '[21,22)', 0), (0, '[26,27)', 0), (0, '[26,27)', 0) ON CONFLICT DO NOTHING RETURNING r;
UPDATE oe SET v = 3 WHERE id = 7;
INSERT INTO oe VALUES (0, '[71,72)', 0) ON CONFLICT ON CONSTRAINT oe_r DO NOTHING RETURNING r;
SAVEPOINT s;
INSERT INTO oe VALUES (0, '[71,72)', 0);
ROLLBACK TO s;
REINDEX INDEX oe_r;
ALTER TABLE oe ADD CONSTRAINT oe_id EXCLUDE USING btree (id WITH =);
COMMIT;
-- a build that fails leaves nothing behind that the next statements could feel
INSERT INTO oe VALUES (1000, NULL, 1), (1000, NULL, 1);
DELETE FROM oe WHERE id = 1000;
INSERT INTO oe VALUES (1000, NULL, 1);
BEGIN;
ALTER TABLE oe DROP CONSTRAINT oe_id;
INSERT INTO oe VALUES (1000, NULL, 1);
SAVEPOINT s;
ALTER TABLE oe ADD CONSTRAINT oe_id EXCLUDE USING btree (id WITH =);
ROLLBACK TO s;
CREATE UNIQUE INDEX oe_u ON oe (r);
INSERT INTO oe VALUES (5, '[50,55)', 1), (5, '[50,55)', 1) ON CONFLICT (r) DO UPDATE SET v = oe.v + 10;
ROLLBACK;
SELECT count(*), sum(v) FROM oe;
-- deferred, with rows changed in between
ALTER TABLE oe DROP CONSTRAINT oe_r;
ALTER TABLE oe ADD CONSTRAINT oe_r EXCLUDE USING gist (r WITH &&) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO oe VALUES (400, '[4000,4005)', 1);
UPDATE oe SET v = v + 1 WHERE id = 400;
UPDATE oe SET v = v + 1 WHERE id IN (5, 400);
UPDATE oe SET r = '[4010,4015)' WHERE id = 400;
UPDATE oe SET v = v + 1 WHERE id = 400;
COMMIT;
BEGIN;
INSERT INTO oe VALUES (401, '[4010,4011)', 1);
UPDATE oe SET v = v + 1 WHERE id >= 400;
COMMIT;
SELECT id, v FROM oe WHERE id >= 400 ORDER BY id;
DROP TABLE oe, ol;
DROP FUNCTION ol_twice;
