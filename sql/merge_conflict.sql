-- MERGE, INSERT .. ON CONFLICT, UPDATE .. FROM, DELETE .. USING, RETURNING,
-- with triggers, in savepoints, in inheritance trees, over partitions of both
-- access methods.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE mc (id int PRIMARY KEY, v int, k int, t text DEFAULT 'dflt');
CREATE UNIQUE INDEX mc_k ON mc (k);
INSERT INTO mc SELECT g, 0, g * 10, 't' FROM generate_series(1, 6) g;
CREATE TABLE mc_src (id int, v int);
INSERT INTO mc_src VALUES (1, 100), (2, 200), (3, 300), (7, 700), (8, 800);
CREATE TABLE mc_log (n serial, s text);
CREATE FUNCTION mc_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO mc_log (s) VALUES (concat_ws(' ', TG_TABLE_NAME, TG_WHEN, TG_LEVEL, TG_OP,
		CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'DELETE' THEN NEW::text END));
	RETURN coalesce(NEW, OLD);
END $$;
CREATE FUNCTION mc_logged() RETURNS SETOF text LANGUAGE sql AS 'WITH d AS (DELETE FROM mc_log RETURNING *) SELECT s FROM d ORDER BY n';
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON mc FOR EACH ROW EXECUTE FUNCTION mc_note();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON mc FOR EACH ROW EXECUTE FUNCTION mc_note();
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON mc FOR EACH STATEMENT EXECUTE FUNCTION mc_note();
-- merge
MERGE INTO mc USING mc_src s ON mc.id = s.id
	WHEN MATCHED AND s.v = 100 THEN UPDATE SET v = mc.v + s.v
	WHEN MATCHED AND s.v = 200 THEN UPDATE SET k = mc.k + 1000, v = s.v
	WHEN MATCHED THEN DELETE
	WHEN NOT MATCHED AND s.v = 700 THEN INSERT (id, v, k) VALUES (s.id, s.v, s.id)
	WHEN NOT MATCHED THEN DO NOTHING;
SELECT mc_logged();
SELECT * FROM mc ORDER BY id;
BEGIN;
MERGE INTO mc USING mc_src s ON mc.id = s.id WHEN MATCHED THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, s.id);
SAVEPOINT s;
MERGE INTO mc USING mc_src s ON mc.id = s.id WHEN MATCHED AND mc.v = -1 THEN UPDATE SET t = 'twice' WHEN MATCHED THEN DELETE;
SELECT * FROM mc ORDER BY id;
ROLLBACK TO s;
MERGE INTO mc USING mc_src s ON mc.id = s.id WHEN MATCHED THEN UPDATE SET k = mc.k + 1;
SELECT * FROM mc ORDER BY id;
ROLLBACK;
MERGE INTO mc USING mc_src s ON mc.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 40);
MERGE INTO mc USING (SELECT * FROM mc) s ON mc.id = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN DO NOTHING;
TRUNCATE mc_log;
-- on conflict
INSERT INTO mc VALUES (1, 1, 500), (20, 2, 20), (4, 3, 600) ON CONFLICT (id) DO UPDATE SET v = mc.v + excluded.v, t = 'conflict' RETURNING *;
INSERT INTO mc VALUES (21, 1, 20), (22, 1, 22) ON CONFLICT (k) DO UPDATE SET k = mc.k + 1, v = 5 WHERE mc.v > 0 RETURNING *;
INSERT INTO mc VALUES (23, 1, 22), (24, 1, 24) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO mc VALUES (25, 1, 21) ON CONFLICT (id) DO NOTHING;
SELECT mc_logged();
BEGIN;
INSERT INTO mc VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET v = 1000 RETURNING v;
SAVEPOINT s;
INSERT INTO mc VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET v = mc.v + 1 RETURNING v;
INSERT INTO mc VALUES (30, 1, 30);
ROLLBACK TO s;
INSERT INTO mc VALUES (30, 2, 30) ON CONFLICT (id) DO UPDATE SET v = -30 RETURNING v;
INSERT INTO mc VALUES (30, 2, 30) ON CONFLICT (id) DO UPDATE SET v = -30 RETURNING v;
SAVEPOINT s;
DELETE FROM mc WHERE id = 30;
INSERT INTO mc VALUES (30, 3, 30) ON CONFLICT (id) DO UPDATE SET v = -31 RETURNING v;
RELEASE s;
INSERT INTO mc VALUES (30, 3, 30) ON CONFLICT (id) DO UPDATE SET k = 31, v = mc.v + 1 RETURNING v, k;
COMMIT;
SELECT mc_logged();
WITH i AS (INSERT INTO mc VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET v = 77 RETURNING *), u AS (UPDATE mc SET t = 'u' WHERE id = 2 RETURNING *)
	SELECT i.id, i.v, u.id, u.t FROM i, u;
