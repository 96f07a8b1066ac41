-- Silent fault looked for: a line pointer used again while an index has an
-- entry for it, so that a search by an old key finds another row.
SET default_table_access_method = zheap;
CREATE TABLE tr (id int, k int, t text) WITH (fillfactor = 100);
CREATE INDEX tr_k ON tr (k);
CREATE INDEX tr_id ON tr (id);
SET enable_seqscan = off; SET enable_bitmapscan = off;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		BEGIN
			INSERT INTO tr SELECT 1000 * i + g, 1000 * i + g, 'aborted' FROM generate_series(1, 40) g;
			RAISE EXCEPTION 'undo it';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
		INSERT INTO tr VALUES (i, i, 'kept');
	END LOOP;
END $$;
BEGIN; INSERT INTO tr SELECT 50000 + g, 50000 + g, 'aborted' FROM generate_series(1, 500) g; ROLLBACK;
BEGIN; UPDATE tr SET k = k + 70000; ROLLBACK;
INSERT INTO tr SELECT 100 + g, 100 + g, 'kept' FROM generate_series(1, 300) g;
SELECT count(*) FROM tr WHERE k > 1000; SELECT count(*) FROM tr WHERE id > 1000;
SELECT count(*) FROM tr WHERE k > 0 AND id <> k;
DELETE FROM tr WHERE id BETWEEN 110 AND 350;
UPDATE tr SET k = -k WHERE id < 20;
INSERT INTO tr SELECT 500 + g, 500 + g, 'later' FROM generate_series(1, 300) g;
SELECT count(*) FROM tr WHERE k BETWEEN 110 AND 350; SELECT count(*) FROM tr WHERE k BETWEEN 1 AND 19;
SELECT count(*), count(DISTINCT id) FROM tr WHERE k > -1000 AND abs(k) = id;
VACUUM tr;
INSERT INTO tr SELECT 900 + g, 900 + g, 'last' FROM generate_series(1, 300) g;
SELECT count(*) FROM tr WHERE k BETWEEN 110 AND 350; SELECT count(*) FROM tr WHERE k BETWEEN 1 AND 19;
SELECT count(*), count(DISTINCT id), sum(id) FROM tr WHERE k > -100000 AND abs(k) = id;
DROP TABLE tr;
