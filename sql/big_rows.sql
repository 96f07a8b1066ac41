-- Rows as big as heap takes them: alone on their page, with one xact slot.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE big (id int PRIMARY KEY, n int, t text) WITH (autovacuum_enabled = off);
ALTER TABLE big ALTER COLUMN t SET STORAGE plain;
INSERT INTO big VALUES (1, 0, repeat('a', 7900)), (2, 0, repeat('b', 8040)),
  (3, 0, repeat('c', 8050)), (4, 0, repeat('d', 8116)), (5, 0, repeat('e', 8122)), (6, 0, 'f');
INSERT INTO big SELECT g, 0, repeat('g', 8000 + g) FROM generate_series(50, 120, 10) g;
SELECT id, n, length(t), md5(t) FROM big ORDER BY id;
-- in place, and so much changed that undo can't take it in one piece
UPDATE big SET n = n + 1;
SELECT count(*), sum(n), sum(length(t)) FROM big;
BEGIN;
UPDATE big SET t = translate(t, 'abcdefg', 'ABCDEFG');
SELECT id, n, length(t), substr(t, 1, 2) AS s FROM big ORDER BY id;
SAVEPOINT s;
UPDATE big SET t = repeat('x', length(t)), n = n + 1 WHERE id > 2;
DELETE FROM big WHERE id = 2;
SELECT id, n, length(t), substr(t, 8000, 2) AS s FROM big ORDER BY id;
ROLLBACK TO s;
SELECT id, n, length(t), substr(t, 8000, 2) AS s FROM big ORDER BY id;
ROLLBACK;
SELECT id, n, length(t), md5(t) FROM big ORDER BY id;
UPDATE big SET t = translate(t, 'abcdefg', 'ABCDEFG') WHERE id % 2 = 0;
-- growing and shrinking
UPDATE big SET t = 'short' WHERE id = 5;
UPDATE big SET t = repeat('E', 8122) WHERE id = 5;
UPDATE big SET t = repeat('F', 8122) WHERE id = 6;
SELECT id, n, length(t), md5(t) FROM big ORDER BY id;
-- locks: no xact slot is left for another locker
BEGIN;
SELECT id FROM big WHERE id = 4 FOR KEY SHARE;
SELECT id FROM big WHERE id = 4 FOR UPDATE;
SAVEPOINT s;
UPDATE big SET n = 7 WHERE id = 4;
ROLLBACK TO s;
SELECT id, n FROM big WHERE id = 4 FOR UPDATE;
COMMIT;
-- the pages of deleted rows are used again
CREATE TABLE again (id int, t text) WITH (autovacuum_enabled = off);
ALTER TABLE again ALTER COLUMN t SET STORAGE plain;
INSERT INTO again SELECT g, repeat('r', 8126) FROM generate_series(1, 10) g;
DELETE FROM again WHERE id < 10;
VACUUM again;
INSERT INTO again SELECT g, repeat('s', 8126) FROM generate_series(1, 9) g;
SELECT pg_relation_size('again') <= 11 * 8192 AS used_again, count(*), sum(length(t)) FROM again;
-- too big is too big
\set VERBOSITY sqlstate
INSERT INTO big VALUES (7, 0, repeat('z', 8140));
UPDATE big SET t = repeat('z', 8140) WHERE id = 1;
\set VERBOSITY default
SELECT count(*), sum(length(t)) FROM big;
-- but not where something of it can go elsewhere: at no length
CREATE FUNCTION big_random(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT left(string_agg(md5(n || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE TABLE main (t text, n text, id int);
ALTER TABLE main ALTER t SET STORAGE main;
CREATE TABLE target (id int, t text, n text) WITH (toast_tuple_target = 8160);
INSERT INTO main SELECT big_random(g), n, g FROM generate_series(8100, 8150) g, (VALUES (NULL), ('n')) v(n);
INSERT INTO main SELECT big_random(g) FROM generate_series(8100, 8150) g;
INSERT INTO target SELECT id, t, n FROM main;
UPDATE main SET t = big_random(length(t) - 1) WHERE n IS NULL;
SELECT count(*), sum(length(t)), count(*) FILTER (WHERE t = big_random(length(t))) FROM main;
SELECT count(*), sum(length(t)), count(*) FILTER (WHERE t = big_random(length(t))) FROM target;
COPY big TO PROGRAM 'cat >/dev/null';
DROP TABLE big, again, main, target;
DROP FUNCTION big_random;
