-- COPY in and out.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE cp (id int PRIMARY KEY, t text, n numeric, b bool);
COPY cp FROM stdin;
1	one	1.5	t
2	\N	\N	f
3	tab\there	-3	\N
4		0	t
\.
COPY cp (t, id) FROM stdin WITH (FORMAT csv, HEADER, NULL 'none');
t,id
"quoted, with ""quotes""",5
none,6
"two
lines",7
\.
COPY cp FROM stdin WITH (DELIMITER '|', NULL '-');
8|eight|-|-
9|-|9.9|f
\.
SELECT * FROM cp ORDER BY id;
COPY (SELECT * FROM cp ORDER BY id) TO stdout;
COPY (SELECT * FROM cp ORDER BY id) TO stdout WITH (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY cp (id, b) TO stdout WITH (DELIMITER ';', NULL 'nil');
-- errors leave nothing
COPY cp FROM stdin;
20	twenty	20	t
21	bad	number	t
\.
COPY cp FROM stdin;
22	first	1	t
1	duplicate	1	t
\.
COPY cp FROM stdin;
23	too few
\.
SELECT count(*) FROM cp WHERE id > 9;
BEGIN;
COPY cp FROM stdin;
30	thirty	30	t
\.
SAVEPOINT s;
COPY cp FROM stdin;
31	thirty-one	31	t
\.
ROLLBACK TO s;
UPDATE cp SET t = 'changed' WHERE id = 30;
SELECT id, t FROM cp WHERE id >= 30 ORDER BY id;
ROLLBACK;
SELECT count(*) FROM cp WHERE id > 9;
-- with a condition
COPY cp FROM stdin WHERE id > 40;
40	forty	40	t
41	forty-one	41	t
\.
SELECT id FROM cp WHERE id >= 40 ORDER BY id;
-- into the transaction's own table, frozen or not
BEGIN;
CREATE TABLE cp_frz (a int, b text);
COPY cp_frz FROM stdin WITH (FREEZE);
1	frozen
2	\N
\.
SELECT * FROM cp_frz ORDER BY a;
UPDATE cp_frz SET b = 'thawed' WHERE a = 2;
COMMIT;
SELECT * FROM cp_frz ORDER BY a;
COPY cp_frz FROM stdin WITH (FREEZE);
3	refused
\.
BEGIN;
TRUNCATE cp_frz;
COPY cp_frz FROM stdin WITH (FREEZE);
4	after truncate
\.
ROLLBACK;
SELECT * FROM cp_frz ORDER BY a;
BEGIN;
CREATE TABLE cp_own (a int);
COPY cp_own FROM stdin;
1
2
\.
COPY cp_own FROM stdin;
3
\.
DELETE FROM cp_own WHERE a = 2;
COMMIT;
SELECT * FROM cp_own ORDER BY a;
-- triggers, generated columns, defaults
CREATE TABLE cp_trg (id serial, a int, g int GENERATED ALWAYS AS (a * 2) STORED, d text DEFAULT 'dflt');
CREATE TABLE cp_log (seq serial, msg text);
CREATE FUNCTION cp_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.a < 0 THEN RETURN NULL; END IF;
	NEW.a = NEW.a + 1;
	RETURN NEW;
END $$;
CREATE FUNCTION cp_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO cp_log (msg) VALUES ('after ' || NEW.a || ', rows ' || (SELECT count(*) FROM cp_trg));
	RETURN NULL;
END $$;
CREATE FUNCTION cp_stmt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO cp_log (msg) SELECT 'statement ' || count(*) || ' sum ' || sum(g) FROM new_rows;
	RETURN NULL;
END $$;
CREATE TRIGGER b BEFORE INSERT ON cp_trg FOR EACH ROW EXECUTE FUNCTION cp_before();
CREATE TRIGGER a AFTER INSERT ON cp_trg FOR EACH ROW EXECUTE FUNCTION cp_after();
CREATE TRIGGER s AFTER INSERT ON cp_trg REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION cp_stmt();
COPY cp_trg (a) FROM stdin;
1
-5
10
\.
SELECT * FROM cp_trg ORDER BY id;
SELECT msg FROM cp_log ORDER BY seq;
-- partitions of both kinds of table, foreign keys
CREATE TABLE cp_part (id int, t text) PARTITION BY LIST (id);
CREATE TABLE cp_part1 PARTITION OF cp_part FOR VALUES IN (1, 3);
CREATE TABLE cp_part2 PARTITION OF cp_part FOR VALUES IN (2, 4) USING heap;
CREATE TABLE cp_partd PARTITION OF cp_part DEFAULT;
COPY cp_part FROM stdin;
1	a
2	b
3	c
4	d
5	e
1	f
2	g
\.
SELECT tableoid::regclass, id, t FROM cp_part ORDER BY t;
UPDATE cp_part SET id = id + 1;
SELECT tableoid::regclass, id, t FROM cp_part ORDER BY t;
CREATE TABLE cp_fk (p int REFERENCES cp);
COPY cp_fk FROM stdin;
1
2
1
\.
COPY cp_fk FROM stdin;
1
999
\.
SELECT p, count(*) FROM cp_fk GROUP BY p ORDER BY p;
-- many rows: out to a program's file and in again, text, csv and binary
CREATE TABLE cp_many (id int, t text, d date);
INSERT INTO cp_many SELECT g, repeat(chr(65 + g % 26), g % 90), date '2000-01-01' + g FROM generate_series(1, 20000) g;
CREATE TABLE cp_in (LIKE cp_many);
SELECT current_setting('data_directory') || '/zheap_copy' AS f \gset
COPY cp_many TO :'f' WITH (FORMAT binary);
COPY cp_in FROM :'f' WITH (FORMAT binary);
COPY cp_many TO :'f';
COPY cp_in FROM :'f';
COPY cp_many TO :'f' WITH (FORMAT csv);
COPY cp_in FROM :'f' WITH (FORMAT csv);
SELECT count(*), sum(id), sum(length(t)), max(d) FROM cp_many;
SELECT count(*), sum(id), sum(length(t)), max(d) FROM cp_in;
SELECT count(*) FROM (SELECT DISTINCT * FROM cp_in EXCEPT TABLE cp_many) s;
COPY (SELECT 1 WHERE false) TO :'f';
-- rows with large values, and one too wide to join its neighbours
CREATE TABLE cp_big (id int, t text);
INSERT INTO cp_big SELECT g, string_agg(md5(g || '.' || h), '') FROM generate_series(1, 30) g, generate_series(1, 200) h GROUP BY g;
CREATE TABLE cp_big_in (LIKE cp_big);
COPY cp_big TO :'f';
COPY cp_big_in FROM :'f';
SELECT count(*), count(*) FILTER (WHERE a.t = b.t) AS same FROM cp_big a JOIN cp_big_in b USING (id);
COPY (SELECT 1 WHERE false) TO :'f';
