-- Looking at pages; zheap_check finds nothing wrong.
CREATE TABLE ins_p (id int PRIMARY KEY, v int, t text) USING zheap;
INSERT INTO ins_p SELECT g, 0, 'x' FROM generate_series(1, 5) g;
SELECT lp, state, natts, lp_len > 0 AS body FROM zheap_page_items('ins_p', 0) ORDER BY lp;
SELECT count(*) > 0 AS owned FROM zheap_page_slots('ins_p', 0) WHERE fxid IS NOT NULL AND fxid <> '0'::xid8;
-- an update in place keeps its line pointer, one of the key takes another
UPDATE ins_p SET v = 1 WHERE id = 2;
SELECT count(*), sum(v) FROM ins_p;
SELECT count(*) FROM zheap_page_items('ins_p', 0);
UPDATE ins_p SET id = 6 WHERE id = 3;
SELECT count(*) FROM zheap_page_items('ins_p', 0);
DELETE FROM ins_p WHERE id = 1;
BEGIN; INSERT INTO ins_p VALUES (7), (8); UPDATE ins_p SET v = 9; ROLLBACK;
SELECT * FROM zheap_check('ins_p');
SELECT count(*) FROM zheap_page_slots('ins_p', 0) WHERE status = 'aborted';
-- the writer of a change, its transaction slot and its undo
BEGIN;
UPDATE ins_p SET v = 5 WHERE id = 2;
SELECT count(*) FROM zheap_page_slots('ins_p', 0) WHERE fxid = pg_current_xact_id();
SELECT r.kind, r.lp, r.writer = pg_current_xact_id() AS mine, r.bytes > 0 AS bytes
	FROM zheap_page_slots('ins_p', 0) s, zheap_undo_records('ins_p', 0, s.id) r
	WHERE s.fxid = pg_current_xact_id() AND r.writer = pg_current_xact_id();
COMMIT;
-- nothing wrong after much of everything
CREATE TABLE ins_m (id int PRIMARY KEY, v int, t text) USING zheap;
CREATE INDEX ins_m_v ON ins_m (v);
INSERT INTO ins_m SELECT g, g, repeat('m', g % 100) FROM generate_series(1, 3000) g;
UPDATE ins_m SET t = t || 'longer' WHERE id % 3 = 0;
UPDATE ins_m SET v = -v WHERE id % 7 = 0;
DELETE FROM ins_m WHERE id % 5 = 0;
BEGIN;
SAVEPOINT s; UPDATE ins_m SET t = repeat('s', 120); ROLLBACK TO s;
SELECT * FROM zheap_check('ins_m');
UPDATE ins_m SET t = 'q' WHERE id < 500;
ROLLBACK;
SELECT * FROM zheap_check('ins_m');
BEGIN; DELETE FROM ins_m WHERE id > 1000; INSERT INTO ins_m SELECT g, 0, 'a' FROM generate_series(5000, 6000) g; ROLLBACK;
SELECT * FROM zheap_check('ins_m');
VACUUM ins_m;
SELECT * FROM zheap_check('ins_m');
SELECT count(*), sum(id), sum(v), sum(length(t)) FROM ins_m;
-- rows with a column that was added by the transaction that was rolled back
BEGIN;
SET LOCAL zheap.rollback_foreground_size = 0;
INSERT INTO ins_m VALUES (-1, 0, 'a');
SAVEPOINT s;
ALTER TABLE ins_m ADD COLUMN added int DEFAULT 5;
UPDATE ins_m SET added = 6, v = v + 1;
INSERT INTO ins_m SELECT g, 0, 'a', 7 FROM generate_series(5000, 5100) g;
ROLLBACK TO s;
SELECT * FROM zheap_check('ins_m');
DELETE FROM ins_m WHERE id = -1;
COMMIT;
SELECT * FROM zheap_check('ins_m');
-- more index entries than fit into memory
SET maintenance_work_mem = '1MB';
CREATE TABLE ins_big (id int PRIMARY KEY, v int) USING zheap;
CREATE INDEX ins_big_v ON ins_big USING hash (v);
INSERT INTO ins_big SELECT g, g % 1000 FROM generate_series(1, 60000) g;
SELECT * FROM zheap_check('ins_big');
RESET maintenance_work_mem;
DROP TABLE ins_big;
-- what the other tests left
SELECT c.oid::regclass, k.* FROM pg_class c JOIN pg_am a ON a.oid = c.relam, zheap_check(c.oid) k
	WHERE a.amname = 'zheap' AND c.relkind = 'r' AND c.relpersistence <> 't' ORDER BY 1;
-- refused: other tables, blocks that aren't there, users without the right
SELECT * FROM zheap_check('pg_class');
SELECT * FROM zheap_page_items('pg_class', 0);
SELECT * FROM zheap_page_slots('ins_p', 1000);
SELECT * FROM zheap_page_items('ins_p', -1);
CREATE ROLE regress_zheap_nobody;
SET ROLE regress_zheap_nobody;
SELECT * FROM zheap_check('ins_p');
SELECT * FROM zheap_page_items('ins_p', 0);
SELECT pg_zheap_undo_size();
RESET ROLE;
DROP ROLE regress_zheap_nobody;
-- functions of the owner's don't find what the caller puts into their way
CREATE ROLE regress_zheap_owner;
CREATE ROLE regress_zheap_monitor;
GRANT pg_monitor TO regress_zheap_monitor;
GRANT CREATE ON SCHEMA public TO regress_zheap_owner;
CREATE SCHEMA regress_zheap_evil AUTHORIZATION regress_zheap_monitor;
CREATE FUNCTION ins_norm(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% by the path %', current_user, current_setting('search_path');
	RETURN lower(t);
END $$;
SET ROLE regress_zheap_owner;
SET client_min_messages = warning;
CREATE TABLE ins_path (t text) USING zheap;
INSERT INTO ins_path VALUES ('One');
CREATE INDEX ON ins_path (ins_norm(t)) WHERE ins_norm(t) <> '';
SET ROLE regress_zheap_monitor;
CREATE FUNCTION regress_zheap_evil.lower(t text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'found by %', current_user;
	RETURN t;
END $$;
SET search_path = regress_zheap_evil, pg_catalog;
SET client_min_messages = notice;
SELECT * FROM public.zheap_check('public.ins_path');
SHOW search_path;
RESET search_path;
RESET ROLE;
RESET client_min_messages;
DROP SCHEMA regress_zheap_evil CASCADE;
DROP TABLE ins_path;
DROP FUNCTION ins_norm;
REVOKE ALL ON SCHEMA public FROM regress_zheap_owner;
DROP ROLE regress_zheap_owner, regress_zheap_monitor;
DROP TABLE ins_p, ins_m;
