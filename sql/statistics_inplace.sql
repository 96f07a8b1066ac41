-- Statistics that differ from heap's, because rows stay where they are.
-- no dead row comes from an update in place, so that autovacuum sleeps
CREATE TABLE st_calm (id int PRIMARY KEY, v int) USING zheap;
INSERT INTO st_calm SELECT g, 0 FROM generate_series(1, 200) g;
DO $$ BEGIN FOR i IN 1 .. 20 LOOP UPDATE st_calm SET v = v + 1; END LOOP; END $$;
SELECT pg_stat_force_next_flush();
SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname = 'st_calm';
DROP TABLE st_calm;
-- a table stays in the order of a column when rows change in place
CREATE TABLE st_c (id int, down int, v int) USING zheap;
INSERT INTO st_c SELECT g, -g, 0 FROM generate_series(1, 2000) g;
UPDATE st_c SET v = 1 WHERE id % 3 = 0;
VACUUM FREEZE st_c;
ANALYZE st_c;
SELECT attname, correlation FROM pg_stats WHERE tablename = 'st_c' AND attname IN ('down') ORDER BY 1;
DROP TABLE st_c;
