-- Parallel plans: all scans, index builds, CREATE TABLE AS, vacuum; the
-- workers see what their leader changed and has not committed.  The answers
-- are heap's.
SET default_table_access_method = zheap;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 3;
CREATE TABLE par (id int, a int, b int, t text);
INSERT INTO par SELECT g, g % 100, g, 'text ' || g FROM generate_series(1, 4000) g;
SET maintenance_work_mem = '64MB';
SET max_parallel_maintenance_workers = 2;
ALTER TABLE par SET (parallel_workers = 3);
CREATE UNIQUE INDEX par_id ON par (id);
CREATE INDEX par_a ON par (a, b);
CREATE INDEX par_x ON par ((a + b)) WHERE a < 50;
VACUUM ANALYZE par;
-- the answer, before it the plan's nodes if asked for: afterwards they may be
-- others, as tables differ in their sizes
CREATE FUNCTION par_run(q text, plans bool) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE l text; n text := '';
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || q
	LOOP
		CONTINUE WHEN NOT plans;
		IF l ~ 'Parallel|Gather' THEN n := n || substring(l, '[A-Z][A-Za-z -]+[a-z]') || ', '; END IF;
		IF l ~ 'Workers Launched: [1-9]' THEN n := n || 'launched: '; END IF;
	END LOOP;
	EXECUTE 'SELECT r::text FROM (' || q || ') r' INTO l;
	RETURN NEXT n || l;
END $$;
CREATE FUNCTION par_all(plans bool DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(a), sum(b), min(t), max(t) FROM par', plans);
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = on;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(a), sum(b), min(t) FROM par WHERE a BETWEEN 5 AND 60 AND b % 2 = 0', plans);
	RETURN QUERY SELECT par_run('SELECT count(*), sum(b) FROM par WHERE a = 7 OR id BETWEEN 100 AND 1800', plans);
	SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(b), max(t) FROM par WHERE id BETWEEN 200 AND 3600', plans);
	RETURN QUERY SELECT par_run('SELECT count(t), sum(b) FROM par WHERE a + b BETWEEN 200 AND 3600 AND a < 50', plans);
	SET LOCAL enable_indexonlyscan = on;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(b) FROM par WHERE a > 20', plans);
	SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = off;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(x.b), sum(y.a) FROM par x JOIN par y ON x.id = y.b', plans);
	SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = on; SET LOCAL enable_indexscan = on;
	RETURN QUERY SELECT par_run('SELECT count(*), sum(x.b), sum(length(y.t)) FROM par x LEFT JOIN par y ON x.id = y.id WHERE x.a = 3', plans);
END $$;
SELECT par_all(true);
-- changes of the leader: in place, moved, new, deleted, undone
BEGIN;
UPDATE par SET t = 'mine' WHERE id % 3 = 0;
SELECT par_all();
UPDATE par SET a = a + 1 WHERE id % 5 = 0;
DELETE FROM par WHERE id % 7 = 0;
INSERT INTO par SELECT g, 1, g, 'new' FROM generate_series(4001, 4100) g;
SELECT par_all();
SAVEPOINT s;
UPDATE par SET t = 'undone', b = -b WHERE id % 2 = 0;
DELETE FROM par WHERE id < 200;
SELECT par_all();
ROLLBACK TO s;
SELECT par_all();
DECLARE c CURSOR FOR SELECT count(*), sum(a), max(t) FROM par WHERE t <> '';
UPDATE par SET t = 'zzz', a = 0;
FETCH c;
SELECT par_all();
ROLLBACK;
SELECT par_all();
-- a row changed many times by its transaction, seen by workers
BEGIN;
UPDATE par SET t = 'one';
UPDATE par SET t = 'two' WHERE id % 2 = 0;
SAVEPOINT s;
UPDATE par SET t = 'three' WHERE id % 3 = 0;
RELEASE s;
UPDATE par SET t = t || '+' WHERE id % 4 = 0;
SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
SELECT t, count(*) FROM par GROUP BY t ORDER BY t;
ROLLBACK;
-- indexes built by workers, over versions, in the transaction that made them
BEGIN;
UPDATE par SET b = b + 1 WHERE id % 2 = 0;
DELETE FROM par WHERE id % 9 = 0;
CREATE INDEX par_b ON par (b);
CREATE UNIQUE INDEX par_id2 ON par (id) INCLUDE (b);
SELECT par_run('SELECT count(*), sum(id) FROM par WHERE b BETWEEN 1 AND 2400', false);
COMMIT;
SELECT par_all();
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
SELECT c, bt_index_check(c, true) FROM unnest('{par_id,par_a,par_x,par_b,par_id2}'::regclass[]) c;
REINDEX TABLE par;
SELECT c, bt_index_parent_check(c, true) FROM unnest('{par_id,par_a,par_x,par_b,par_id2}'::regclass[]) c;
DROP INDEX par_id, par_id2;
INSERT INTO par VALUES (1, 1, 1, 'double');
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX par_id ON par (id);
\set VERBOSITY default
DELETE FROM par WHERE t = 'double';
CREATE UNIQUE INDEX par_id ON par (id);
CREATE UNIQUE INDEX par_id2 ON par (id) INCLUDE (b);
-- tables made by parallel plans; materialized views
CREATE TABLE par_as AS SELECT a, count(*) AS n, sum(b) AS s FROM par GROUP BY a;
SELECT count(*), sum(n), sum(s) FROM par_as;
EXPLAIN (COSTS OFF) CREATE TABLE par_copy AS SELECT * FROM par WHERE b % 2 = 1;
CREATE TABLE par_copy AS SELECT * FROM par WHERE b % 2 = 1;
SELECT count(*), sum(id), sum(b) FROM par_copy;
SELECT id, t INTO par_into FROM par WHERE a < 10;
SELECT count(*), sum(id) FROM par_into;
CREATE MATERIALIZED VIEW par_mat AS SELECT a, max(b) AS b FROM par GROUP BY a;
CREATE UNIQUE INDEX ON par_mat (a);
UPDATE par SET b = 0 WHERE a = 5;
REFRESH MATERIALIZED VIEW par_mat;
SELECT b FROM par_mat WHERE a = 5;
UPDATE par SET b = 1 WHERE a = 5;
REFRESH MATERIALIZED VIEW CONCURRENTLY par_mat;
SELECT b FROM par_mat WHERE a = 5;
-- vacuum of several indexes by workers
DELETE FROM par WHERE id % 4 = 1;
UPDATE par SET b = b + 100000 WHERE id % 4 = 2;
VACUUM (PARALLEL 2) par;
SELECT c, bt_index_parent_check(c, true) FROM unnest('{par_id,par_a,par_x,par_b,par_id2}'::regclass[]) c;
SELECT par_all();
VACUUM (PARALLEL 0, INDEX_CLEANUP ON, TRUNCATE OFF) par;
-- functions that change the table force a serial plan
CREATE FUNCTION par_change(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE par SET t = 'f' WHERE id = i; RETURN i; END $$;
EXPLAIN (COSTS OFF) SELECT sum(par_change(id)) FROM par WHERE id < 20;
SELECT sum(par_change(id)) FROM par WHERE id < 20;
SELECT count(*) FROM par WHERE t = 'f';
DROP MATERIALIZED VIEW par_mat;
DROP TABLE par, par_as, par_copy, par_into;
DROP FUNCTION par_run, par_all, par_change;
