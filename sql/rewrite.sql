-- Commands that give a table a new file or fill a new table: VACUUM FULL,
-- CLUSTER, REINDEX, TRUNCATE, CREATE TABLE AS, materialized views, COPY FREEZE.
-- The answers are heap's.
SET default_table_access_method = zheap;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE TABLE rw (id int PRIMARY KEY, k int, t text, big text) WITH (autovacuum_enabled = off);
ALTER TABLE rw ALTER big SET STORAGE EXTERNAL;
CREATE INDEX rw_k ON rw (k);
CREATE INDEX rw_expr ON rw ((k % 7), t);
CREATE INDEX rw_part ON rw (t) WHERE k > 50;
CREATE INDEX rw_hash ON rw USING hash (k);
INSERT INTO rw SELECT g, (g * 37) % 100, 'row ' || g, CASE WHEN g % 50 = 0 THEN repeat('b', 2500) END
	FROM generate_series(1, 1000) g;
CREATE VIEW rw_sum AS SELECT count(*), sum(id) ids, sum(k) ks, sum(length(t)) ts, sum(length(big)) bigs FROM rw;
CREATE FUNCTION rw_check() RETURNS text LANGUAGE plpgsql AS $$
DECLARE i regclass;
BEGIN
	FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE indrelid = 'rw'::regclass AND amname = 'btree' LOOP
		PERFORM bt_index_check(i, true);
	END LOOP;
	RETURN 'good';
END $$;

-- in physical order
DELETE FROM rw WHERE id % 3 = 0;
UPDATE rw SET t = t || ' changed' WHERE id % 5 = 0;
UPDATE rw SET k = k + 1 WHERE id % 11 = 0;
BEGIN; UPDATE rw SET t = 'aborted', k = 0; DELETE FROM rw WHERE id < 500; INSERT INTO rw SELECT g FROM generate_series(2000, 2500) g; ROLLBACK;
TABLE rw_sum;
SELECT pg_relation_size('rw') AS size \gset
VACUUM FULL rw;
TABLE rw_sum;
SELECT pg_relation_size('rw') < :size AS smaller, rw_check();
VACUUM (FULL, ANALYZE) rw;
VACUUM (FULL, FREEZE) rw;
SELECT reltuples FROM pg_class WHERE relname = 'rw';
VACUUM (FULL, DISABLE_PAGE_SKIPPING) rw;
VACUUM (FULL, SKIP_LOCKED) rw;
VACUUM (FULL, PROCESS_TOAST off) rw;
VACUUM (FULL, PARALLEL 2) rw;
BEGIN; VACUUM FULL rw; ROLLBACK;
-- an empty and an emptied table
CREATE TABLE none (a int PRIMARY KEY, b text);
VACUUM FULL none;
CLUSTER none USING none_pkey;
INSERT INTO none SELECT g, repeat('n', 3000) FROM generate_series(1, 100) g;
DELETE FROM none;
VACUUM FULL none;
SELECT pg_relation_size('none'), pg_total_relation_size('none') < 40000, count(*) FROM none;
INSERT INTO none VALUES (1, 'a');
TABLE none;
DROP TABLE none;

