-- Large values lie in a zheap table, too: space, identities, and all that
-- walks toast tables.
CREATE FUNCTION tos_random(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
-- access method of a toast table, and its size
CREATE FUNCTION tos_am(t regclass) RETURNS name LANGUAGE sql AS $$
	SELECT a.amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam WHERE c.oid = $1 $$;
CREATE FUNCTION tos_toast(t regclass) RETURNS regclass LANGUAGE sql AS $$
	SELECT reltoastrelid::regclass FROM pg_class WHERE oid = $1 $$;
CREATE FUNCTION tos_pages(t regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT pg_relation_size(tos_toast($1)) / 8192 $$;
CREATE FUNCTION tos_faults(t regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM zheap_check($1)) + (SELECT count(*) FROM zheap_check(tos_toast($1))) $$;
CREATE TABLE tos (id int PRIMARY KEY, n int, t text) USING zheap;
CREATE TABLE tos_h (id int PRIMARY KEY, n int, t text);
ALTER TABLE tos ALTER t SET STORAGE EXTERNAL;
ALTER TABLE tos_h ALTER t SET STORAGE EXTERNAL;
SELECT tos_am('tos'), tos_am('tos_h');
-- one chunk, a chunk and a byte, full pages, many pages; slices; as heap
INSERT INTO tos_h SELECT g, g, tos_random(g::int, l)
	FROM unnest('{1, 1995, 1996, 1997, 1998, 2032, 3992, 3993, 7984, 7985, 15968, 15969, 100000, 1000000}'::int[]) WITH ORDINALITY u(l, g);
INSERT INTO tos SELECT * FROM tos_h;
SELECT z.id, length(z.t), z.t = h.t AS same, pg_column_size(z.t) = pg_column_size(h.t) AS as_long,
	substr(z.t, 1990, 20) = substr(h.t, 1990, 20) AS s1, substr(z.t, 15960, 100) = substr(h.t, 15960, 100) AS s2,
	substr(z.t, length(z.t), 1) = substr(h.t, length(z.t), 1) AS s3, substr(z.t, length(z.t) + 1, 1) = '' AS s4
	FROM tos z JOIN tos_h h USING (id) ORDER BY id;
SELECT tos_pages('tos') <= tos_pages('tos_h') AS as_small;
-- an update of another column leaves the value alone
CREATE FUNCTION tos_ids(t regclass) RETURNS oid[] LANGUAGE plpgsql AS $$
DECLARE r oid[];
BEGIN
	EXECUTE format('SELECT array_agg(DISTINCT chunk_id ORDER BY chunk_id) FROM %s', tos_toast(t)) INTO r;
	RETURN r;
END $$;
CREATE TEMP TABLE tos_before AS SELECT tos_ids('tos') AS ids;
UPDATE tos SET n = n + 1;
SELECT tos_ids('tos') = ids AS untouched FROM tos_before;
-- space of replaced values comes back at once, without VACUUM
CREATE FUNCTION tos_churn(t regclass, rounds int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		EXECUTE format('UPDATE %s SET t = tos_random(id + %s, length(t))', t, i * 100);
	END LOOP;
END $$;
DELETE FROM tos WHERE id > 12;
VACUUM tos;
UPDATE tos_before SET ids = tos_ids('tos');
SELECT tos_churn('tos', 2);
SELECT tos_churn('tos', 1);
SELECT tos_pages('tos') AS pages \gset
SELECT tos_churn('tos', 1);
SELECT tos_churn('tos', 1);
SELECT tos_churn('tos', 1);
SELECT tos_churn('tos', 1);
SELECT tos_pages('tos') <= :pages * 1.5 AS flat, tos_faults('tos');
SELECT count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
-- so does that of values whose insertion was rolled back, or gave way
BEGIN;
INSERT INTO tos SELECT 100 + g, g, tos_random(g, 20000) FROM generate_series(1, 20) g;
ROLLBACK;
SELECT cardinality(tos_ids('tos')) = cardinality(ids) AS gone FROM tos_before;
CREATE UNIQUE INDEX tos_n ON tos (n);
INSERT INTO tos VALUES (200, 5, tos_random(1, 20000)) ON CONFLICT (n) DO UPDATE SET t = excluded.t || 'x';
INSERT INTO tos VALUES (201, 6, tos_random(2, 20000)) ON CONFLICT DO NOTHING;
SELECT id, length(t), right(t, 1) FROM tos WHERE n IN (5, 6) ORDER BY id;
SELECT cardinality(tos_ids('tos')) - cardinality(ids) AS more FROM tos_before;
-- savepoints
BEGIN;
SAVEPOINT a;
UPDATE tos SET t = tos_random(7, 30000) WHERE id > 6;
SAVEPOINT b;
DELETE FROM tos WHERE id > 8;
SELECT count(*), sum(length(t)) FROM tos;
ROLLBACK TO b;
SELECT count(*), sum(length(t)) FROM tos;
ROLLBACK TO a;
COMMIT;
SELECT count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
-- VACUUM with and without the toast table, REINDEX, VACUUM FULL, CLUSTER, TRUNCATE
VACUUM (PROCESS_TOAST false) tos;
VACUUM tos;
REINDEX TABLE tos;
SELECT tos_faults('tos'), count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
VACUUM FULL tos;
SELECT tos_faults('tos'), tos_am('tos'), count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
CLUSTER tos USING tos_pkey;
SELECT tos_faults('tos'), tos_am('tos'), count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
SELECT tos_toast('tos') AS toast \gset
VACUUM FULL :toast;
SELECT tos_faults('tos'), tos_am('tos'), count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
BEGIN;
TRUNCATE tos;
INSERT INTO tos VALUES (1, 1, tos_random(1, 50000));
SELECT count(*), sum(length(t)) FROM tos;
ROLLBACK;
SELECT count(*) FILTER (WHERE t = tos_random(id + 100, length(t))) FROM tos;
-- by another access method and back
CREATE TABLE tos_old (id int PRIMARY KEY, t text) USING zheap;
ALTER TABLE tos_old ALTER t SET STORAGE EXTERNAL;
INSERT INTO tos_old SELECT id, t FROM tos_h WHERE id < 13;
UPDATE tos_old SET t = tos_random(id + 100, length(t)) WHERE id % 2 = 0;
DELETE FROM tos_old WHERE id = 3;
ALTER TABLE tos_old SET ACCESS METHOD heap;
SELECT tos_am('tos_old'), count(*), count(*) FILTER (WHERE t = tos_random(CASE WHEN id % 2 = 0 THEN id + 100 ELSE id END, length(t))) FROM tos_old;
ALTER TABLE tos_old SET ACCESS METHOD zheap;
SELECT tos_am('tos_old'), tos_faults('tos_old'), count(*), count(*) FILTER (WHERE t = tos_random(CASE WHEN id % 2 = 0 THEN id + 100 ELSE id END, length(t))) FROM tos_old;
-- unlogged, temporary; settings of the toast table
CREATE UNLOGGED TABLE tos_u (id int, t text) USING zheap WITH (toast.autovacuum_vacuum_threshold = 7);
INSERT INTO tos_u SELECT g, tos_random(g, 20000) FROM generate_series(1, 3) g;
UPDATE tos_u SET t = tos_random(id, 20001) WHERE id = 2;
SELECT tos_am('tos_u'), tos_faults('tos_u'), count(*) FILTER (WHERE t = tos_random(id, length(t))) FROM tos_u;
SELECT reloptions FROM pg_class WHERE oid = tos_toast('tos_u');
ALTER TABLE tos_u SET LOGGED;
SELECT tos_am('tos_u'), tos_faults('tos_u'), count(*) FILTER (WHERE t = tos_random(id, length(t))) FROM tos_u;
CREATE TEMP TABLE tos_t (id int, t text) USING zheap ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO tos_t SELECT g, tos_random(g, 20000) FROM generate_series(1, 3) g;
SAVEPOINT a;
UPDATE tos_t SET t = tos_random(id, 20001) WHERE id = 2;
DELETE FROM tos_t WHERE id = 3;
ROLLBACK TO a;
UPDATE tos_t SET t = tos_random(id, 20001) WHERE id = 3;
SELECT tos_am('tos_t'), count(*) FILTER (WHERE t = tos_random(id, length(t))) FROM tos_t;
COMMIT;
SELECT count(*) FROM tos_t;
-- values inside of arrays, composites, jsonb; compressed ones
CREATE TYPE tos_pair AS (a int, b text);
CREATE TABLE tos_k (id int PRIMARY KEY, a text[], p tos_pair, j jsonb, x text COMPRESSION pglz) USING zheap;
CREATE TABLE tos_kh (LIKE tos_k INCLUDING ALL);
INSERT INTO tos_kh SELECT g, ARRAY[tos_random(g, 3000), repeat('a', 9000)], ROW(g, tos_random(g, 9000))::tos_pair,
	jsonb_build_object('k', tos_random(g, 9000), 'n', g), repeat(tos_random(g, 4000), 30) FROM generate_series(1, 5) g;
INSERT INTO tos_k SELECT * FROM tos_kh;
UPDATE tos_k SET a = a || 'more'::text, p.b = (p).b || 'more', j = j || '{"n": 0}' WHERE id < 4;
UPDATE tos_kh SET a = a || 'more'::text, p.b = (p).b || 'more', j = j || '{"n": 0}' WHERE id < 4;
SELECT z.id, z.a = h.a, z.p = h.p, z.j = h.j, z.x = h.x, pg_column_compression(z.x),
	pg_column_size(z.a) = pg_column_size(h.a), pg_column_size(z.p) = pg_column_size(h.p),
	pg_column_size(z.j) = pg_column_size(h.j), pg_column_size(z.x) = pg_column_size(h.x) FROM tos_k z JOIN tos_kh h USING (id) ORDER BY id;
SELECT tos_faults('tos_k');
-- dead entries of the index go when their page is full: few pages for many values
CREATE TABLE tos_hot (id int PRIMARY KEY, t text) USING zheap;
ALTER TABLE tos_hot ALTER t SET STORAGE EXTERNAL;
INSERT INTO tos_hot SELECT g, tos_random(g, 6000) FROM generate_series(1, 10) g;
DO $$
BEGIN
	FOR i IN 1..150 LOOP
		UPDATE tos_hot SET t = tos_random(id + i, 6000);
		COMMIT;
	END LOOP;
END $$;
SELECT pg_indexes_size(tos_toast('tos_hot')) / 8192 < 10 AS few, tos_faults('tos_hot');
DROP TABLE tos, tos_h, tos_old, tos_u, tos_k, tos_kh, tos_hot;
DROP TYPE tos_pair;
DROP FUNCTION tos_random, tos_am, tos_toast, tos_pages, tos_faults, tos_ids, tos_churn;
