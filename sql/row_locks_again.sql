-- Who changes rows again and again that it has locked reads no more undo for each
-- change, however many it has made: below savepoints, too, and once they are rolled
-- back.
CREATE TABLE again (am text, what text, n int, hits int);
CREATE FUNCTION hits(q text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE p json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) ' || q INTO p;
	RETURN p->0->'Plan'->>'Shared Hit Blocks';
END $$;
-- the pages that are read for a change of rows 6 to 8, when rows of their page have
-- been locked and changed n times
CREATE PROCEDURE again(am text, n int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE la (id int PRIMARY KEY, v int) USING %s', am);
	INSERT INTO la SELECT g, 0 FROM generate_series(1, 20) g;
	COMMIT;
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = off;
	PERFORM 1 FROM la WHERE id = 6 FOR UPDATE;
	FOR i IN 1..n LOOP
		PERFORM 1 FROM la WHERE id = i % 5 + 1 FOR UPDATE;
		UPDATE la SET v = v + 1 WHERE id = i % 5 + 1;
		UPDATE la SET v = v + 1 WHERE id IN (6, 7);
	END LOOP;
	INSERT INTO again VALUES (am, 'lock', n, hits('SELECT 1 FROM la WHERE id = 6 FOR UPDATE'));
	INSERT INTO again VALUES (am, 'locked before', n, hits('UPDATE la SET v = v + 1 WHERE id = 6'));
	BEGIN
		PERFORM 1 FROM la WHERE id = 8 FOR UPDATE;
		FOR i IN 1..50 LOOP
			UPDATE la SET v = v + 1 WHERE id IN (6, 7, 8);
		END LOOP;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
	END;
	INSERT INTO again VALUES (am, 'after a savepoint', n, hits('UPDATE la SET v = v + 1 WHERE id = 6'));
	BEGIN
		PERFORM 1 FROM la WHERE id = 8 FOR UPDATE;
		INSERT INTO again VALUES (am, 'below a savepoint', n, hits('UPDATE la SET v = v + 1 WHERE id IN (6, 8)'));
	EXCEPTION WHEN division_by_zero THEN
	END;
	INSERT INTO again VALUES (am, 'released', n, hits('UPDATE la SET v = v + 1 WHERE id IN (6, 8)'));
	COMMIT;
	DROP TABLE la;
END $$;
CALL again('zheap', 300);
CALL again('zheap', 4000);
SELECT what, b.hits <= a.hits + 12 AS "as many" FROM again a JOIN again b USING (am, what) WHERE a.n = 300 AND b.n = 4000 ORDER BY what COLLATE "C";
DROP PROCEDURE again;
DROP FUNCTION hits;
DROP TABLE again;
