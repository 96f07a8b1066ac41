-- Option user_catalog_table, whose tables logical decoding reads by snapshots
-- of its own, is refused however a zheap table would come to it.
CREATE TABLE uct (a int) USING zheap WITH (user_catalog_table = true);
CREATE TABLE uct USING zheap WITH (user_catalog_table = true) AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW uct USING zheap WITH (user_catalog_table = true) AS SELECT 1 AS a;
EXPLAIN (ANALYZE, COSTS off, SUMMARY off, TIMING off)
	CREATE TABLE uct USING zheap WITH (user_catalog_table = true) AS SELECT 1 AS a;
SELECT to_regclass('uct');
CREATE TABLE uct (a int) USING zheap WITH (user_catalog_table = false);
ALTER TABLE uct SET (user_catalog_table = true);
ALTER TABLE uct SET (user_catalog_table = true, fillfactor = 50);
DO $$ BEGIN ALTER TABLE uct SET (user_catalog_table = true); END $$;
SELECT reloptions FROM pg_class WHERE relname = 'uct';
ALTER TABLE uct SET (fillfactor = 50);
-- both ways between access methods
ALTER TABLE uct SET ACCESS METHOD heap;
ALTER TABLE uct SET (user_catalog_table = true);
INSERT INTO uct VALUES (1);
ALTER TABLE uct SET ACCESS METHOD zheap;
SELECT amname, reloptions FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE relname = 'uct';
SELECT * FROM uct;
BEGIN;
ALTER TABLE uct RESET (user_catalog_table);
ALTER TABLE uct SET ACCESS METHOD zheap;
SAVEPOINT s;
ALTER TABLE uct SET (user_catalog_table);
ROLLBACK TO s;
COMMIT;
SELECT amname, reloptions FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE relname = 'uct';
SELECT * FROM uct;
-- commands of several parts
CREATE SCHEMA uct_schema CREATE TABLE uct2 (a int) USING zheap WITH (user_catalog_table = true);
CREATE TABLE uct_like (LIKE uct INCLUDING ALL) USING zheap WITH (user_catalog_table = on);
CREATE TABLE uct_part (a int) PARTITION BY LIST (a);
CREATE TABLE uct_part1 PARTITION OF uct_part DEFAULT USING zheap WITH (user_catalog_table = on);
CREATE TABLE uct_heap (a int) USING heap WITH (user_catalog_table = true);
SELECT relname, reloptions FROM pg_class WHERE relname ~ '^uct' AND relkind IN ('r', 'p', 'm') ORDER BY 1;
DROP TABLE uct, uct_part, uct_heap;
