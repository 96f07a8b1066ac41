\set ECHO none
-- Read by sql/index_*.sql.  Queries are put into index_q; index_ask() returns for
-- each what a sequential scan answers, and what any other kind of scan answers if
-- that is something else; index_plans() returns those that can't use an index.
CREATE TABLE index_q (n serial, q text);
CREATE FUNCTION index_ask() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; seq text; idx text; o text;
BEGIN
	FOR r IN SELECT n, 'SELECT count(*) || '' '' || coalesce(sum(hashtextextended(r::text, 0) % 1000000), 0) FROM (' || q || ') r' AS q FROM index_q ORDER BY n
	LOOP
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
		SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
		EXECUTE r.q INTO seq;
		o := '';
		SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' bitmap scan: ' || idx; END IF;
		SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' index scan: ' || idx; END IF;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE r.q INTO idx;
		IF idx IS DISTINCT FROM seq THEN o := o || ' index only scan: ' || idx; END IF;
		RETURN NEXT seq || o;
	END LOOP;
END $$;
CREATE FUNCTION index_plans() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r record; l text;
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR r IN SELECT q FROM index_q ORDER BY n
	LOOP
		FOR l IN EXECUTE 'EXPLAIN (COSTS OFF) ' || r.q
		LOOP
			IF l ~ 'Seq Scan' THEN RETURN NEXT 'no index: ' || r.q; END IF;
		END LOOP;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all
