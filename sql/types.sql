-- Types, nulls, alignment, columns added and dropped.  The answers are heap's.
SET default_table_access_method = zheap;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
-- nulls in all positions: every subset of nine columns
CREATE TABLE typ_null (a int, b text, c bool, d bigint, e numeric, f "char", g float8, h int2, i varchar(10));
INSERT INTO typ_null SELECT
	CASE WHEN m & 1 > 0 THEN m END, CASE WHEN m & 2 > 0 THEN 'text' || m END, CASE WHEN m & 4 > 0 THEN m % 3 = 0 END,
	CASE WHEN m & 8 > 0 THEN m * 10000000000 END, CASE WHEN m & 16 > 0 THEN m / 8.0 END, CASE WHEN m & 32 > 0 THEN 'c'::"char" END,
	CASE WHEN m & 64 > 0 THEN m * 1.5 END, CASE WHEN m & 128 > 0 THEN m END, CASE WHEN m & 256 > 0 THEN 'v' || m END
	FROM generate_series(0, 511) m;
SELECT count(*), count(a), count(b), count(c), count(d), count(e), count(f), count(g), count(h), count(i) FROM typ_null;
SELECT sum(a), sum(d), sum(e), sum(g), sum(h), max(b), max(i), bool_or(c), max(f::text) FROM typ_null;
SELECT * FROM typ_null ORDER BY a NULLS FIRST, b NULLS FIRST, c NULLS FIRST, d NULLS FIRST, e NULLS FIRST, f NULLS FIRST, g NULLS FIRST, h NULLS FIRST, i NULLS FIRST LIMIT 20;
UPDATE typ_null SET a = -1, i = 'all';
UPDATE typ_null SET e = NULL, b = NULL WHERE h IS NOT NULL;
UPDATE typ_null SET b = coalesce(b, 'was null'), c = coalesce(c, false);
SELECT count(*), count(a), count(b), count(c), count(d), count(e), count(f), count(g), count(h), count(i) FROM typ_null;
SELECT md5(string_agg(typ_null::text, ';' ORDER BY typ_null::text)) FROM typ_null;
BEGIN; UPDATE typ_null SET (a, b, c, d, e, f, g, h, i) = (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT count(*), count(a), count(i) FROM typ_null; ROLLBACK;
SELECT md5(string_agg(typ_null::text, ';' ORDER BY typ_null::text)) FROM typ_null;
-- all common types, each behind one byte so that nothing is aligned
CREATE TYPE typ_enum AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN typ_dom AS int CHECK (VALUE > 0);
CREATE DOMAIN typ_domt AS text NOT NULL;
CREATE TYPE typ_comp AS (x int, y text, z numeric);
CREATE TABLE typ (id int, p1 "char", i2 int2, p2 bool, i4 int4, p3 bool, i8 int8, p4 "char", f4 float4, p5 bool, f8 float8,
	p6 bool, nu numeric, p7 bool, mo money, p8 bool, da date, p9 bool, ti time, pa bool, tz timetz, pb bool, ts timestamp,
	pc bool, tstz timestamptz, pd bool, iv interval, pe bool, uu uuid, pf bool, ine inet, pg bool, ci cidr, ph bool, ma macaddr,
	pi bool, m8 macaddr8, pj bool, po point, pk bool, bo box, pl bool, ls lseg, pm bool, pa2 path, pn bool, pol polygon, pq bool, cir circle,
	pr bool, na name, ps bool, ch char(5), pt bool, vc varchar(20), pu bool, te text, pv bool, by bytea, pw bool, bi bit(5), px bool, vb varbit,
	py bool, js json, pz bool, jb jsonb, q1 bool, r4 int4range, q2 bool, nr numrange, q3 bool, mr int4multirange, q4 bool, tr tstzrange,
	q5 bool, ar int[], q6 bool, at text[], q7 bool, a2 float8[][], q8 bool, en typ_enum, q9 bool, dom typ_dom, qa bool, domt typ_domt,
	qb bool, co typ_comp, qc bool, ac typ_comp[], qd bool, oi oid, qe bool, rc regclass, qf bool, tid tid, qg bool, lsn pg_lsn, qh bool, xi xid8,
	qi bool, tsv tsvector, qj bool, tsq tsquery, qk bool, xm text, ql bool, ov oidvector, qm bool, cid int2vector, qn bool);
INSERT INTO typ VALUES (1, 'a', -2, true, 4, false, 8000000000, 'b', 1.5, true, -2.25, true, 123456789012345678901234567890.123456789, true, 12.34, true,
	'2024-02-29', true, '12:34:56.789', true, '12:34:56+02', true, '2024-02-29 12:34:56.789', true, '2024-02-29 12:34:56.789+02', true,
	'1 year 2 mons 3 days 04:05:06.7', true, '12345678-1234-5678-1234-567812345678', true, '192.168.0.1/24', true, '10.0.0.0/8', true,
	'08:00:2b:01:02:03', true, '08:00:2b:01:02:03:04:05', true, '(1.5,-2)', true, '(3,4),(1,2)', true, '[(0,0),(1,1)]', true, '((0,0),(1,1),(2,0))', true,
	'((0,0),(1,1),(2,0))', true, '<(1,2),3>', true, 'a_name', true, 'abc', true, 'var', true, 'text', true, '\xdeadbeef', true, B'10101', true, B'1', true,
	'{"a": [1, 2]}', true, '{"b": {"c": null}}', true, '[1,10)', true, '(0.5,1.5]', true, '{[1,3),[5,7)}', true, '[2024-01-01,2024-02-01)', true,
	'{1,NULL,3}', true, '{a,"b c",NULL}', true, '{{1,2},{3,4}}', true, 'ok', true, 7, true, 'dom', true, '(1,two,3.0)', true,
	ARRAY[ROW(1, 'a', 1.5)::typ_comp, ROW(NULL, NULL, NULL)::typ_comp], true, 1259, true, 'pg_class', true, '(7,9)', true, '16/B374D848', true, '12345678901', true,
	'a fat cat', true, 'fat & cat', true, 'x', true, '1 2 3', true, '4 5', true);
INSERT INTO typ (id, domt) VALUES (2, 'only');
INSERT INTO typ SELECT 3, t.p1, t.i2, t.p2, t.i4, t.p3, t.i8 FROM typ t WHERE id = 99;
CREATE TABLE typ2 AS SELECT * FROM typ;
UPDATE typ2 SET id = 4 WHERE id = 1;
INSERT INTO typ SELECT * FROM typ2 WHERE id = 4;
\x
SELECT * FROM typ WHERE id = 1;
\x
SELECT id, num_nonnulls(VARIADIC ARRAY[i2::text, nu::text, by::text, tsv::text, cid::text]) FROM typ ORDER BY id;
SELECT count(*) FROM (SELECT to_jsonb(t) - 'id' AS j FROM typ t WHERE id IN (1, 4)) s GROUP BY j;
UPDATE typ SET p1 = NULL, i8 = i8 + 1, nu = nu * 2, ts = ts + iv, po = po + point '(1,1)', ar = ar || 4, co.y = 'deux', jb = jb || '{"n": 1}', uu = NULL WHERE id = 4;
\x
SELECT * FROM typ WHERE id = 4;
\x
-- the same types one by one behind a text of every length, compared with a copy as text
CREATE TABLE typ_mis (pre text, f8 float8, nu numeric, uu uuid, iv interval, po point, bo box, na name, ine inet, ar int8[], r4 int4range, i8 int8, m8 macaddr8, tz timetz);
INSERT INTO typ_mis SELECT repeat('p', g), g / 3.0, g / 7.0, md5(g::text)::uuid, g * interval '1 day 01:02:03', point(g, -g), box(point(g, g), point(0, 0)),
	'name' || g, ('10.0.0.' || g)::inet, ARRAY[g, g * 2], int4range(g, g * 2 + 1), g * 1000000007::bigint, '08:00:2b:01:02:03:04:05', '12:00+01'
	FROM generate_series(0, 40) g;
CREATE TABLE typ_mis_text AS SELECT length(pre) AS l, typ_mis::text AS t FROM typ_mis;
SELECT count(*) FROM typ_mis m JOIN typ_mis_text t ON t.l = length(m.pre) AND t.t = m::text;
UPDATE typ_mis SET pre = pre || 'x';
SELECT count(*) FROM typ_mis m JOIN typ_mis_text t ON t.l = length(m.pre) - 1 AND substr(t.t, position(',' in t.t)) = substr(m::text, position(',' in m::text));
SELECT sum(i8), sum(f8)::numeric(20, 5), sum(nu)::numeric(20, 5), max(iv), max(na), max(ine), min(uu::text), count(DISTINCT bo::text), max(upper(r4)) FROM typ_mis;
SELECT na, po, iv, r4, ar FROM typ_mis WHERE i8 = 7000000049;
SELECT length(pre), na FROM typ_mis ORDER BY uu LIMIT 3;
SELECT a.na FROM typ_mis a JOIN typ_mis b ON a.uu = b.uu AND a.nu = b.nu AND a.iv = b.iv AND a.ine = b.ine ORDER BY a.i8 LIMIT 3;
-- wide tables
DO $$
BEGIN
	EXECUTE 'CREATE TABLE typ_wide (' || (SELECT string_agg('c' || g || CASE g % 3 WHEN 0 THEN ' int' WHEN 1 THEN ' bool' ELSE ' "char"' END, ', ' ORDER BY g) FROM generate_series(1, 1000) g) || ')';
	EXECUTE 'INSERT INTO typ_wide SELECT ' || (SELECT string_agg(CASE g % 3 WHEN 0 THEN g::text WHEN 1 THEN 'true' ELSE '''x''' END, ', ' ORDER BY g) FROM generate_series(1, 1000) g);
	EXECUTE 'INSERT INTO typ_wide SELECT ' || (SELECT string_agg(CASE WHEN g % 6 = 0 THEN g::text WHEN g % 6 = 1 THEN 'false' ELSE 'NULL' END, ', ' ORDER BY g) FROM generate_series(1, 1000) g);
	EXECUTE 'CREATE TABLE typ_1600 (' || (SELECT string_agg('c' || g || ' bool', ', ' ORDER BY g) FROM generate_series(1, 1600) g) || ')';
END $$;
INSERT INTO typ_wide (c1000) VALUES (true);
INSERT INTO typ_wide (c3) VALUES (3);
INSERT INTO typ_1600 (c1, c1600) VALUES (true, false);
INSERT INTO typ_1600 DEFAULT VALUES;
SELECT c1, c2, c3, c500, c501, c999, c1000 FROM typ_wide ORDER BY c1 NULLS LAST, c1000, c3;
UPDATE typ_wide SET c500 = 'n', c999 = 1 - coalesce(c999, 0);
SELECT c1, c2, c3, c500, c501, c999, c1000 FROM typ_wide ORDER BY c1 NULLS LAST, c1000, c3;
SELECT md5(string_agg(w::text, ';' ORDER BY w::text)) FROM typ_wide w;
UPDATE typ_1600 SET c800 = true WHERE c1;
SELECT c1, c2, c800, c1599, c1600 FROM typ_1600 ORDER BY c1;
-- columns added (with and without defaults) and dropped, rows of every age
CREATE TABLE typ_alt (id int, a text);
INSERT INTO typ_alt VALUES (1, 'one'), (2, NULL);
ALTER TABLE typ_alt ADD COLUMN b int DEFAULT 42, ADD COLUMN c text;
INSERT INTO typ_alt VALUES (3, 'three', 3, 'c3'), (4, 'four', NULL, NULL);
UPDATE typ_alt SET a = a || '!' WHERE id IN (1, 3);
ALTER TABLE typ_alt DROP COLUMN a;
SELECT * FROM typ_alt ORDER BY id;
ALTER TABLE typ_alt ADD COLUMN d timestamptz DEFAULT '2024-01-01', ADD COLUMN e numeric NOT NULL DEFAULT 1.5, ADD COLUMN a text DEFAULT 'new a';
INSERT INTO typ_alt (id) VALUES (5);
UPDATE typ_alt SET c = 'changed', e = e + id WHERE id IN (2, 5);
SELECT * FROM typ_alt ORDER BY id;
BEGIN; UPDATE typ_alt SET b = 0, d = NULL, a = NULL; ROLLBACK;
SELECT * FROM typ_alt ORDER BY id;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM typ_alt ORDER BY id;
UPDATE typ_alt SET b = -1;
SELECT id, b, d, a FROM typ_alt ORDER BY id;
FETCH 2 FROM c;
COMMIT;
ALTER TABLE typ_alt ALTER b TYPE text USING 'n' || b, DROP COLUMN d;
SELECT * FROM typ_alt ORDER BY id;
CREATE INDEX typ_alt_a ON typ_alt (a, e);
SET enable_seqscan = off;
SELECT id, a, e FROM typ_alt WHERE a = 'new a' ORDER BY e, id;
RESET enable_seqscan;
ALTER TABLE typ_alt ALTER e DROP NOT NULL, ADD COLUMN f int GENERATED ALWAYS AS (id * 10) STORED;
UPDATE typ_alt SET id = id + 1, e = NULL;
SELECT * FROM typ_alt ORDER BY id;
-- whole rows, and rows of rows
SELECT t, (t).id, row_to_json(t) FROM typ_alt t ORDER BY id LIMIT 2;
CREATE TABLE typ_row (r typ_alt, n typ_null[]);
INSERT INTO typ_row SELECT t FROM typ_alt t;
UPDATE typ_row SET n = ARRAY[ROW(1, 'b', true, 2, 3, 'c', 4, 5, 'i')::typ_null], r.b = 'b of r';
SELECT (r).id, (r).b, n FROM typ_row ORDER BY 1;
