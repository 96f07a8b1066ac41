-- Rolling back: whole transactions, errors, and what is left behind.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE rb (id int PRIMARY KEY, n int, t text);
INSERT INTO rb SELECT g, 0, repeat('t', g % 50) FROM generate_series(1, 2000) g;
CREATE TABLE rb_before AS SELECT * FROM rb;
CREATE FUNCTION rb_same() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN NOT EXISTS (TABLE rb EXCEPT ALL TABLE rb_before)
		AND NOT EXISTS (TABLE rb_before EXCEPT ALL TABLE rb) THEN 'same' ELSE 'DIFFERENT' END $$;
-- small: rolled back by the aborting backend
BEGIN; UPDATE rb SET n = 1 WHERE id = 1; ROLLBACK;
SELECT rb_same();
BEGIN; DELETE FROM rb WHERE id < 4; ROLLBACK;
SELECT rb_same();
BEGIN; INSERT INTO rb VALUES (-1), (-2); ROLLBACK;
SELECT rb_same();
BEGIN; UPDATE rb SET id = -id WHERE id < 9; ROLLBACK;
SELECT rb_same();
BEGIN; UPDATE rb SET t = repeat('long', 200) WHERE id < 40; ROLLBACK;
SELECT rb_same();
BEGIN; UPDATE rb SET t = '' WHERE id < 40; UPDATE rb SET t = 'abc' WHERE id < 20; ROLLBACK;
SELECT rb_same();
-- large: left to readers, writers and workers
BEGIN; UPDATE rb SET n = n + 1, t = t || 'x'; DELETE FROM rb WHERE id % 2 = 0;
INSERT INTO rb SELECT g FROM generate_series(3000, 5000) g; ROLLBACK;
SELECT rb_same();
UPDATE rb SET n = n + 1;
SELECT sum(n) FROM rb;
UPDATE rb SET n = n - 1;
SELECT rb_same();
-- errors in the middle
INSERT INTO rb VALUES (5000), (5001), (1);
SELECT rb_same();
UPDATE rb SET n = 1 / (id - 1000);
SELECT rb_same();
DO $$
BEGIN
	DELETE FROM rb WHERE id < 100;
	RAISE EXCEPTION 'stop';
END $$;
SELECT rb_same();
-- an aborted row's pointer is not given to another row while indexes have it
BEGIN; INSERT INTO rb SELECT g FROM generate_series(10000, 10100) g; ROLLBACK;
INSERT INTO rb SELECT g FROM generate_series(20000, 20100) g;
SET enable_seqscan = off;
SELECT count(*) FROM rb WHERE id BETWEEN 10000 AND 10100;
SELECT count(*) FROM rb WHERE id BETWEEN 20000 AND 20100;
RESET enable_seqscan;
DELETE FROM rb WHERE id >= 20000;
SELECT rb_same();
-- tables that the transaction made, emptied or rewrote
BEGIN; CREATE TABLE rb_new (a int); INSERT INTO rb_new VALUES (1); UPDATE rb_new SET a = 2; ROLLBACK;
BEGIN; TRUNCATE rb; INSERT INTO rb VALUES (1); ROLLBACK;
SELECT rb_same();
BEGIN; INSERT INTO rb VALUES (-5); ALTER TABLE rb ALTER n TYPE bigint; UPDATE rb SET n = 5; ROLLBACK;
SELECT rb_same();
DROP FUNCTION rb_same;
DROP TABLE rb, rb_before;
-- more pages than an aborting session may take time for: the rest is left to
-- others, and nothing of the attempt stays behind
CREATE TABLE rb_many (id int, v int, f char(900)) USING zheap;
INSERT INTO rb_many SELECT g, 1, 'f' FROM generate_series(1, 30000) g;
SET zheap.rollback_foreground_size = '1GB';
BEGIN; UPDATE rb_many SET v = 2; ROLLBACK;
RESET zheap.rollback_foreground_size;
SELECT count(*), sum(v) FROM rb_many;
TRUNCATE rb_many;
SELECT count(*) FROM rb_many;
DROP TABLE rb_many;
