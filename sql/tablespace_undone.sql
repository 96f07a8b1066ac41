-- A table that is moved to another tablespace by a transaction that is rolled
-- back: rows that the transaction has added leave nothing in the indexes.
-- (Heap's indexes keep entries of them, and find other rows by them later; so
-- the answers aren't heap's.)
SET default_table_access_method = 'zheap';
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_zheap_place LOCATION '';
CREATE TABLE tu (id int PRIMARY KEY, k int, v int);
CREATE INDEX tu_k ON tu (k);
CREATE FUNCTION tu_fill() RETURNS void LANGUAGE sql AS $$
	TRUNCATE tu; INSERT INTO tu SELECT g, g, g FROM generate_series(1, 100) g; $$;
CREATE FUNCTION tu_look(OUT seq bigint, OUT idx bigint, OUT there bigint) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO tu SELECT g, g, g FROM generate_series(20001, 20500) g;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
	SELECT count(*) INTO seq FROM tu WHERE k BETWEEN 101 AND 15000;
	SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off;
	SELECT count(*) INTO idx FROM tu WHERE k BETWEEN 101 AND 15000;
	SELECT count(*) INTO there FROM tu WHERE k BETWEEN 1 AND 15000;
END $$;
SELECT tu_fill();
BEGIN;
ALTER TABLE tu SET TABLESPACE regress_zheap_place;
INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g;
UPDATE tu SET k = k + 1000 WHERE id < 50;
ROLLBACK;
SELECT * FROM tu_look();
SELECT count(*) FROM zheap_check('tu');
-- to a savepoint, and there again
SELECT tu_fill();
BEGIN;
INSERT INTO tu SELECT g, g, g FROM generate_series(201, 210) g;
SAVEPOINT a;
ALTER TABLE tu SET TABLESPACE regress_zheap_place;
INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g;
SAVEPOINT b;
ALTER TABLE tu SET TABLESPACE pg_default;
UPDATE tu SET k = k + 1000, id = id + 1000;
ROLLBACK TO b;
SELECT count(*), min(k), max(k) FROM tu;
DELETE FROM tu WHERE id < 10;
ROLLBACK TO a;
UPDATE tu SET v = 0 WHERE id > 200;
COMMIT;
SELECT * FROM tu_look();
SELECT count(*) FROM zheap_check('tu');
-- in a function, and several statements at once
SELECT tu_fill();
DO $$
BEGIN
	ALTER TABLE tu SET TABLESPACE regress_zheap_place;
	INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g;
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT * FROM tu_look();
SELECT tu_fill();
ALTER TABLE tu SET TABLESPACE regress_zheap_place\; INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g\; SELECT 1 / 0;
SELECT * FROM tu_look();
-- all tables of a tablespace
SELECT tu_fill();
ALTER TABLE tu SET TABLESPACE regress_zheap_place;
BEGIN;
ALTER TABLE ALL IN TABLESPACE regress_zheap_place SET TABLESPACE pg_default;
INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g;
ROLLBACK;
SELECT * FROM tu_look();
-- committed: as ever; alone, no index is rebuilt
SELECT tu_fill();
BEGIN;
ALTER TABLE tu SET TABLESPACE pg_default;
INSERT INTO tu SELECT g, g, g FROM generate_series(10001, 10300) g;
COMMIT;
SELECT * FROM tu_look();
SELECT pg_relation_filenode('tu_k') AS before \gset
ALTER TABLE tu SET TABLESPACE regress_zheap_place;
SELECT pg_relation_filenode('tu_k') = :before AS same;
SELECT count(*) FROM zheap_check('tu');
-- a key doesn't change in place before the indexes are rebuilt: an event trigger
-- comes before that, within the command (Z45)
CREATE TABLE tk (id int, k int);
CREATE INDEX tk_k ON tk (k);
INSERT INTO tk SELECT g, g FROM generate_series(1, 100) g;
SET zheap.update_indexed_in_place = on;
DO $$
BEGIN
	LOOP
		UPDATE tk SET k = k + 1000 WHERE id = 100;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags('tk', 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CREATE FUNCTION tk_change() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE tk SET k = k + 500 WHERE id <= 10;
	RAISE NOTICE 'changed';
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
CREATE EVENT TRIGGER regress_zheap_change ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION tk_change();
BEGIN;
ALTER TABLE tk SET TABLESPACE regress_zheap_place;
ROLLBACK;
DROP EVENT TRIGGER regress_zheap_change;
-- after it, in the block, it does
BEGIN;
ALTER TABLE tk SET TABLESPACE regress_zheap_place;
UPDATE tk SET k = k + 500 WHERE id <= 10;
SELECT count(*) FROM zheap_page_items('tk', 0) WHERE 'stale' = ANY (flags) AND lp <= 10;
ROLLBACK;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM tk WHERE k BETWEEN 500 AND 600;
SELECT count(*) FROM tk WHERE k <= 10;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET zheap.update_indexed_in_place;
SELECT count(*) FROM zheap_check('tk');
DROP TABLE tk;
DROP FUNCTION tk_change;
DROP TABLE tu;
DROP FUNCTION tu_fill, tu_look;
DROP TABLESPACE regress_zheap_place;
