-- Silent fault looked for: a row held by a plan node, a cursor or a variable
-- that changes under it when the same session updates the row in place.
SET default_table_access_method = zheap;
CREATE TABLE sc (id int PRIMARY KEY, v int, t text);
INSERT INTO sc SELECT g, g, repeat('a', 50) FROM generate_series(1, 5) g;
CREATE FUNCTION sc_change(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN UPDATE sc SET v = v + 100, t = repeat('z', 40) WHERE id = i; RETURN i; END $$;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_sort = off; SET enable_memoize = off;
-- the outer row is held while the inner side changes it
SELECT a.id, a.v, left(a.t, 2) AS t, sc_change(a.id) AS c, a.v AS v2, left(a.t, 2) AS t2 FROM sc a ORDER BY a.id;
SELECT a.id, a.v, b.v AS bv, left(a.t, 1) AS t FROM sc a, LATERAL (SELECT sc_change(a.id) AS i, a.v) b ORDER BY a.id;
SELECT a.id, a.v, left(a.t, 1) AS t, (SELECT count(*) FROM generate_series(1, 3) g WHERE sc_change(a.id) > 0) AS n, a.v AS v2 FROM sc a ORDER BY a.id;
SELECT id, v, left(t, 1) AS t FROM sc ORDER BY id;
DO $$
DECLARE r record; w record;
BEGIN
	FOR r IN SELECT * FROM sc ORDER BY id LOOP
		UPDATE sc SET v = 0, t = 'loop' WHERE id = r.id RETURNING * INTO w;
		RAISE NOTICE '% % % > % %', r.id, r.v, left(r.t, 1), w.v, w.t;
	END LOOP;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM sc ORDER BY id FOR UPDATE;
FETCH 1 FROM c;
UPDATE sc SET v = 77, t = 'under the cursor' WHERE CURRENT OF c RETURNING *;
FETCH 1 FROM c;
UPDATE sc SET v = 88 WHERE id = 3;
FETCH 1 FROM c;
COMMIT;
WITH w AS (UPDATE sc SET v = v + 1 RETURNING *) SELECT s.id, s.v, w.v AS new FROM sc s JOIN w USING (id) ORDER BY 1;
WITH w AS (UPDATE sc a SET v = b.v * 2 FROM sc b WHERE a.id = b.id RETURNING a.id, a.v, b.v AS was) SELECT * FROM w ORDER BY id;
DROP TABLE sc;
DROP FUNCTION sc_change;
