-- One undo record covers the rows of a page that a command deletes, if they
-- were visible to all: who deleted what, and when, must not get mixed up.
SET default_table_access_method = zheap;
CREATE TABLE t (id int, v int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 40) g;
VACUUM (FREEZE) t;

-- snapshots between the commands of one transaction
BEGIN;
DECLARE c0 CURSOR FOR SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id IN (3, 4, 5);
DECLARE c1 CURSOR FOR SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id IN (1, 2, 7, 8);
DECLARE c2 CURSOR FOR SELECT count(*), sum(id) FROM t;
UPDATE t SET v = 1 WHERE id BETWEEN 9 AND 12;
DELETE FROM t WHERE id IN (6, 9, 10);
DECLARE c3 CURSOR FOR SELECT count(*), sum(id) FROM t;
FETCH c0;
FETCH c1;
FETCH c2;
FETCH c3;
ROLLBACK;
SELECT count(*), sum(id), sum(v) FROM t;

-- subtransactions: what is taken back is what they did
BEGIN;
SAVEPOINT a;
DELETE FROM t WHERE id <= 10;
SAVEPOINT b;
DELETE FROM t WHERE id BETWEEN 11 AND 20;
SELECT count(*), sum(id) FROM t;
ROLLBACK TO b;
SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id BETWEEN 15 AND 16;
RELEASE a;
DELETE FROM t WHERE id BETWEEN 21 AND 25;
SAVEPOINT c;
DELETE FROM t WHERE id > 30;
ROLLBACK TO c;
SELECT count(*), sum(id) FROM t;
ROLLBACK;
SELECT count(*), sum(id) FROM t;

-- the first one of a transaction is taken back, another follows
BEGIN;
SAVEPOINT a;
DELETE FROM t WHERE id <= 5;
ROLLBACK TO a;
DELETE FROM t WHERE id BETWEEN 4 AND 8;
SELECT count(*), sum(id) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id IN (39, 40);
COMMIT;
SELECT count(*), sum(id) FROM t;

-- rows of other histories on the same page: locked, updated, own
BEGIN;
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
COMMIT;
BEGIN;
SELECT id FROM t WHERE id = 5 FOR UPDATE;
INSERT INTO t VALUES (50, 0), (51, 0);
DELETE FROM t WHERE id <= 12 OR id >= 50;
SAVEPOINT a;
DELETE FROM t WHERE id <= 20;
DECLARE c CURSOR FOR SELECT count(*), sum(id), sum(v) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(id), sum(v) FROM t;
ROLLBACK;
SELECT count(*), sum(id), sum(v) FROM t;
SELECT id, v FROM t WHERE id BETWEEN 3 AND 6 ORDER BY id;

-- two commands, cleaned by a trigger's look at the old rows
CREATE TABLE log (n int, s int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
	INSERT INTO log SELECT count(*), sum(id) FROM gone;
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER DELETE ON t REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION note();
WITH d AS (DELETE FROM t WHERE id <= 10 RETURNING id) SELECT count(*), sum(id) FROM d;
DELETE FROM t WHERE id <= 20;
SELECT * FROM log ORDER BY n, s;
SELECT count(*), sum(id) FROM t;
VACUUM t;
SELECT count(*), sum(id) FROM t;
DROP TABLE t, log;
DROP FUNCTION note();
