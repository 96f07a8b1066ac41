-- ALTER TABLE SET ACCESS METHOD, to and fro, leaving nothing behind.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE TABLE am (id int PRIMARY KEY, k int CHECK (k >= 0), t text NOT NULL, big text) USING heap
	WITH (autovacuum_enabled = off, fillfactor = 80);
ALTER TABLE am ALTER big SET STORAGE EXTERNAL;
CREATE INDEX am_k ON am (k);
CREATE TABLE am_ref (id int REFERENCES am);
INSERT INTO am SELECT g, g % 10, 'row ' || g, CASE WHEN g % 20 = 0 THEN repeat('b', 3000) END
	FROM generate_series(1, 200) g;
INSERT INTO am_ref VALUES (1), (2);
ALTER TABLE am ADD late text DEFAULT 'late';
UPDATE am SET t = t || '.' WHERE id % 3 = 0;
DELETE FROM am WHERE id % 7 = 0;
CREATE FUNCTION am_look(OUT am name, OUT toast_am name, OUT toast_has_xid boolean,
	OUT n bigint, OUT ids bigint, OUT ts bigint, OUT bigs bigint, OUT lates bigint) LANGUAGE sql AS $$
	SELECT a.amname, b.amname, t.relfrozenxid <> '0', s.*
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am b ON b.oid = t.relam,
		(SELECT count(*), sum(id), sum(length(t)), sum(length(big)), count(late) FROM am) s
		WHERE c.relname = 'am' $$;
SELECT * FROM am_look();
ALTER TABLE am SET ACCESS METHOD zheap;
SELECT * FROM am_look();
SELECT * FROM zheap_check('am');
SELECT bt_index_check('am_pkey', true), bt_index_check('am_k', true);
-- constraints, foreign keys, options and defaults are still there
INSERT INTO am VALUES (1, 1, 't');
INSERT INTO am VALUES (1000, -1, 't');
INSERT INTO am VALUES (1000, 1, NULL);
DELETE FROM am WHERE id = 1;
INSERT INTO am VALUES (1000, 1, 't', repeat('x', 5000)) RETURNING late;
SELECT reloptions FROM pg_class WHERE relname = 'am';
UPDATE am SET k = k + 1, t = 'zheap' WHERE id < 50;
BEGIN; UPDATE am SET t = 'never', big = repeat('n', 3000); DELETE FROM am WHERE id > 2; ROLLBACK;
SELECT * FROM am_look();
-- undone, in a transaction with changes before and after
BEGIN;
UPDATE am SET t = 'kept' WHERE id = 2;
SAVEPOINT s;
DELETE FROM am WHERE id = 3;
ALTER TABLE am SET ACCESS METHOD heap;
UPDATE am SET t = 'not kept' WHERE id = 4;
SELECT am, n FROM am_look();
ROLLBACK TO s;
SELECT am, n FROM am_look();
UPDATE am SET big = 'kept' WHERE id = 2;
COMMIT;
SELECT id, t, big FROM am WHERE id IN (2, 3, 4) ORDER BY id;
-- and kept
BEGIN;
UPDATE am SET t = 'kept, too' WHERE id = 2;
ALTER TABLE am SET ACCESS METHOD heap;
UPDATE am SET t = t || '!' WHERE id IN (2, 3);
COMMIT;
SELECT * FROM am_look();
SELECT id, t, big FROM am WHERE id IN (2, 3, 4) ORDER BY id;
SELECT bt_index_check('am_pkey', true), bt_index_check('am_k', true);
SELECT * FROM verify_heapam('am');
VACUUM FREEZE am;
SELECT relfrozenxid <> '0' FROM pg_class WHERE relname = 'am';
-- with other changes of the same table, as the default, nowhere to go
ALTER TABLE am SET ACCESS METHOD zheap, ALTER k TYPE bigint, ADD more int DEFAULT 1;
ALTER TABLE am SET ACCESS METHOD zheap;
SELECT * FROM am_look();
VACUUM FULL am;
CLUSTER am USING am_k;
SELECT * FROM am_look();
CREATE TABLE am_part (a int) PARTITION BY LIST (a);
ALTER TABLE am_part SET ACCESS METHOD zheap;
CREATE MATERIALIZED VIEW am_mv USING zheap AS SELECT id, t FROM am;
ALTER MATERIALIZED VIEW am_mv SET ACCESS METHOD heap;
SELECT count(*) FROM am_mv;
ALTER MATERIALIZED VIEW am_mv SET ACCESS METHOD zheap;
SELECT count(*) FROM am_mv;
CREATE TEMP TABLE am_temp USING zheap AS SELECT id, t FROM am;
UPDATE am_temp SET t = 'temp' WHERE id < 10;
ALTER TABLE am_temp SET ACCESS METHOD heap;
UPDATE am_temp SET t = 'temp' WHERE id < 10;
ALTER TABLE am_temp SET ACCESS METHOD zheap;
SELECT count(*), count(*) FILTER (WHERE t = 'temp') FROM am_temp;
VACUUM FULL am_temp;
SELECT count(*), count(*) FILTER (WHERE t = 'temp') FROM am_temp;
CREATE UNLOGGED TABLE am_unlogged USING zheap AS SELECT id, t FROM am;
UPDATE am_unlogged SET t = 'unlogged' WHERE id < 10;
VACUUM FULL am_unlogged;
ALTER TABLE am_unlogged SET ACCESS METHOD heap;
ALTER TABLE am_unlogged SET LOGGED, SET ACCESS METHOD zheap;
SELECT count(*), count(*) FILTER (WHERE t = 'unlogged') FROM am_unlogged;
SELECT * FROM zheap_check('am_unlogged');
-- nothing of all this is left: no file without a relation
DROP TABLE am_part, am_unlogged, am_temp;
CHECKPOINT;
SELECT f FROM pg_database d, pg_ls_dir('base/' || d.oid) f
	WHERE datname = current_database() AND f ~ '^[0-9]+'
	AND NOT EXISTS (SELECT FROM pg_class WHERE pg_relation_filenode(oid) = substring(f, '^[0-9]+')::oid);

DROP MATERIALIZED VIEW am_mv;
DROP TABLE am_ref, am;
DROP FUNCTION am_look;
