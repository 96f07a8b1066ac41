-- The undo store from outside: what is kept, and that it is given back.
CREATE TABLE und (id int PRIMARY KEY, v int, t text) USING zheap;
INSERT INTO und SELECT g, 0, repeat('u', 100) FROM generate_series(1, 5000) g;
SELECT u <= h AS ordered, u > '0'::xid8 AS known FROM zheap_horizons();
SELECT count(*) > 0 AS logs, bool_and(head IS NOT NULL AND tail IS NOT NULL) AS ends,
	bool_and(used_blocks >= 0 AND retained_bytes >= 0 AND bytes_written >= 0) AS sizes FROM pg_stat_zheap_undo;
SELECT count(*) FROM pg_stat_zheap_undo WHERE pid = pg_backend_pid();
BEGIN;
UPDATE und SET v = 1 WHERE id = 1;
SELECT count(*), min(persistence) FROM pg_stat_zheap_undo WHERE pid = pg_backend_pid();
COMMIT;
-- a big change is kept while it may be taken back
BEGIN;
UPDATE und SET v = v + 1, t = repeat('w', 100);
SELECT pg_zheap_undo_size() > 400000 AS kept, pg_zheap_undo_file_size() >= pg_zheap_undo_size() AS in_files;
COMMIT;
-- and then soon no more
CREATE PROCEDURE und_wait(what text) LANGUAGE plpgsql AS $$
DECLARE n bigint; begun timestamptz := clock_timestamp();
BEGIN
	LOOP
		n := pg_zheap_undo_size();
		EXIT WHEN n < 200000;
		IF clock_timestamp() > begun + interval '20 s' THEN
			RAISE NOTICE '%: still % bytes of undo', what, n;
			RETURN;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.1);
		COMMIT;
	END LOOP;
	RAISE NOTICE '%: discarded', what;
END $$;
CALL und_wait('after commit');
SELECT count(*), sum(v), max(t) = repeat('w', 100) AS new FROM und;
BEGIN; UPDATE und SET v = v + 10, t = repeat('x', 100); ROLLBACK;
SELECT count(*), sum(v), max(t) = repeat('w', 100) AS old FROM und;
CALL und_wait('after rollback');
SELECT count(*), sum(v), max(t) = repeat('w', 100) AS old FROM und;
BEGIN; DELETE FROM und; SAVEPOINT s; INSERT INTO und SELECT g FROM generate_series(1, 5000) g; ROLLBACK TO s; COMMIT;
CALL und_wait('after delete');
SELECT count(*) FROM und;
-- horizons only ever rise, and follow what is finished
SELECT h AS h0 FROM zheap_horizons() \gset
INSERT INTO und SELECT g, 0, 'again' FROM generate_series(1, 1000) g;
UPDATE und SET v = 1;
CALL und_wait('after inserts');
SELECT h >= :'h0'::xid8 AS risen, u <= h AS ordered FROM zheap_horizons();
-- many transactions one after the other stay in a few pages
DO $$
BEGIN
	FOR i IN 1..3000 LOOP
		UPDATE und SET v = v + 1, t = repeat('y', 90) WHERE id = i % 1000 + 1;
		COMMIT;
	END LOOP;
END $$;
CALL und_wait('after many');
SELECT sum(v) FROM und;
-- a cursor that is held open keeps what it needs
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT count(*), sum(v) FROM und;
UPDATE und SET v = 0;
COMMIT;
CALL und_wait('with held cursor');
FETCH c;
CLOSE c;
-- tables that go away with undo of theirs still there
BEGIN;
CREATE TABLE und_new (a int) USING zheap;
INSERT INTO und_new SELECT generate_series(1, 20000);
UPDATE und_new SET a = -a;
ROLLBACK;
CREATE TABLE und_drop (a int) USING zheap;
INSERT INTO und_drop SELECT generate_series(1, 20000);
BEGIN; UPDATE und_drop SET a = -a; ROLLBACK;
DROP TABLE und_drop;
CREATE TABLE und_trunc (a int) USING zheap;
INSERT INTO und_trunc SELECT generate_series(1, 20000);
BEGIN; UPDATE und_trunc SET a = -a; ROLLBACK;
TRUNCATE und_trunc;
INSERT INTO und_trunc VALUES (1);
CALL und_wait('after drops');
SELECT * FROM und_trunc;
DROP TABLE und, und_trunc;
DROP PROCEDURE und_wait;
