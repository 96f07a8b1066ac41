-- Statistics: what the counters say of in-place updates, moves, deletes,
-- rollbacks; planner statistics and progress.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE st (id int PRIMARY KEY, k int, v int, t text, a int[]) WITH (autovacuum_enabled = off, fillfactor = 50);
CREATE INDEX st_k ON st (k);
-- counters: of the transaction, then of all
BEGIN;
INSERT INTO st SELECT g, g % 10, g, repeat('t', g % 30), ARRAY[g % 3, g % 5] FROM generate_series(1, 1000) g;
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'st';
COMMIT;
-- else the server decides when, by how long ago it did
SELECT pg_stat_force_next_flush();
VACUUM ANALYZE st;
BEGIN;
UPDATE st SET v = v + 1 WHERE id <= 10;
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'st';
SAVEPOINT s;
UPDATE st SET v = v + 1 WHERE id <= 5;
DELETE FROM st WHERE id > 995;
ROLLBACK TO s;
UPDATE st SET k = k + 1 WHERE id <= 3;
DELETE FROM st WHERE id > 998;
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'st';
SELECT pg_stat_get_xact_tuples_updated('st'::regclass), pg_stat_get_xact_tuples_hot_updated('st'::regclass);
COMMIT;
BEGIN;
INSERT INTO st (id) SELECT g FROM generate_series(2001, 2007) g;
UPDATE st SET v = 0 WHERE id <= 4;
DELETE FROM st WHERE id = 500;
ROLLBACK;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd, n_live_tup, n_ins_since_vacuum, n_mod_since_analyze FROM pg_stat_user_tables WHERE relname = 'st';
-- scans
SELECT pg_stat_reset_single_table_counters('st'::regclass), pg_stat_reset_single_table_counters('st_k'::regclass), pg_stat_reset_single_table_counters('st_pkey'::regclass);
VACUUM st;
SELECT pg_stat_force_next_flush();
BEGIN;
SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
SELECT count(*) FROM st WHERE v > 10;
COMMIT;
BEGIN;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
SELECT count(*) FROM st WHERE id BETWEEN 11 AND 30;
SELECT count(v) FROM st WHERE k = 5 AND id > 20;
COMMIT;
BEGIN;
SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;
SELECT count(v) FROM st WHERE k = 6 AND id > 20;
COMMIT;
SELECT pg_stat_force_next_flush();
SELECT seq_scan, seq_tup_read, idx_scan > 1, idx_tup_fetch > 100 FROM pg_stat_user_tables WHERE relname = 'st';
SELECT heap_blks_read + heap_blks_hit > 0, idx_blks_read + idx_blks_hit > 0 FROM pg_statio_user_tables WHERE relname = 'st';
-- planner statistics
ANALYZE st;
SELECT reltuples FROM pg_class WHERE relname = 'st';
UPDATE st SET v = v % 7, t = repeat('u', id % 30) WHERE id % 2 = 0;
DELETE FROM st WHERE id % 20 = 5;
BEGIN;
UPDATE st SET v = -1, t = NULL;
ROLLBACK;
CREATE STATISTICS st_s (dependencies, ndistinct, mcv) ON k, v FROM st;
ANALYZE st;
SELECT attname, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs, array_length(most_common_elems, 1) FROM pg_stats WHERE tablename = 'st' ORDER BY attname COLLATE "C";
SELECT left(histogram_bounds::text, 30), array_length(histogram_bounds, 1) FROM pg_stats WHERE tablename = 'st' AND attname = 'id';
SELECT n_distinct FROM pg_stats_ext WHERE tablename = 'st';
SELECT reltuples FROM pg_class WHERE relname = 'st';
-- what ANALYZE counts as live while a transaction of its own is open
BEGIN;
DELETE FROM st WHERE id <= 100;
INSERT INTO st (id) SELECT g FROM generate_series(3001, 3050) g;
UPDATE st SET v = 5 WHERE id > 900;
ANALYZE st;
SELECT reltuples FROM pg_class WHERE relname = 'st';
ROLLBACK;
SELECT pg_stat_force_next_flush();
ANALYZE st;
SELECT reltuples FROM pg_class WHERE relname = 'st';
SELECT pg_stat_force_next_flush();
SELECT n_live_tup, n_mod_since_analyze, analyze_count > 3, vacuum_count FROM pg_stat_user_tables WHERE relname = 'st';
-- EXPLAIN
CREATE FUNCTION st_explain(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE l text;
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || q
	LOOP
		CONTINUE WHEN l ~ 'WAL:|Planning|Heap Fetches|Heap Blocks|Rows Removed by Index Recheck|Index Searches';
		l := regexp_replace(l, 'rows=(\d+)\.\d+', 'rows=\1');
		RETURN NEXT regexp_replace(regexp_replace(l, '(hit|read|dirtied|written|records|bytes|fpi)=[1-9]\d*', '\1', 'g'), ' (read|dirtied|written|fpi)\y', '', 'g');
	END LOOP;
END $$;
SET enable_bitmapscan = off;
SELECT st_explain('SELECT count(*) FROM st');
SELECT st_explain('SELECT v FROM st WHERE id = 50');
SELECT st_explain('UPDATE st SET v = v + 1 WHERE id = 50');
SELECT st_explain('UPDATE st SET k = k + 1 WHERE id BETWEEN 50 AND 60');
SELECT st_explain('DELETE FROM st WHERE id = 50');
SELECT st_explain('INSERT INTO st (id) VALUES (50) ON CONFLICT (id) DO UPDATE SET v = 1');
SELECT st_explain('INSERT INTO st (id) VALUES (50) ON CONFLICT (id) DO UPDATE SET v = 1');
SELECT st_explain('MERGE INTO st USING (VALUES (50), (5000)) s(id) ON st.id = s.id WHEN MATCHED THEN UPDATE SET v = 2 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)');
RESET enable_bitmapscan;
-- progress, seen from the commands themselves by an index expression
CREATE TABLE st_seen (what text, phase text, n bigint) USING heap;
CREATE TABLE st_p (id int, v int);
INSERT INTO st_p SELECT g, g FROM generate_series(1, 500) g;
CREATE FUNCTION st_see(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF i = 400 THEN
		RAISE NOTICE 'index: %', (SELECT (command, phase, blocks_total > 0, blocks_done >= 0, (SELECT relname FROM pg_class c WHERE c.oid = relid))::text FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid());
		RAISE NOTICE 'analyze: %', (SELECT (phase, sample_blks_total > 1, sample_blks_scanned = sample_blks_total)::text FROM pg_stat_progress_analyze WHERE pid = pg_backend_pid());
		RAISE NOTICE 'copy: %', (SELECT (command, type, tuples_processed)::text FROM pg_stat_progress_copy WHERE pid = pg_backend_pid());
	END IF;
	RETURN i;
END $$;
SET client_min_messages = notice;
CREATE INDEX st_pi ON st_p (st_see(id));
ANALYZE st_p;
DROP INDEX st_pi;
ALTER TABLE st_p ADD CHECK (st_see(v) > 0) NOT VALID;
COPY st_p FROM PROGRAM 'echo 400,400' WITH (FORMAT csv);
ALTER TABLE st_p DROP CONSTRAINT st_p_v_check;
DROP TABLE st, st_seen, st_p;
DROP FUNCTION st_explain, st_see;
