-- Row locks of one session: modes, joins, updates of locked rows, savepoints.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE lk (id int PRIMARY KEY, grp int, n int, t text);
INSERT INTO lk SELECT g, g % 3, 0, 'row ' || g FROM generate_series(1, 12) g;
CREATE TABLE lk_grp (grp int PRIMARY KEY, name text);
INSERT INTO lk_grp VALUES (0, 'zero'), (1, 'one'), (2, 'two');
-- the four modes, weaker after stronger and stronger after weaker
BEGIN;
SELECT id, n FROM lk WHERE id = 1 FOR KEY SHARE;
SELECT id, n FROM lk WHERE id = 1 FOR SHARE;
SELECT id, n FROM lk WHERE id = 1 FOR NO KEY UPDATE;
SELECT id, n FROM lk WHERE id = 1 FOR UPDATE;
SELECT id, n FROM lk WHERE id = 1 FOR NO KEY UPDATE;
SELECT id, n FROM lk WHERE id = 1 FOR SHARE;
SELECT id, n FROM lk WHERE id = 1 FOR KEY SHARE;
SELECT id, n FROM lk WHERE id = 1 FOR UPDATE NOWAIT;
SELECT id, n FROM lk WHERE id = 1 FOR UPDATE SKIP LOCKED;
COMMIT;
SELECT id, n FROM lk WHERE id = 1;
-- many rows, with order and limit, again and again
BEGIN;
SELECT id FROM lk ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED;
SELECT id FROM lk ORDER BY id OFFSET 2 LIMIT 3 FOR UPDATE NOWAIT;
SELECT count(*) FROM (SELECT 1 FROM lk FOR SHARE) s;
SELECT count(*) FROM (SELECT 1 FROM lk FOR NO KEY UPDATE) s;
UPDATE lk SET n = n + 1;
SELECT count(*), sum(n) FROM (SELECT n FROM lk FOR UPDATE) s;
ROLLBACK;
SELECT count(*), sum(n) FROM lk;
-- joins: all tables, one of them, the nullable side
BEGIN;
SELECT l.id, g.name FROM lk l JOIN lk_grp g USING (grp) WHERE l.id < 4 ORDER BY l.id FOR UPDATE;
SELECT l.id, g.name FROM lk l JOIN lk_grp g USING (grp) WHERE l.id < 4 ORDER BY l.id FOR UPDATE OF l FOR KEY SHARE OF g;
SELECT l.id, g.name FROM lk l LEFT JOIN lk_grp g ON g.grp = l.id WHERE l.id < 4 ORDER BY l.id FOR SHARE OF l;
SELECT id FROM lk WHERE id IN (SELECT grp FROM lk_grp FOR SHARE) ORDER BY id FOR UPDATE;
WITH q AS (SELECT id FROM lk WHERE id > 9 ORDER BY id FOR UPDATE)
UPDATE lk SET n = 100 FROM q WHERE lk.id = q.id RETURNING lk.id, lk.n;
COMMIT;
-- locked, then updated, deleted, moved; then locked once more
BEGIN;
SELECT id FROM lk WHERE id = 2 FOR KEY SHARE;
UPDATE lk SET n = 5 WHERE id = 2;
SELECT id, n FROM lk WHERE id = 2 FOR UPDATE;
UPDATE lk SET n = 6, t = repeat('longer ', 20) WHERE id = 2;
SELECT id, n, length(t) FROM lk WHERE id = 2 FOR NO KEY UPDATE;
UPDATE lk SET id = 102 WHERE id = 2;
SELECT id, n FROM lk WHERE id IN (2, 102) FOR UPDATE;
DELETE FROM lk WHERE id = 102;
SELECT id, n FROM lk WHERE id IN (2, 102) FOR UPDATE;
ROLLBACK;
SELECT id, n, t FROM lk WHERE id = 2 FOR UPDATE;
BEGIN;
SELECT id FROM lk WHERE id = 3 FOR UPDATE;
DELETE FROM lk WHERE id = 3;
COMMIT;
SELECT count(*) FROM lk WHERE id = 3;
-- locks and savepoints: rolled back, released, both around an update
BEGIN;
SAVEPOINT a;
SELECT id FROM lk WHERE id = 4 FOR UPDATE;
ROLLBACK TO a;
SELECT id, n FROM lk WHERE id = 4 FOR SHARE;
SAVEPOINT b;
SELECT id, n FROM lk WHERE id = 4 FOR UPDATE;
UPDATE lk SET n = 7 WHERE id = 4;
RELEASE b;
SELECT id, n FROM lk WHERE id = 4 FOR UPDATE;
SAVEPOINT c;
UPDATE lk SET n = 8 WHERE id = 4;
SELECT id, n FROM lk WHERE id = 4 FOR UPDATE;
ROLLBACK TO c;
SELECT id, n FROM lk WHERE id = 4 FOR UPDATE;
COMMIT;
SELECT id, n FROM lk WHERE id = 4;
BEGIN;
SELECT id, n FROM lk WHERE id = 5 FOR UPDATE;
SAVEPOINT a;
UPDATE lk SET n = 1 WHERE id = 5;
SAVEPOINT b;
DELETE FROM lk WHERE id = 5;
ROLLBACK TO b;
SELECT id, n FROM lk WHERE id = 5 FOR KEY SHARE;
ROLLBACK TO a;
SELECT id, n FROM lk WHERE id = 5 FOR KEY SHARE;
COMMIT;
SELECT id, n FROM lk WHERE id = 5;
-- a row inserted by this transaction
BEGIN;
INSERT INTO lk VALUES (20, 1, 1, 'mine');
SELECT id, n FROM lk WHERE id = 20 FOR UPDATE;
SAVEPOINT a;
SELECT id, n FROM lk WHERE id = 20 FOR SHARE;
UPDATE lk SET n = 2 WHERE id = 20;
ROLLBACK TO a;
SELECT id, n FROM lk WHERE id = 20 FOR UPDATE;
ROLLBACK;
SELECT count(*) FROM lk WHERE id = 20;
-- a range of inserts, a lock above it, a released savepoint
BEGIN;
INSERT INTO lk VALUES (70, 0, 0, 'appended');
SELECT id FROM lk WHERE id = 6 FOR UPDATE;
SAVEPOINT a;
UPDATE lk SET n = 9 WHERE id = 7;
RELEASE a;
ROLLBACK;
SELECT id, n FROM lk WHERE id IN (6, 7, 70) ORDER BY id;
-- locking through a view, a cursor, a function, an inheritance tree
CREATE VIEW lk_view AS SELECT id, n FROM lk WHERE grp = 0;
BEGIN;
SELECT * FROM lk_view WHERE id < 7 ORDER BY id FOR UPDATE;
DECLARE c CURSOR FOR SELECT id, n FROM lk WHERE id IN (8, 9) ORDER BY id FOR UPDATE;
FETCH c;
UPDATE lk SET n = n + 50 WHERE CURRENT OF c;
FETCH c;
UPDATE lk SET n = n + 50 WHERE CURRENT OF c;
UPDATE lk SET n = n + 50 WHERE CURRENT OF c;
COMMIT;
SELECT id, n FROM lk WHERE id IN (8, 9) ORDER BY id;
DO $$
DECLARE r record; total int := 0;
BEGIN
	FOR r IN SELECT * FROM lk ORDER BY id FOR UPDATE LOOP
		UPDATE lk SET n = r.id WHERE id = r.id;
		total := total + 1;
	END LOOP;
	RAISE NOTICE 'updated %', total;
END $$;
SELECT count(*), sum(n), sum(id) FROM lk;
CREATE TABLE lk_child () INHERITS (lk);
INSERT INTO lk_child VALUES (1000, 0, 0, 'child');
BEGIN;
SELECT tableoid::regclass, id FROM lk WHERE id IN (1, 1000) ORDER BY id FOR UPDATE;
UPDATE lk SET n = -1 WHERE id IN (1, 1000);
ROLLBACK;
-- what is refused
SELECT l.id, g.name FROM lk l LEFT JOIN lk_grp g ON g.grp = l.id WHERE l.id < 4 ORDER BY l.id FOR SHARE;
SELECT count(*) FROM lk FOR UPDATE;
SELECT grp FROM lk GROUP BY grp FOR UPDATE;
SELECT l.id FROM lk l FOR UPDATE OF nothing;
-- a lock in a transaction that aborts, again and again
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			PERFORM 1 FROM lk WHERE id = 10 FOR UPDATE;
			RAISE EXCEPTION 'again';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT id, n FROM lk WHERE id = 10 FOR UPDATE;
