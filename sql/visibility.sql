-- What open snapshots of one session see while it changes things.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE vis (id int PRIMARY KEY, n int, t text);
CREATE INDEX vis_n ON vis (n);
INSERT INTO vis SELECT g, 0, 'v0' FROM generate_series(1, 6) g;
-- a ladder of cursors, every kind of change between them
BEGIN;
DECLARE c0 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
UPDATE vis SET t = 'v1' WHERE id <= 4;
DECLARE c1 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
UPDATE vis SET n = 1 WHERE id <= 3;
DECLARE c2 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
DELETE FROM vis WHERE id = 1;
INSERT INTO vis VALUES (7, 3, 'v3');
DECLARE c3 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
SAVEPOINT s;
UPDATE vis SET t = 'v4', n = 4;
DECLARE c4 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
FETCH ALL FROM c4;
ROLLBACK TO s;
UPDATE vis SET t = repeat('v5', 20), n = 5 WHERE id IN (2, 7);
DECLARE c5 CURSOR FOR SELECT id, n, t FROM vis ORDER BY id;
UPDATE vis SET id = id + 10;
FETCH ALL FROM c0;
FETCH ALL FROM c1;
FETCH ALL FROM c2;
FETCH ALL FROM c3;
FETCH ALL FROM c5;
SELECT id, n, t FROM vis ORDER BY id;
-- the same from the start, by index
MOVE ABSOLUTE 0 IN c0;
FETCH ALL FROM c0;
SET LOCAL enable_seqscan = off;
SELECT id, n FROM vis WHERE n = 5 ORDER BY id;
SELECT id, n FROM vis WHERE n = 0 ORDER BY id;
ROLLBACK;
SELECT id, n, t FROM vis ORDER BY id;
-- cursors that outlive their transaction
BEGIN;
UPDATE vis SET n = 9 WHERE id = 1;
DECLARE h CURSOR WITH HOLD FOR SELECT id, n FROM vis ORDER BY id;
UPDATE vis SET n = 10 WHERE id <= 2;
COMMIT;
FETCH 2 FROM h;
UPDATE vis SET n = 11;
FETCH 2 FROM h;
DELETE FROM vis WHERE id = 6;
FETCH ALL FROM h;
CLOSE h;
SELECT id, n FROM vis ORDER BY id;
-- functions: volatile ones see the command before, stable ones their caller's view
CREATE FUNCTION vis_vol() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT sum(n) FROM vis';
CREATE FUNCTION vis_sta() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(n) FROM vis';
CREATE FUNCTION vis_inc(i int) RETURNS int LANGUAGE sql VOLATILE AS 'UPDATE vis SET n = n + 1 WHERE id = i RETURNING n';
SELECT id, n, vis_inc(id), vis_vol(), vis_sta() FROM vis ORDER BY id;
SELECT id, n FROM vis ORDER BY id;
WITH w AS (UPDATE vis SET n = 100 RETURNING id, n) SELECT vis.id, vis.n, w.n FROM vis JOIN w USING (id) ORDER BY id;
WITH w AS (DELETE FROM vis WHERE id = 5 RETURNING id), i AS (INSERT INTO vis SELECT id + 1, 0, 'moved' FROM w RETURNING id)
SELECT (SELECT count(*) FROM vis), (SELECT id FROM w), (SELECT id FROM i);
SELECT id, n FROM vis ORDER BY id;
-- two changes of a row by one statement's parts: one of them counts
CREATE FUNCTION vis_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE vis SET t = 'by the trigger' WHERE id = OLD.id;
	RETURN NEW;
END $$;
CREATE TRIGGER s BEFORE UPDATE OF n ON vis FOR EACH ROW WHEN (OLD.id = 4) EXECUTE FUNCTION vis_self();
UPDATE vis SET n = 1 WHERE id = 4;
UPDATE vis SET n = 1 WHERE id = 3;
SELECT id, n, t FROM vis ORDER BY id;
DROP TRIGGER s ON vis;
-- an INSERT .. SELECT of itself, an UPDATE of rows it just made, both stop
INSERT INTO vis SELECT id + 100, n, t FROM vis;
INSERT INTO vis SELECT id + 1000, n, t FROM vis;
SELECT count(*) FROM vis;
UPDATE vis SET id = id + 10000 WHERE id < 100000;
SELECT count(*), min(id), max(id) FROM vis;
-- REPEATABLE READ sees its own changes over a fixed view
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM vis;
UPDATE vis SET n = n + 1 WHERE id < 10100;
INSERT INTO vis VALUES (1, 1, 'rr');
DELETE FROM vis WHERE id > 11000;
SELECT count(*), sum(n) FROM vis;
SAVEPOINT s;
DELETE FROM vis;
SELECT count(*) FROM vis;
ROLLBACK TO s;
SELECT count(*), sum(n) FROM vis;
COMMIT;
SELECT count(*), sum(n) FROM vis;
-- parallel and serial scans of many pages count the same
CREATE TABLE vis_par (id int, n int, t text) WITH (parallel_workers = 2);
INSERT INTO vis_par SELECT g, 0, repeat('p', 100) FROM generate_series(1, 20000) g;
UPDATE vis_par SET n = 1 WHERE id % 2 = 0;
DELETE FROM vis_par WHERE id % 5 = 0;
BEGIN; UPDATE vis_par SET n = 7; DELETE FROM vis_par WHERE id < 10000; ROLLBACK;
SELECT count(*), sum(n), sum(id) FROM vis_par;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SELECT count(*), sum(n), sum(id) FROM vis_par;
CREATE INDEX vis_par_id ON vis_par (id);
SET enable_seqscan = off;
SELECT count(*), sum(n), sum(id) FROM vis_par WHERE id > 0;
SET enable_indexscan = off; SET enable_indexonlyscan = off;
SELECT count(*), sum(n), sum(id) FROM vis_par WHERE id > 0;
SET work_mem = '64kB';
SELECT count(*), sum(n), sum(id) FROM vis_par WHERE id > 0;
