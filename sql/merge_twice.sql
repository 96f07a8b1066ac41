-- MERGE comes to a row twice, or to one that a function has changed: clauses are
-- judged by what the statement sees, and the change fails as on heap.
CREATE TABLE mt (id int PRIMARY KEY, v int, w int) USING zheap;
INSERT INTO mt SELECT g, 1, 0 FROM generate_series(1, 5) g;
CREATE FUNCTION mt_change(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE mt SET w = w + 1 WHERE id = i;
	RETURN 1;
END $$;
-- a condition that the first row has made false
MERGE INTO mt USING (VALUES (1), (1)) s (id) ON mt.id = s.id
	WHEN MATCHED AND mt.v = 1 THEN UPDATE SET v = 2
	WHEN MATCHED THEN DO NOTHING;
-- upsert of a greater value only
MERGE INTO mt USING (VALUES (4, 7), (4, 5)) s (id, v) ON mt.id = s.id
	WHEN MATCHED AND mt.v < s.v THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 0);
-- changed by a function of the condition
MERGE INTO mt USING (VALUES (5)) s (id) ON mt.id = s.id AND mt_change(5) = 1
	WHEN MATCHED AND mt.w = 0 THEN UPDATE SET v = -1
	WHEN MATCHED THEN DO NOTHING;
-- a row further on, changed by a function of a clause
MERGE INTO mt USING (VALUES (2), (3)) s (id) ON mt.id = s.id
	WHEN MATCHED AND mt.id = 2 AND mt_change(3) = 1 THEN DO NOTHING
	WHEN MATCHED AND mt.w = 0 THEN DO NOTHING
	WHEN MATCHED THEN DELETE;
-- deleted by the first, met again by the second
MERGE INTO mt USING (VALUES (1), (1)) s (id) ON mt.id = s.id
	WHEN MATCHED AND mt.v = 1 THEN DELETE
	WHEN MATCHED THEN DO NOTHING;
SELECT * FROM mt ORDER BY id;
-- within a function, an exception caught on the way: the outer statement goes on
CREATE FUNCTION mt_try(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'CREATE TABLE mt (a int)';
	RETURN 0;
EXCEPTION WHEN duplicate_table THEN
	UPDATE mt SET w = w + 1 WHERE id = i;
	RETURN 1;
END $$;
MERGE INTO mt USING (VALUES (2), (3)) s (id) ON mt.id = s.id
	WHEN MATCHED AND mt.id = 2 AND mt_try(3) = 1 THEN UPDATE SET v = -2
	WHEN MATCHED AND mt.w = 0 THEN DO NOTHING
	WHEN MATCHED THEN DELETE;
SELECT * FROM mt ORDER BY id;
-- an AFTER trigger that is fired in the midst of a statement sees what was changed
CREATE TABLE mt_log (line text);
CREATE FUNCTION mt_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO mt_log VALUES (format('%s: %s -> %s', TG_OP, OLD.w, NEW.w));
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON mt DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION mt_note();
CREATE FUNCTION mt_now() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE mt SET w = 7 WHERE id = 3;
	SET CONSTRAINTS ALL IMMEDIATE;
	RETURN (SELECT count(*) FROM mt_log);
END $$;
BEGIN;
UPDATE mt SET w = 6 WHERE id = 3;
SELECT mt_now();
COMMIT;
SELECT * FROM mt_log;
DROP TABLE mt, mt_log;
DROP FUNCTION mt_change, mt_try, mt_note, mt_now;
