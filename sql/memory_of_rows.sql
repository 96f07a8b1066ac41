-- The memory of a statement doesn't grow with its rows, where heap's doesn't: what
-- is kept for a row until the statement ends would be kept for each of millions.
SET zheap.update_indexed_in_place = on;
CREATE TABLE looked (am text, i int, bytes bigint);
-- in a column or condition: what the backend has taken when row i is handled
CREATE FUNCTION look(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i IN (1000, 3000) THEN
		INSERT INTO looked SELECT current_setting('look.am'), i, sum(used_bytes) FROM pg_backend_memory_contexts
			WHERE name IN ('ExecutorState', 'PortalContext', 'MessageContext', 'TopTransactionContext', 'CurTransactionContext');
	END IF;
	RETURN i;
END $$;
CREATE FUNCTION changed_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.t := 'y'; RETURN NEW; END $$;
CREATE FUNCTION same_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE FUNCTION same_old() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
-- a statement on both kinds of tables; says nothing, unless a row leaves 20 bytes
-- more than heap's in one of both; trg: a trigger that it fires
CREATE FUNCTION compare(stmt text, trg text DEFAULT NULL, kind text DEFAULT 'UPDATE') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE am text; per_row numeric[] := '{}';
BEGIN
	FOREACH am IN ARRAY ARRAY['heap', 'zheap'] LOOP
		TRUNCATE looked;
		PERFORM set_config('look.am', am, false);
		EXECUTE format('CREATE TABLE m_%s (id int PRIMARY KEY, k int, l int, v int, t text) USING %1$s WITH (fillfactor = 40)', am);
		EXECUTE format('INSERT INTO m_%s SELECT g, g, g, 0, ''x'' FROM generate_series(1, 3000) g', am);
		EXECUTE format('CREATE INDEX ON m_%s (k)', am);
		EXECUTE format('CREATE INDEX ON m_%s (k, l)', am);
		EXECUTE format('CREATE INDEX ON m_%s (l)', am);
		IF trg IS NOT NULL THEN
			EXECUTE format('CREATE TRIGGER b BEFORE %s ON m_%s FOR EACH ROW EXECUTE FUNCTION %s()', kind, am, trg);
		END IF;
		EXECUTE replace(stmt, '@', 'm_' || am);
		per_row := per_row || (SELECT (max(bytes) FILTER (WHERE i = 3000) - max(bytes) FILTER (WHERE i = 1000)) / 2000.0 FROM looked);
		EXECUTE format('DROP TABLE m_%s', am);
	END LOOP;
	IF per_row[1] IS NULL OR per_row[2] IS NULL THEN
		RETURN NEXT 'not looked at: ' || stmt;
	ELSIF per_row[2] > per_row[1] + 20 THEN
		RETURN NEXT format('%s %s: %s bytes a row, heap %s', stmt, trg, per_row[2]::int, per_row[1]::int);
	END IF;
END $$;
SELECT compare('UPDATE @ SET v = look(id)');
SELECT compare('UPDATE @ SET k = look(id) + 1');
SELECT compare('UPDATE @ SET v = look(id)', 'same_new');
SELECT compare('UPDATE @ SET v = look(id)', 'changed_new');
SELECT compare('UPDATE @ SET v = look(id)', 'same_old');
SELECT compare('UPDATE @ SET t = repeat(md5(look(id)::text), 100)');
SELECT compare('UPDATE @ SET t = (SELECT string_agg(md5(i::text), look(id)::text) FROM generate_series(1, 80) i) WHERE id > 990');
SELECT compare('INSERT INTO @ SELECT look(g) + 3000, g, g, 0, ''x'' FROM generate_series(1, 3000) g');
SELECT compare('INSERT INTO @ SELECT look(g) + 3000, g, g, 0, ''x'' FROM generate_series(1, 3000) g', 'same_new', 'INSERT');
SELECT compare('INSERT INTO @ SELECT look(g) + 3000, g, g, 0, ''x'' FROM generate_series(1, 3000) g', 'changed_new', 'INSERT');
SELECT compare('INSERT INTO @ SELECT look(g), g, g, 0, ''x'' FROM generate_series(1, 3000) g ON CONFLICT (id) DO UPDATE SET v = 1');
SELECT compare('INSERT INTO @ SELECT look(g), g, g, 0, ''x'' FROM generate_series(1, 3000) g ON CONFLICT DO NOTHING');
SELECT compare('DELETE FROM @ WHERE look(id) > 0');
SELECT compare('DELETE FROM @ WHERE look(id) > 0', 'same_old', 'DELETE');
SELECT compare('SELECT look(id) FROM (SELECT id FROM @ FOR UPDATE) s');
SELECT compare('SELECT look(id) FROM (SELECT id FROM @ ORDER BY k) s');
DROP FUNCTION compare, changed_new, same_new, same_old, look;
DROP TABLE looked;
-- Pages of temporary tables are noted whatever their number, until the transaction
-- ends: each once, however often and in which order it is changed.
CREATE FUNCTION top_memory() RETURNS bigint LANGUAGE sql AS $$ SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext' $$;
CREATE TEMP TABLE noted (id int PRIMARY KEY, v int, t text) USING zheap;
INSERT INTO noted SELECT g, 0, repeat('x', 800) FROM generate_series(1, 1000) g;
CREATE FUNCTION change(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP UPDATE noted SET v = v + 1 WHERE id = 1 + i * 37 % 1000; END LOOP;
END $$;
SELECT change(1), top_memory() AS before \gset
BEGIN;
SELECT change(20000);
SELECT top_memory() - :before < 100000 AS few;
ROLLBACK;
SELECT sum(v), sum(id * v) FROM noted;
BEGIN;
SELECT change(2000);
SAVEPOINT a;
SELECT change(3000);
SAVEPOINT b;
SELECT change(1000);
RELEASE b;
SELECT change(1000);
ROLLBACK TO a;
SELECT sum(v), sum(id * v) FROM noted;
SAVEPOINT c;
SELECT change(1000);
RELEASE c;
SELECT sum(v), sum(id * v) FROM noted;
SELECT change(1000);
ROLLBACK;
SELECT sum(v), sum(id * v) FROM noted;
-- and what many pages took is given back
CREATE TEMP TABLE wide (id int, t text) USING zheap WITH (fillfactor = 10);
SELECT top_memory() AS before \gset
INSERT INTO wide SELECT g, repeat('x', 800) FROM generate_series(1, 4500) g;
SELECT pg_relation_size('wide') / current_setting('block_size')::int > 4200 AS many, top_memory() - :before < 100000 AS few;
DROP TABLE noted, wide;
DROP FUNCTION change, top_memory;
