-- Silent fault looked for: while a transaction sees a table without its
-- indexes it frees line pointers, for there is no index to have entries of
-- them; then it is rolled back, the indexes come back with their entries, and
-- rows that get the line pointers are found under the keys of rows long gone.
SET default_table_access_method = zheap;
CREATE TABLE di (id int, k int, pad text);
CREATE FUNCTION di_fill() RETURNS void LANGUAGE sql AS $$
	TRUNCATE di;
	INSERT INTO di SELECT g, g, repeat('x', 30) FROM generate_series(1, 1000) g; $$;
-- after the rollback: rows that take what is free, then both ways of looking
CREATE FUNCTION di_look(OUT seq bigint, OUT idx bigint) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO di SELECT 20000 + g, 20000 + g, repeat('z', 30) FROM generate_series(1, 1000) g;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
	SELECT count(*) INTO seq FROM di WHERE k BETWEEN 1 AND 900;
	SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off;
	SELECT count(*) INTO idx FROM di WHERE k BETWEEN 1 AND 900;
END $$;
CREATE INDEX di_k ON di (k);
-- an index dropped
SELECT di_fill();
DELETE FROM di WHERE id <= 900;
BEGIN;
DROP INDEX di_k;
INSERT INTO di SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK;
SELECT * FROM di_look();
-- in a savepoint, by updates that move rows; the transaction commits
SELECT di_fill();
DELETE FROM di WHERE id <= 900;
BEGIN;
INSERT INTO di VALUES (0, 0, 'first');
SAVEPOINT s;
DROP INDEX di_k;
UPDATE di SET pad = repeat('longer', 20);
INSERT INTO di SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK TO s;
INSERT INTO di VALUES (0, 0, 'last');
COMMIT;
SELECT * FROM di_look();
-- by a function's exception block
SELECT di_fill();
DELETE FROM di WHERE id <= 900;
DO $$
BEGIN
	DROP INDEX di_k;
	INSERT INTO di SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
	RAISE EXCEPTION 'never mind';
EXCEPTION WHEN raise_exception THEN
	NULL;
END $$;
SELECT * FROM di_look();
-- with the index's column, and with a constraint
SELECT di_fill();
DELETE FROM di WHERE id <= 900;
BEGIN;
ALTER TABLE di DROP COLUMN k;
INSERT INTO di SELECT 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK;
SELECT * FROM di_look();
DROP INDEX di_k;
SELECT di_fill();
ALTER TABLE di ADD CONSTRAINT di_unique UNIQUE (k);
DELETE FROM di WHERE id <= 900;
BEGIN;
ALTER TABLE di DROP CONSTRAINT di_unique;
INSERT INTO di SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK;
SELECT * FROM di_look();
-- dropped for another one, whose entries are of the rows that are there
SELECT di_fill();
DELETE FROM di WHERE id <= 900;
BEGIN;
ALTER TABLE di DROP CONSTRAINT di_unique;
INSERT INTO di SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
CREATE INDEX di_id ON di (id);
INSERT INTO di SELECT 11000 + g, 11000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK;
SELECT * FROM di_look();
-- an index that belongs to a partition of a parent's
CREATE TABLE di_parent (LIKE di) PARTITION BY RANGE (id);
ALTER TABLE di DROP CONSTRAINT di_unique;
SELECT di_fill();
ALTER TABLE di_parent ATTACH PARTITION di DEFAULT;
CREATE INDEX di_parent_k ON di_parent (k);
DELETE FROM di WHERE id <= 900;
BEGIN;
DROP INDEX di_parent_k;
INSERT INTO di_parent SELECT 10000 + g, 10000 + g, repeat('y', 30) FROM generate_series(1, 300) g;
ROLLBACK;
SELECT * FROM di_look();
-- columns that change in place while no index has them: all comes back
TRUNCATE di;
INSERT INTO di SELECT g, g, 'p' FROM generate_series(1, 20) g;
BEGIN;
UPDATE di SET pad = 'q' WHERE id <= 10;
SAVEPOINT s;
DROP INDEX di_parent_k;
UPDATE di SET k = k + 100 WHERE id > 5;
DELETE FROM di WHERE id = 20;
ROLLBACK TO s;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SELECT k, id, pad FROM di WHERE k BETWEEN 1 AND 1000 ORDER BY k;
UPDATE di SET k = k + 200 WHERE id > 15;
SELECT k, id, pad FROM di WHERE k BETWEEN 1 AND 1000 ORDER BY k;
COMMIT;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(k), sum(id) FROM di WHERE k BETWEEN 1 AND 1000;
DROP TABLE di_parent;
DROP FUNCTION di_fill, di_look;
