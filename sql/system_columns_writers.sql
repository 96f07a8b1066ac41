-- xmin and xmax name transactions: rows of several subtransactions, of later
-- owners of the same page, of deleted and upserted rows.  The answers are
-- heap's.
SET default_table_access_method = zheap;
CREATE TABLE who (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off);
-- each row was written by another subtransaction, a scan says so
BEGIN;
INSERT INTO who VALUES (1, 0);
SAVEPOINT a;
INSERT INTO who VALUES (2, 0);
RELEASE a;
SAVEPOINT b;
INSERT INTO who VALUES (3, 0);
SELECT count(DISTINCT xmin::text) FROM who;
RELEASE b;
INSERT INTO who VALUES (4, 0);
SELECT a.xmin = b.xmin AS same FROM who a, who b WHERE a.id = 1 AND b.id = 4;
COMMIT;
SELECT a.xmin = b.xmin AS same FROM who a, who b WHERE a.id = 1 AND b.id = 2;
SELECT a.xmin = b.xmin AS same FROM who a, who b WHERE a.id = 2 AND b.id = 3;
-- a later owner of the page takes over what earlier ones had
BEGIN;
UPDATE who SET n = 1 WHERE id = 1;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM who ORDER BY id;
COMMIT;
BEGIN;
UPDATE who SET n = 2 WHERE id = 2;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM who ORDER BY id;
COMMIT;
BEGIN;
UPDATE who SET n = 3 WHERE id = 3;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM who ORDER BY id;
SELECT count(DISTINCT xmin::text) FROM who;
COMMIT;
SET enable_seqscan = off;
SELECT count(DISTINCT xmin::text) FROM who WHERE id > 0;
RESET enable_seqscan;
-- through cursors
BEGIN;
DECLARE c CURSOR FOR SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM who ORDER BY id;
UPDATE who SET n = n + 10;
FETCH ALL FROM c;
ROLLBACK;
-- deleted rows: by whom, and who had written them
BEGIN;
DELETE FROM who WHERE id = 4
  RETURNING id, xmin <> pg_current_xact_id()::xid AS other, xmax = pg_current_xact_id()::xid AS mine;
INSERT INTO who VALUES (5, 0);
DELETE FROM who WHERE id = 5
  RETURNING id, xmin = pg_current_xact_id()::xid AS mine, xmax = pg_current_xact_id()::xid AS too;
ROLLBACK;
-- the habit of telling inserted rows from updated ones by xmax
INSERT INTO who VALUES (4, 7), (6, 7) ON CONFLICT (id) DO UPDATE SET n = excluded.n
  RETURNING id, n, xmax = 0 AS inserted;
BEGIN;
INSERT INTO who VALUES (7, 7) RETURNING xmax = 0 AS inserted;
INSERT INTO who VALUES (7, 8), (8, 8) ON CONFLICT (id) DO UPDATE SET n = excluded.n
  RETURNING id, n, xmin = pg_current_xact_id()::xid AS mine, xmax = 0 AS inserted;
COMMIT;
UPDATE who SET n = 9 WHERE id = 8 RETURNING xmax = 0 AS unlocked;
DROP TABLE who;