-- from, using, returning
UPDATE mc SET v = s.v, t = s.v || t FROM mc_src s WHERE s.id = mc.id AND mc.id < 3 RETURNING mc.*, s.v, mc.v - s.v AS zero;
DELETE FROM mc USING mc_src s LEFT JOIN mc_src r ON r.id = s.id + 1 WHERE mc.id = s.id AND r.id IS NULL RETURNING mc.id, s.v, r.v;
UPDATE mc SET (v, t) = (SELECT s.v, 'sub' FROM mc_src s WHERE s.id = mc.id) WHERE id < 3 RETURNING id, v, t;
UPDATE ONLY mc SET v = DEFAULT, t = DEFAULT WHERE id = 4 RETURNING *;
WITH d AS (DELETE FROM mc WHERE id > 20 RETURNING *), i AS (INSERT INTO mc SELECT id + 100, v, k + 10000, t FROM d RETURNING id) SELECT count(*) FROM i;
TRUNCATE mc_log;
SELECT * FROM mc ORDER BY id;
-- inheritance of both access methods
CREATE TABLE mi (id int, v int);
CREATE TABLE mi_h (x text DEFAULT 'x') INHERITS (mi) USING heap;
CREATE TABLE mi_z (y int) INHERITS (mi);
INSERT INTO mi SELECT g, 0 FROM generate_series(1, 3) g;
INSERT INTO mi_h SELECT g, 0 FROM generate_series(4, 6) g;
INSERT INTO mi_z SELECT g, 0 FROM generate_series(7, 9) g;
WITH u AS (UPDATE mi SET v = v + id WHERE id % 2 = 0 RETURNING tableoid::regclass::text AS r, id, v) SELECT * FROM u ORDER BY id;
WITH u AS (UPDATE mi SET v = mi.v + s.v FROM mc_src s WHERE s.id = mi.id RETURNING mi.tableoid::regclass::text AS r, mi.id, mi.v) SELECT * FROM u ORDER BY id;
DELETE FROM mi WHERE id IN (1, 5, 9);
UPDATE ONLY mi SET v = -1;
MERGE INTO mi USING mc_src s ON mi.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;
SELECT tableoid::regclass, * FROM mi ORDER BY id;
ALTER TABLE mi_z NO INHERIT mi;
ALTER TABLE mi ADD COLUMN late int DEFAULT 3;
SELECT tableoid::regclass, * FROM mi ORDER BY id;
-- partitions of both access methods: moved between, copied, attached, detached
CREATE TABLE mp (id int, p int, v text, PRIMARY KEY (id, p)) PARTITION BY RANGE (p);
CREATE TABLE mp_z1 PARTITION OF mp FOR VALUES FROM (0) TO (10);
CREATE TABLE mp_h PARTITION OF mp FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE mp_d PARTITION OF mp DEFAULT PARTITION BY LIST (id);
CREATE TABLE mp_dd PARTITION OF mp_d DEFAULT;
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON mp FOR EACH ROW EXECUTE FUNCTION mc_note();
INSERT INTO mp SELECT g, g * 4, 'v' || g FROM generate_series(1, 7) g;
UPDATE mp SET v = v || '+' WHERE id IN (1, 3, 6);
UPDATE mp SET p = p + 10 WHERE id IN (1, 2, 3) RETURNING tableoid::regclass, *;
UPDATE mp SET p = 1 WHERE id = 7 RETURNING tableoid::regclass, *;
INSERT INTO mp VALUES (7, 1, 'again') ON CONFLICT (id, p) DO UPDATE SET v = 'conflict' RETURNING *;
INSERT INTO mp VALUES (7, 1, 'again') ON CONFLICT (id, p) DO UPDATE SET p = 15;
MERGE INTO mp USING (VALUES (7), (50)) s(id) ON mp.id = s.id WHEN MATCHED THEN UPDATE SET p = 15 WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id, 'm');
BEGIN;
UPDATE mp SET p = 25 WHERE id = 7;
SAVEPOINT s;
UPDATE mp SET p = 5 WHERE id = 7;
ROLLBACK TO s;
UPDATE mp SET v = 'kept' WHERE id = 7;
COMMIT;
SELECT mc_logged();
SELECT tableoid::regclass, * FROM mp ORDER BY id;
ALTER TABLE mp DETACH PARTITION mp_z1;
UPDATE mp_z1 SET v = 'alone';
ALTER TABLE mp ATTACH PARTITION mp_z1 FOR VALUES FROM (0) TO (10);
COPY mp FROM STDIN;
100	3	copied
101	333	copied
\.
SELECT tableoid::regclass, * FROM mp ORDER BY id;
DROP TABLE mp_d;
ALTER TABLE mp DETACH PARTITION mp_h CONCURRENTLY;
ALTER TABLE mp DETACH PARTITION mp_z1 CONCURRENTLY;
UPDATE mp_z1 SET v = 'alone again';
SELECT * FROM mp_z1 ORDER BY id;
DROP TABLE mp_z1;
DROP TABLE mc, mc_src, mc_log, mi, mi_h, mi_z, mp, mp_h;
DROP FUNCTION mc_note, mc_logged;
