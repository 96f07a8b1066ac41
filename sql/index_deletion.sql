-- Entries of rows that moved, without VACUUM: an index whose columns don't
-- change stays as small as it was, and so does one whose dead entries are
-- met by scans.
SET default_table_access_method = zheap;
CREATE TABLE churn (id int PRIMARY KEY, k int, pad text)
  WITH (autovacuum_enabled = off, fillfactor = 60);
CREATE INDEX churn_k ON churn (k);
CREATE INDEX churn_pad ON churn (pad);
INSERT INTO churn SELECT g, g, 'p' || g % 10 FROM generate_series(1, 1000) g;
CREATE TABLE churn_size AS SELECT pg_relation_size('churn_pkey') AS pkey,
  pg_relation_size('churn_pad') AS pad;
-- each round moves every row: 30000 entries more for each index
CREATE PROCEDURE churn_rounds(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		UPDATE churn SET k = k + 1000;
		COMMIT;
	END LOOP;
END $$;
CALL churn_rounds(30);
SELECT pg_relation_size('churn_pkey') <= 4 * pkey AS pkey_is_small,
  pg_relation_size('churn_pad') <= 6 * pad AS pad_is_small FROM churn_size;
SELECT count(*), min(k), max(k) FROM churn;
-- every row is found through each index, once
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM churn WHERE id BETWEEN 1 AND 1000;
SELECT count(*), sum(id) FROM churn WHERE k > 0;
SELECT pad, count(*), sum(id) FROM churn WHERE pad >= 'p' GROUP BY pad ORDER BY pad;
-- rolled back moves leave entries, too
DO $$
BEGIN
	FOR i IN 1 .. 10 LOOP
		BEGIN
			UPDATE churn SET k = k + 1;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
CALL churn_rounds(10);
SELECT count(*), sum(id), min(k), max(k) FROM churn WHERE id BETWEEN 1 AND 1000;
SELECT count(*), sum(id) FROM churn WHERE k > 0;
-- an old snapshot keeps what it needs
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT min(k), max(k) FROM churn WHERE id BETWEEN 1 AND 1000;
SAVEPOINT s;
UPDATE churn SET k = k + 1;
UPDATE churn SET k = k + 1;
UPDATE churn SET k = k + 1;
SELECT count(*), sum(id), min(k), max(k) FROM churn WHERE id BETWEEN 1 AND 1000;
ROLLBACK TO s;
SELECT count(*), sum(id), min(k), max(k) FROM churn WHERE id BETWEEN 1 AND 1000;
COMMIT;
-- simple deletion: one value, deleted and inserted again and again
CREATE TABLE queue (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off);
CREATE PROCEDURE queue_rounds(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		INSERT INTO queue VALUES (1, i);
		COMMIT;
		DELETE FROM queue WHERE id = 1;
		COMMIT;
		PERFORM FROM queue WHERE id = 1;
	END LOOP;
END $$;
CALL queue_rounds(2000);
SELECT pg_relation_size('queue_pkey') <= 4 * 8192 AS queue_pkey_is_small;
SELECT count(*) FROM queue;
DROP PROCEDURE queue_rounds(int);
DROP PROCEDURE churn_rounds(int);
DROP TABLE churn, churn_size, queue;
