-- What AFTER ROW triggers see: every way of changing a row once or several
-- times in a transaction, in place and moved, crossed with the times at which
-- triggers fire.  The statements of the matrix are made by a query and run by
-- \gexec.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE tm (id int PRIMARY KEY, k int, v int, t text);
CREATE INDEX tm_k ON tm (k);
CREATE TABLE tm_log (n serial, trg text, op text, o text, w text);
CREATE FUNCTION tm_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO tm_log (trg, op, o, w) VALUES (TG_NAME, substr(TG_OP, 1, 3),
		CASE WHEN TG_OP <> 'INSERT' THEN (OLD.id, OLD.k, OLD.v, length(OLD.t))::text END,
		CASE WHEN TG_OP <> 'DELETE' THEN (NEW.id, NEW.k, NEW.v, length(NEW.t))::text END);
	RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON tm
	FOR EACH ROW EXECUTE FUNCTION tm_note();
CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON tm
	FOR EACH ROW EXECUTE FUNCTION tm_note();
CREATE TRIGGER distinct_v AFTER UPDATE ON tm FOR EACH ROW
	WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tm_note();
CREATE TRIGGER of_v AFTER UPDATE OF v ON tm FOR EACH ROW
	WHEN (OLD.v < NEW.v) EXECUTE FUNCTION tm_note();
CREATE CONSTRAINT TRIGGER imm AFTER INSERT OR UPDATE OR DELETE ON tm
	DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW EXECUTE FUNCTION tm_note();
CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE OR DELETE ON tm
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tm_note();
CREATE CONSTRAINT TRIGGER late_distinct AFTER UPDATE ON tm
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (OLD.v IS DISTINCT FROM NEW.v) EXECUTE FUNCTION tm_note();
-- The ways; %s is the column that is changed: v stays in place, k moves the
-- row because of its index, t makes it longer than its page.
CREATE TABLE tm_way (n serial, way text, stmts text[]);
INSERT INTO tm_way (way, stmts) VALUES
	('one update', '{U}'),
	('three updates', '{U,U,U}'),
	('insert, update', '{I,J}'),
	('update, delete', '{U,D}'),
	('insert, update, delete', '{I,J,DJ}'),
	('update, update, delete', '{U,U,D}'),
	('delete, insert', '{D,R}'),
	('delete, insert, update', '{D,R,U}'),
	('update, undone update, update', '{U,SAVEPOINT s,U,ROLLBACK TO s,U}'),
	('undone update, update', '{SAVEPOINT s,U,ROLLBACK TO s,U}'),
	('undone delete, update', '{SAVEPOINT s,D,ROLLBACK TO s,U}'),
	('update, undone delete, delete', '{U,SAVEPOINT s,D,ROLLBACK TO s,D}'),
	('update, released update', '{U,SAVEPOINT s,U,RELEASE s}'),
	('update, nested undone', '{U,SAVEPOINT s,U,SAVEPOINT r,U,ROLLBACK TO r,U,RELEASE s,U}'),
	('update, nested, all undone', '{U,SAVEPOINT s,U,SAVEPOINT r,U,RELEASE r,ROLLBACK TO s}'),
	('undone insert, insert, update', '{SAVEPOINT s,I,ROLLBACK TO s,I,J}'),
	('fired between', '{U,SET CONSTRAINTS ALL IMMEDIATE,U,SET CONSTRAINTS ALL DEFERRED,U}'),
	('deferred', '{SET CONSTRAINTS ALL DEFERRED,U,U}'),
	('deferred, undone', '{SET CONSTRAINTS ALL DEFERRED,U,SAVEPOINT s,U,ROLLBACK TO s,U,SAVEPOINT s,D,ROLLBACK TO s}'),
	('no change', '{N,N}'),
	('locked', '{SELECT FROM tm WHERE id = 1 FOR UPDATE,U,SELECT FROM tm WHERE id = 1 FOR SHARE,U}');
CREATE FUNCTION tm_stmt(s text, col text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE s
		WHEN 'U' THEN format('UPDATE tm SET %1$s WHERE id = 1', c)
		WHEN 'J' THEN format('UPDATE tm SET %1$s WHERE id = 2', c)
		WHEN 'N' THEN 'UPDATE tm SET v = v WHERE id = 1'
		WHEN 'D' THEN 'DELETE FROM tm WHERE id = 1'
		WHEN 'DJ' THEN 'DELETE FROM tm WHERE id = 2'
		WHEN 'I' THEN 'INSERT INTO tm VALUES (2, 20, 200, ''two'')'
		WHEN 'R' THEN 'INSERT INTO tm VALUES (1, 10, 1000, ''again'')'
		ELSE s END
	FROM (SELECT CASE col WHEN 'v' THEN 'v = v + 1' WHEN 'k' THEN 'k = k + 1'
		WHEN 't' THEN 't = t || repeat(''x'', 2500)' END) x(c)
$$;
CREATE FUNCTION tm_matrix(cols text[], ending text[]) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT s FROM tm_way, unnest(cols) WITH ORDINALITY c(c, co),
		LATERAL (SELECT ARRAY['SELECT ' || quote_literal(way || ', ' || c.c),
			'BEGIN', 'TRUNCATE tm, tm_log',
			'INSERT INTO tm SELECT g, 10 * g, 100 * g, repeat(''t'', 1000) FROM generate_series(1, 9, 2) g',
			'COMMIT', 'DELETE FROM tm_log', 'BEGIN'] ||
			ARRAY(SELECT tm_stmt(a.s, CASE c.c WHEN 'mixed' THEN substr('vkvtvkvtv', a.o::int, 1) ELSE c.c END)
				FROM unnest(stmts) WITH ORDINALITY a(s, o) ORDER BY o) || ending ||
			ARRAY['SELECT concat_ws('' '', trg, op, o, ''>'', w) FROM tm_log ORDER BY n',
			'SELECT id, k, v, length(t) FROM tm WHERE id < 3 ORDER BY id']) x(st),
		unnest(st) WITH ORDINALITY y(s, o)
	ORDER BY n, co, o
$$;
\pset format unaligned
\pset tuples_only on
SELECT tm_matrix('{v,k,t,mixed}', '{COMMIT}') \gexec
-- The same by PREPARE TRANSACTION, which fires what is deferred.
DELETE FROM tm_way WHERE way NOT IN ('three updates', 'insert, update, delete',
	'update, nested undone', 'undone delete, update', 'deferred, undone');
SELECT tm_matrix('{v,mixed}', ARRAY['PREPARE TRANSACTION ''tm''', 'COMMIT PREPARED ''tm''']) \gexec
DROP TABLE tm, tm_log, tm_way;
DROP FUNCTION tm_note, tm_stmt, tm_matrix;
