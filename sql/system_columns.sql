-- System columns: what may be relied on, without their values.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE sys (id int PRIMARY KEY, n int, t text);
INSERT INTO sys SELECT g, 0, 'x' FROM generate_series(1, 10) g;
SELECT DISTINCT tableoid::regclass, tableoid = 'sys'::regclass AS ok FROM sys;
SELECT count(DISTINCT ctid) FROM sys;
-- a row is found by its ctid, and by a range of them
SELECT count(*) FROM sys a JOIN sys b ON a.ctid = b.ctid WHERE a.id = b.id;
SELECT ctid AS c FROM sys WHERE id = 3 \gset
SELECT id FROM sys WHERE ctid = :'c';
SELECT id FROM sys WHERE ctid = ANY (ARRAY[:'c', '(0,0)', '(1000000,1)', '(0,200)']::tid[]);
SELECT count(*) FROM sys WHERE ctid >= '(0,0)' AND ctid < '(1,0)';
SELECT count(*) FROM sys WHERE ctid > '(1,0)';
SELECT id FROM sys WHERE ctid = '(99,1)';
SELECT id FROM sys WHERE ctid = '(0,0)';
-- changed by ctid; what RETURNING says is where the row is
UPDATE sys SET n = 1 WHERE ctid = :'c' RETURNING id, n;
UPDATE sys SET n = 2 WHERE id = 3 RETURNING ctid AS c \gset
SELECT id, n FROM sys WHERE ctid = :'c';
UPDATE sys SET id = 33 WHERE id = 3 RETURNING ctid AS c \gset
SELECT id, n FROM sys WHERE ctid = :'c';
INSERT INTO sys VALUES (11, 0, 'new') RETURNING ctid AS c \gset
SELECT id, n FROM sys WHERE ctid = :'c';
DELETE FROM sys WHERE ctid = :'c' RETURNING id, tableoid::regclass;
SELECT id FROM sys WHERE ctid = :'c';
-- xmin: of my transaction while I am in it, and never that of a later one
BEGIN;
UPDATE sys SET n = 5 WHERE id = 1;
INSERT INTO sys VALUES (12, 0, 'mine');
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM sys WHERE id IN (1, 2, 12) ORDER BY id;
COMMIT;
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS assigned;
SELECT count(*) FROM sys WHERE xmin = pg_current_xact_id()::xid;
ROLLBACK;
-- optimistic locking by xmin: unchanged matches, changed doesn't
SELECT xmin AS x FROM sys WHERE id = 4 \gset
BEGIN;
UPDATE sys SET n = 100 WHERE id = 4;
SELECT count(*) FROM sys WHERE id = 4 AND xmin = :'x'::xid;
COMMIT;
UPDATE sys SET n = 101 WHERE id = 4 AND xmin = :'x'::xid;
SELECT n FROM sys WHERE id = 4;
-- by the program's other columns: cmin, cmax and xmax can be read
SELECT count(xmax) = count(*) AS xmax, count(cmin) = count(*) AS cmin, count(cmax) = count(*) AS cmax FROM sys;
-- whole rows with system columns through joins, sub-selects, partitions
SELECT s.id FROM sys s WHERE s.ctid IN (SELECT ctid FROM sys WHERE n > 50) ORDER BY id;
DELETE FROM sys a USING sys b WHERE a.ctid = b.ctid AND a.id > 9 AND b.id < 12;
SELECT count(*) FROM sys;
CREATE TABLE sys_dup (a int, b text);
INSERT INTO sys_dup SELECT g % 5, 'same' FROM generate_series(1, 50) g;
DELETE FROM sys_dup WHERE ctid NOT IN (SELECT min(ctid) FROM sys_dup GROUP BY a, b);
SELECT * FROM sys_dup ORDER BY a;
CREATE TABLE sys_part (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE sys_part1 PARTITION OF sys_part FOR VALUES FROM (0) TO (10);
CREATE TABLE sys_part2 PARTITION OF sys_part FOR VALUES FROM (10) TO (20);
INSERT INTO sys_part SELECT g, g FROM generate_series(0, 19) g;
UPDATE sys_part SET v = v + 1 WHERE id % 5 = 0 RETURNING tableoid::regclass, id;
UPDATE sys_part SET id = id + 10 WHERE id = 3 RETURNING tableoid::regclass, id, v;
SELECT tableoid::regclass, count(*) FROM sys_part GROUP BY 1 ORDER BY 1;
-- rows of one's own don't tell what is in another's that looks the same
CREATE TABLE sys_own (v text);
CREATE TABLE sys_other (v text);
INSERT INTO sys_own VALUES ('secret');
INSERT INTO sys_own VALUES ('secret') RETURNING xmin AS x \gset
INSERT INTO sys_other VALUES ('secret');
CREATE FUNCTION sys_forgotten(written xid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM sys_own WHERE xmin = written);
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
SELECT sys_forgotten(:'x');
SELECT count(DISTINCT xmin::text) FROM (SELECT xmin FROM sys_own UNION ALL SELECT xmin FROM sys_other) q;
