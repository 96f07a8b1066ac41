-- Foreign keys: every action on update and delete, deferrable and not, with
-- parents and children changed in place and moved, in savepoints, across
-- partitions and access methods.  The answers are heap's.
SET default_table_access_method = zheap;
\pset format unaligned
\pset tuples_only on
\set VERBOSITY terse
-- one parent and one child for each action and kind of deferring
CREATE FUNCTION ri_make(act text, def text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS ri_p, ri_c CASCADE;
	CREATE TABLE ri_p (a int, b text, v int, PRIMARY KEY (a, b));
	EXECUTE format('CREATE TABLE ri_c (id int PRIMARY KEY, a int DEFAULT 1, b text DEFAULT ''b1'', v int DEFAULT 0,
		FOREIGN KEY (a, b) REFERENCES ri_p ON UPDATE %1$s ON DELETE %1$s %2$s)', act, def);
	INSERT INTO ri_p SELECT g, 'b' || g, 0 FROM generate_series(1, 5) g;
	INSERT INTO ri_c (id, a, b) SELECT g, (g + 1) / 2, 'b' || (g + 1) / 2 FROM generate_series(1, 10) g;
END $$;
SET client_min_messages = warning;
CREATE TABLE ri_step (n serial, s text);
INSERT INTO ri_step (s) VALUES
	('UPDATE ri_p SET v = v + 1'),
	('UPDATE ri_p SET a = a, b = b, v = v + 1'),
	('UPDATE ri_p SET a = a + 100 WHERE a = 2'),
	('DELETE FROM ri_p WHERE a = 3'),
	('UPDATE ri_c SET v = v + 1'),
	('UPDATE ri_c SET a = 99 WHERE id = 7'),
	('UPDATE ri_c SET a = NULL WHERE id = 8'),
	('INSERT INTO ri_c VALUES (11, 5, ''b5'', 0), (12, 4, ''b4'', 0)'),
	('INSERT INTO ri_c VALUES (13, 6, ''b6'', 0)'),
	('BEGIN; UPDATE ri_p SET v = v + 1; UPDATE ri_p SET a = 40 WHERE a = 4; UPDATE ri_p SET v = v + 1, a = a + 1 WHERE a = 40; COMMIT'),
	('BEGIN; DELETE FROM ri_p WHERE a = 5; INSERT INTO ri_p VALUES (5, ''b5'', 7); COMMIT'),
	('BEGIN; UPDATE ri_c SET a = 77 WHERE id = 9; UPDATE ri_c SET a = 5, v = 9 WHERE id = 9; COMMIT'),
	('BEGIN; UPDATE ri_c SET a = 5 WHERE id = 10; UPDATE ri_c SET a = 88, v = 9 WHERE id = 10; COMMIT'),
	('BEGIN; INSERT INTO ri_c VALUES (20, 1, ''b1'', 0); UPDATE ri_c SET v = 1 WHERE id = 20; UPDATE ri_c SET a = 66 WHERE id = 20; UPDATE ri_c SET v = 2 WHERE id = 20; COMMIT'),
	('BEGIN; INSERT INTO ri_c VALUES (21, 66, ''b1'', 0); UPDATE ri_c SET v = 1 WHERE id = 21; UPDATE ri_c SET a = 1 WHERE id = 21; COMMIT'),
	('BEGIN; INSERT INTO ri_c VALUES (22, 66, ''b1'', 0); DELETE FROM ri_c WHERE id = 22; COMMIT'),
	('BEGIN; UPDATE ri_p SET v = 50 WHERE a = 1; SAVEPOINT s; DELETE FROM ri_p WHERE a = 1; ROLLBACK TO s; UPDATE ri_p SET v = 51 WHERE a = 1; COMMIT'),
	('BEGIN; SAVEPOINT s; UPDATE ri_p SET a = 11 WHERE a = 1; SAVEPOINT r; UPDATE ri_p SET a = 12 WHERE a = 11; ROLLBACK TO r; RELEASE s; COMMIT'),
	('BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE ri_c SET a = 55 WHERE id = 1; SAVEPOINT s; UPDATE ri_c SET a = 1, v = v + 1 WHERE id = 1; ROLLBACK TO s; UPDATE ri_c SET v = v + 1 WHERE id = 1; COMMIT'),
	('BEGIN; SET CONSTRAINTS ALL DEFERRED; DELETE FROM ri_p WHERE a IN (1, 11); INSERT INTO ri_p VALUES (1, ''b1'', 1), (11, ''b1'', 1); SET CONSTRAINTS ALL IMMEDIATE; COMMIT');
CREATE FUNCTION ri_run(act text, def text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('SELECT ri_make(%L, %L)', act, def)
	UNION ALL
	(SELECT x FROM ri_step, unnest(string_to_array(s, '; ') ||
		ARRAY(SELECT 'ROLLBACK' WHERE s LIKE 'BEGIN%')) WITH ORDINALITY u(x, o) ORDER BY n, o)
	UNION ALL
	SELECT unnest(ARRAY['SELECT * FROM ri_p ORDER BY a, b', 'SELECT * FROM ri_c ORDER BY id'])
$$;
SELECT ri_run(act, def) FROM unnest('{NO ACTION,RESTRICT,CASCADE,SET NULL,SET DEFAULT}'::text[]) act,
	unnest('{"",DEFERRABLE,DEFERRABLE INITIALLY DEFERRED}'::text[]) def \gexec
DROP TABLE ri_p, ri_c, ri_step;
DROP FUNCTION ri_run, ri_make;
-- SET NULL and SET DEFAULT of some columns
CREATE TABLE ri_p (a int, b int, PRIMARY KEY (a, b));
CREATE TABLE ri_c (id int, a int DEFAULT 0, b int, FOREIGN KEY (a, b) REFERENCES ri_p ON DELETE SET NULL (a));
CREATE TABLE ri_d (id int, a int DEFAULT 0, b int DEFAULT 7, FOREIGN KEY (a, b) REFERENCES ri_p ON DELETE SET DEFAULT (a));
INSERT INTO ri_p VALUES (0, 1), (1, 1), (2, 2);
INSERT INTO ri_c VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO ri_d VALUES (1, 1, 1);
DELETE FROM ri_p WHERE a > 0;
SELECT * FROM ri_c ORDER BY id;
SELECT * FROM ri_d ORDER BY id;
DROP TABLE ri_c, ri_d, ri_p;
-- MATCH FULL, and a key whose value stays equal while its bytes change
CREATE TABLE ri_p (n numeric, m int, PRIMARY KEY (n, m));
CREATE TABLE ri_c (n numeric, m int, FOREIGN KEY (n, m) REFERENCES ri_p MATCH FULL ON UPDATE CASCADE);
INSERT INTO ri_p VALUES (1.0, 1), (2.0, 2);
INSERT INTO ri_c VALUES (1, 1), (2.00, 2), (NULL, NULL);
INSERT INTO ri_c VALUES (1, NULL);
UPDATE ri_p SET n = 1.000 WHERE m = 1;
SELECT * FROM ri_c ORDER BY m;
UPDATE ri_p SET n = 10 WHERE m = 2;
SELECT * FROM ri_c ORDER BY m;
DROP TABLE ri_c, ri_p;
-- between access methods
CREATE TABLE ri_p (id int PRIMARY KEY, v int) USING heap;
CREATE TABLE ri_c (id int PRIMARY KEY, p int REFERENCES ri_p ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE ri_g (id int, c int REFERENCES ri_c ON DELETE CASCADE) USING heap;
INSERT INTO ri_p SELECT g, 0 FROM generate_series(1, 3) g;
INSERT INTO ri_c SELECT g, g FROM generate_series(1, 3) g;
INSERT INTO ri_g SELECT g, g FROM generate_series(1, 3) g;
UPDATE ri_p SET v = 1;
UPDATE ri_p SET id = id + 10 WHERE id = 1;
DELETE FROM ri_p WHERE id = 2;
SELECT * FROM ri_c ORDER BY id;
SELECT * FROM ri_g ORDER BY id;
DROP TABLE ri_g, ri_c, ri_p;
-- partitioned on both sides, rows that change their partition
CREATE TABLE ri_p (id int, p int, v int, PRIMARY KEY (id, p)) PARTITION BY LIST (p);
CREATE TABLE ri_p1 PARTITION OF ri_p FOR VALUES IN (1);
CREATE TABLE ri_p2 PARTITION OF ri_p FOR VALUES IN (2);
CREATE TABLE ri_c (id int, pid int, pp int, FOREIGN KEY (pid, pp) REFERENCES ri_p ON UPDATE CASCADE ON DELETE SET NULL) PARTITION BY LIST (pp);
CREATE TABLE ri_c1 PARTITION OF ri_c FOR VALUES IN (1, NULL);
CREATE TABLE ri_c2 PARTITION OF ri_c FOR VALUES IN (2);
INSERT INTO ri_p SELECT g, g % 2 + 1, 0 FROM generate_series(1, 6) g;
INSERT INTO ri_c SELECT g, g, g % 2 + 1 FROM generate_series(1, 6) g;
UPDATE ri_p SET v = v + 1;
UPDATE ri_p SET p = 3 - p WHERE id < 3;
BEGIN;
UPDATE ri_p SET v = 10 WHERE id = 3;
UPDATE ri_p SET p = 3 - p WHERE id = 3;
UPDATE ri_p SET v = 11 WHERE id = 3;
COMMIT;
DELETE FROM ri_p WHERE id = 4;
UPDATE ri_c SET pp = 3 - pp WHERE id = 5;
SELECT tableoid::regclass, * FROM ri_p ORDER BY id;
SELECT tableoid::regclass, * FROM ri_c ORDER BY id;
ALTER TABLE ri_c DROP CONSTRAINT ri_c_pid_pp_fkey;
ALTER TABLE ri_c ADD FOREIGN KEY (pid, pp) REFERENCES ri_p DEFERRABLE INITIALLY DEFERRED;
BEGIN;
UPDATE ri_p SET v = 20 WHERE id = 5;
UPDATE ri_p SET p = 3 - p WHERE id = 5;
UPDATE ri_c SET id = id, pp = 3 - pp WHERE pid = 5;
COMMIT;
BEGIN;
UPDATE ri_p SET p = 3 - p WHERE id = 6;
UPDATE ri_p SET v = 30 WHERE id = 6;
COMMIT;
SELECT tableoid::regclass, * FROM ri_p ORDER BY id;
SELECT tableoid::regclass, * FROM ri_c ORDER BY id;
DROP TABLE ri_c, ri_p;
-- constraints added to and validated on what is there
CREATE TABLE ri_p (id int PRIMARY KEY);
CREATE TABLE ri_c (id int, p int);
INSERT INTO ri_p VALUES (1);
INSERT INTO ri_c VALUES (1, 1), (2, 2);
UPDATE ri_c SET p = 3 WHERE id = 2;
ALTER TABLE ri_c ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES ri_p;
ALTER TABLE ri_c ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES ri_p NOT VALID;
ALTER TABLE ri_c VALIDATE CONSTRAINT fk;
UPDATE ri_c SET p = 1 WHERE id = 2;
ALTER TABLE ri_c VALIDATE CONSTRAINT fk;
BEGIN;
UPDATE ri_c SET p = NULL;
ALTER TABLE ri_c ALTER CONSTRAINT fk DEFERRABLE INITIALLY DEFERRED;
DELETE FROM ri_p;
INSERT INTO ri_c VALUES (3, 3);
COMMIT;
DROP TABLE ri_c, ri_p;
