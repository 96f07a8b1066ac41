-- A command that fills partitions by turns writes one undo record a page: it
-- finds those of the other partitions again.  Many more pages than one command
-- keeps in mind besides, and a command whose rows go to pages of the one before.
SET default_table_access_method = zheap;
CREATE TABLE parts (id int, a int) PARTITION BY LIST (id);
DO $$
BEGIN
	FOR i IN 0 .. 199 LOOP
		EXECUTE format('CREATE TABLE part%s PARTITION OF parts FOR VALUES IN (%s)', i, i);
	END LOOP;
END $$;
CREATE VIEW undo_records AS
	SELECT undo_records FROM pg_stat_zheap_xacts WHERE pid = pg_backend_pid();

BEGIN;
INSERT INTO parts SELECT g % 200, g FROM generate_series(0, 1999) g;
SELECT * FROM undo_records;
-- the next command has records of its own, again one a page
INSERT INTO parts SELECT g % 200, g FROM generate_series(2000, 3999) g;
SELECT * FROM undo_records;
-- and a subtransaction: what it wrote goes, and nothing else
SAVEPOINT s;
INSERT INTO parts SELECT g % 200, g FROM generate_series(4000, 5999) g;
SELECT * FROM undo_records;
SELECT count(*), sum(a) FROM parts;
ROLLBACK TO s;
INSERT INTO parts SELECT g % 200, g FROM generate_series(6000, 6999) g;
SELECT count(*), sum(a), min(n), max(n)
	FROM parts, LATERAL (SELECT count(*) AS n FROM parts p WHERE p.id = parts.id) x
	WHERE a < 200;
COMMIT;
SELECT count(*), sum(a), count(DISTINCT (id, a)) FROM parts;

-- rolled back as a whole
BEGIN;
INSERT INTO parts SELECT g % 200, g FROM generate_series(7000, 8999) g;
SELECT count(*) FROM parts;
ROLLBACK;
SELECT count(*), sum(a) FROM parts;

-- a partition whose file is another one in the midst of the transaction
BEGIN;
INSERT INTO parts SELECT g % 200, g FROM generate_series(10000, 10399) g;
TRUNCATE part7;
INSERT INTO parts SELECT g % 200, g FROM generate_series(10400, 10799) g;
SELECT count(*), min(a) FROM part7;
SELECT count(*), sum(a) FROM parts;
COMMIT;
SELECT count(*), min(a) FROM part7;
SELECT count(*) FILTER (WHERE p IS NOT NULL) AS problems
	FROM generate_series(0, 199) i LEFT JOIN LATERAL zheap_check(('part' || i)::regclass) p ON true;

-- Rows that an open record of a delete covers, before and behind the one it
-- was written for; then the next owner of its xact slot looks for them.
CREATE TABLE kept (id int PRIMARY KEY, a int);
INSERT INTO kept SELECT g, g FROM generate_series(1, 150) g;
DO $$
BEGIN
	FOR i IN 1 .. 8 LOOP
		DELETE FROM kept WHERE id IN (70 + i, 20 + i, 120 + i);
		COMMIT;
		DELETE FROM kept WHERE id = 40 + i;
		COMMIT;
	END LOOP;
END $$;
SELECT count(*), sum(a) FROM kept;
BEGIN;
DELETE FROM kept WHERE id IN (1, 150, 100);
ROLLBACK;
DELETE FROM kept WHERE id = 2;
SELECT count(*), sum(a) FROM kept;
SELECT count(*) FROM zheap_check('kept');

DROP VIEW undo_records;
DROP TABLE parts, kept;