-- in the order of an index: scanned, sorted, of an expression
CREATE FUNCTION rw_in_order(expr text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE result boolean;
BEGIN
	EXECUTE format('SELECT bool_and(x >= last) FROM (SELECT %s x, lag(%s) OVER (ORDER BY ctid) last FROM rw) y', expr, expr) INTO result;
	RETURN result;
END $$;
SELECT rw_in_order('k');
SET enable_seqscan = off;
SET enable_sort = off;
CLUSTER rw USING rw_k;
RESET enable_sort;
RESET enable_seqscan;
SELECT rw_in_order('k'), rw_check();
TABLE rw_sum;
UPDATE rw SET k = 99 - k;
SET enable_indexscan = off;
CLUSTER rw;
RESET enable_indexscan;
SELECT rw_in_order('k'), rw_check();
TABLE rw_sum;
SET enable_indexscan = off;
SET maintenance_work_mem = '1MB';
CLUSTER rw USING rw_expr;
RESET maintenance_work_mem;
RESET enable_indexscan;
SELECT rw_in_order('k % 7'), rw_check();
CLUSTER rw USING rw_pkey;
SELECT rw_in_order('id'), rw_check();
TABLE rw_sum;
CLUSTER rw USING rw_part;
CLUSTER rw USING rw_hash;
CLUSTER rw USING nothing;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'rw'::regclass AND indisclustered;
ALTER TABLE rw SET WITHOUT CLUSTER;
CLUSTER rw;
-- with changes of the same transaction, twice, and undone
BEGIN;
DELETE FROM rw WHERE id < 100;
INSERT INTO rw SELECT g, g % 10, 'own', repeat('o', 2100) FROM generate_series(3001, 3020) g;
UPDATE rw SET t = 'own', big = 'short' WHERE id BETWEEN 200 AND 300;
UPDATE rw SET k = 1000 WHERE id BETWEEN 290 AND 310;
CLUSTER rw USING rw_k;
TABLE rw_sum;
SAVEPOINT s;
UPDATE rw SET t = 'sub', k = k + 1;
DELETE FROM rw WHERE id > 3010;
TABLE rw_sum;
CLUSTER rw USING rw_pkey;
TABLE rw_sum;
ROLLBACK TO s;
TABLE rw_sum;
UPDATE rw SET big = big || '+' WHERE id > 3000;
CLUSTER rw;
TABLE rw_sum;
DECLARE c CURSOR FOR SELECT * FROM rw;
CLUSTER rw;
ROLLBACK;
TABLE rw_sum;
BEGIN;
INSERT INTO rw SELECT g, g % 10, 'own', repeat('o', 2100) FROM generate_series(3001, 3020) g;
UPDATE rw SET k = k + 1 WHERE id % 7 = 0;
CLUSTER rw USING rw_k;
UPDATE rw SET k = k + 1 WHERE id % 7 = 1;
COMMIT;
TABLE rw_sum;
SELECT rw_check();
-- columns that came and went
ALTER TABLE rw ADD n int DEFAULT 4, ADD s text DEFAULT 'sss';
UPDATE rw SET n = 5 WHERE id % 2 = 0;
DROP VIEW rw_sum;
ALTER TABLE rw DROP t;
CLUSTER rw USING rw_pkey;
SELECT n, s, count(*) FROM rw GROUP BY 1, 2 ORDER BY 1;
SELECT attname, atthasmissing FROM pg_attribute WHERE attrelid = 'rw'::regclass AND attnum > 0 ORDER BY attnum;
INSERT INTO rw (id) VALUES (9999);
SELECT * FROM rw WHERE id IN (1, 2, 9999) ORDER BY id;

-- REINDEX
UPDATE rw SET k = id % 13, s = 'new' WHERE id % 2 = 1;
DELETE FROM rw WHERE id % 17 = 0;
REINDEX INDEX rw_k;
REINDEX TABLE rw;
REINDEX TABLE CONCURRENTLY rw;
REINDEX INDEX CONCURRENTLY rw_pkey;
SELECT rw_check();
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM rw WHERE k = 5;
RESET enable_seqscan;
BEGIN; REINDEX TABLE CONCURRENTLY rw; ROLLBACK;
BEGIN; UPDATE rw SET k = 5; REINDEX TABLE rw; SET LOCAL enable_seqscan = off; SELECT count(*) FROM rw WHERE k = 5; ROLLBACK;
SELECT count(*), sum(id) FROM rw WHERE k = 5;
SELECT rw_check();

-- TRUNCATE in transactions and savepoints
BEGIN; TRUNCATE rw; INSERT INTO rw (id) VALUES (1); SELECT count(*) FROM rw; ROLLBACK;
SELECT count(*) FROM rw;
BEGIN;
UPDATE rw SET s = 'kept' WHERE id = 1;
SAVEPOINT a;
TRUNCATE rw;
INSERT INTO rw (id, s) SELECT g, 'a' FROM generate_series(1, 10) g;
SAVEPOINT b;
UPDATE rw SET s = 'b';
TRUNCATE rw;
INSERT INTO rw (id, s) VALUES (77, 'c');
ROLLBACK TO b;
SELECT count(*), min(s), max(s) FROM rw;
ROLLBACK TO a;
SELECT count(*), max(s) FILTER (WHERE id = 1) FROM rw;
COMMIT;
SELECT count(*), max(s) FILTER (WHERE id = 1) FROM rw;
BEGIN; DELETE FROM rw; TRUNCATE rw; INSERT INTO rw (id, s) VALUES (5, 'five'); COMMIT;
TABLE rw;
CREATE TABLE rw_ref (id int REFERENCES rw);
TRUNCATE rw;
TRUNCATE rw, rw_ref RESTART IDENTITY CASCADE;
SELECT count(*), rw_check() FROM rw;
BEGIN; CREATE TABLE fresh (a int PRIMARY KEY); INSERT INTO fresh VALUES (1); TRUNCATE fresh; INSERT INTO fresh VALUES (1), (2); COMMIT;
TABLE fresh;
DROP TABLE fresh, rw_ref;

-- COPY FREEZE: needs a new file
COPY rw (id, s) FROM stdin (FREEZE);
\.
BEGIN;
TRUNCATE rw;
COPY rw (id, s) FROM stdin (FREEZE);
1	one
2	two
\.
SAVEPOINT s;
UPDATE rw SET s = 'three' WHERE id = 2;
ROLLBACK TO s;
COMMIT;
TABLE rw;
BEGIN;
TRUNCATE rw;
COPY rw (id, s) FROM stdin (FREEZE);
3	three
\.
ROLLBACK;
SELECT id, s FROM rw;

-- CREATE TABLE AS, SELECT INTO
CREATE TABLE ctas AS SELECT g a, repeat('c', g) b FROM generate_series(1, 200) g;
CREATE TABLE ctas_none AS TABLE ctas WITH NO DATA;
CREATE TABLE ctas_if AS SELECT a, b, a IS NULL FROM ctas WHERE a < 3;
CREATE TABLE IF NOT EXISTS ctas AS SELECT 1;
CREATE TEMP TABLE ctas_temp ON COMMIT DROP AS SELECT * FROM ctas;
CREATE UNLOGGED TABLE ctas_unlogged AS SELECT * FROM ctas;
SELECT a, b INTO into_table FROM ctas WHERE a > 190;
SELECT (SELECT count(*) FROM ctas_none), (SELECT count(*) FROM ctas_if), (SELECT count(*) FROM into_table),
	(SELECT sum(length(b)) FROM ctas_unlogged);
PREPARE p AS SELECT a FROM ctas WHERE a < $1;
CREATE TABLE ctas_execute AS EXECUTE p(4);
TABLE ctas_execute;
BEGIN; CREATE TABLE gone AS SELECT * FROM ctas; ROLLBACK;
CREATE TABLE broken AS SELECT 1 / (a - 100) FROM ctas;

-- materialized views
CREATE MATERIALIZED VIEW mv AS SELECT a % 10 AS x, count(*) AS n, sum(length(b)) AS s FROM ctas GROUP BY 1;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
CREATE UNIQUE INDEX mv_x ON mv (x);
UPDATE ctas SET b = b || '.' WHERE a % 10 < 3;
DELETE FROM ctas WHERE a % 10 = 5;
INSERT INTO ctas VALUES (1005, NULL);
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT * FROM mv ORDER BY x;
UPDATE ctas SET a = a + 1 WHERE a % 10 = 9;
BEGIN; REFRESH MATERIALIZED VIEW mv; SELECT count(*), sum(n) FROM mv; ROLLBACK;
SELECT count(*), sum(n) FROM mv;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*), sum(n) FROM mv;
DELETE FROM ctas;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*) FROM mv;
INSERT INTO ctas SELECT g, 'x' FROM generate_series(1, 40) g;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
VACUUM FULL mv;
CLUSTER mv USING mv_x;
SELECT sum(x), sum(n), sum(s) FROM mv;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
SELECT * FROM mv;
SELECT bt_index_check('mv_x', true);
DROP MATERIALIZED VIEW mv;
DROP TABLE rw, ctas, ctas_none, ctas_if, ctas_unlogged, ctas_execute, into_table;
DROP FUNCTION rw_check(), rw_in_order(text);
