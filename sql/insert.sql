-- Inserting.  The answers are heap's: run this file with heap to see.
SET default_table_access_method = zheap;
CREATE TABLE ins (a int, b text);
INSERT INTO ins VALUES (1, 'one') RETURNING *, ctid IS NOT NULL AS has_ctid;
INSERT INTO ins VALUES (2, 'two'), (3, NULL), (NULL, 'null'), (NULL, NULL);
SELECT * FROM ins ORDER BY a, b;
-- defaults, generated and identity columns
CREATE TABLE ins_gen (id int GENERATED ALWAYS AS IDENTITY, a int DEFAULT 7,
	b int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO ins_gen DEFAULT VALUES RETURNING *;
INSERT INTO ins_gen (a) SELECT g FROM generate_series(1, 3) g RETURNING *;
-- many rows, many pages
INSERT INTO ins SELECT g, 'row ' || g FROM generate_series(10, 10009) g;
SELECT count(*), sum(a), count(DISTINCT b) FROM ins;
-- a command doesn't see its own rows
INSERT INTO ins SELECT a + 100000, b FROM ins WHERE a > 9000;
SELECT count(*), sum(a) FROM ins;
-- nested commands: a function that inserts while its caller inserts
CREATE TABLE ins_nest (n int, seen bigint);
CREATE FUNCTION ins_nested(k int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ins_nest SELECT -k, count(*) FROM ins_nest;
	RETURN k;
END $$;
INSERT INTO ins_nest SELECT ins_nested(g), 0 FROM generate_series(1, 6) g;
SELECT * FROM ins_nest ORDER BY n;
-- cursors: each sees the rows there were when it was opened
BEGIN;
CREATE TABLE ins_cur (a int);
INSERT INTO ins_cur VALUES (1);
DECLARE c1 CURSOR FOR SELECT * FROM ins_cur ORDER BY a;
INSERT INTO ins_cur VALUES (2);
DECLARE c2 CURSOR FOR SELECT * FROM ins_cur ORDER BY a;
INSERT INTO ins_cur VALUES (3);
FETCH ALL FROM c1;
FETCH ALL FROM c2;
SELECT * FROM ins_cur ORDER BY a;
COMMIT;
-- row too big for a page, and none without columns
CREATE TABLE ins_big (a char(4000), b char(4000), c char(4000));
ALTER TABLE ins_big ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN;
\set VERBOSITY sqlstate
INSERT INTO ins_big VALUES ('a', 'b', 'c');
\set VERBOSITY default
INSERT INTO ins_big VALUES ('a', NULL, NULL);
SELECT length(a), b FROM ins_big;
CREATE TABLE ins_none ();
INSERT INTO ins_none DEFAULT VALUES;
INSERT INTO ins_none DEFAULT VALUES;
SELECT count(*) FROM ins_none;
-- tables made from queries
CREATE TABLE ins_ctas AS SELECT a, b FROM ins WHERE a < 20;
SELECT count(*) FROM ins_ctas;
SELECT a, b INTO ins_into FROM ins WHERE a < 15;
SELECT count(*) FROM ins_into;
TRUNCATE ins_ctas;
SELECT count(*) FROM ins_ctas;
BEGIN;
INSERT INTO ins_into SELECT g FROM generate_series(1, 100) g;
TRUNCATE ins_into;
INSERT INTO ins_into VALUES (42, 'after');
ROLLBACK;
SELECT count(*), max(b) FROM ins_into;
DROP TABLE ins, ins_gen, ins_nest, ins_cur, ins_big, ins_none, ins_ctas, ins_into;
DROP FUNCTION ins_nested;
