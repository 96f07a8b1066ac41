-- Values of bpchar without a length are equal if blanks at their ends differ, though
-- the opclass says that equality is that of bytes.  So nbtree, when it splits a posting
-- list, swaps such a value with another row's: entries that are right though they
-- show other blanks than the row.
CREATE TABLE zb (id int PRIMARY KEY, a int, w bpchar) USING zheap WITH (fillfactor = 50);
CREATE TABLE hb (id int PRIMARY KEY, a int, w bpchar) USING heap WITH (fillfactor = 50);
CREATE INDEX ON zb (w);
CREATE INDEX ON zb (a);
INSERT INTO zb SELECT i, i, 'x' FROM generate_series(1, 3000) i;
INSERT INTO hb SELECT i, i, 'x' FROM generate_series(1, 3000) i;
UPDATE zb SET w = 'x ' WHERE id % 100 = 50;
UPDATE hb SET w = 'x ' WHERE id % 100 = 50;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM zb WHERE w = 'x';
SELECT count(*), sum(id) FROM hb WHERE w = 'x';
-- this alone is what heap's entries show, too
SELECT sum(octet_length(w)) - count(*) AS with_blank FROM zb WHERE w = 'x' AND a > 0;
SELECT * FROM zheap_check('zb');
-- rows whose other keys change in place are found by them
SET zheap.update_indexed_in_place = on;
DO $$ BEGIN
	LOOP
		BEGIN
			UPDATE zb SET a = a + 1 WHERE id = 1;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags('zb', 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
UPDATE zb SET a = -a;
UPDATE hb SET a = -a;
SELECT count(*) > 2900 AS in_place FROM zb WHERE ctid IN (SELECT format('(%s,%s)', b, i.lp)::tid
	FROM generate_series(0, pg_relation_size('zb') / 8192 - 1) b, zheap_page_items('zb', b::int) i WHERE 'stale' = ANY (i.flags));
SELECT count(*), sum(id) FROM zb WHERE w = 'x';
SELECT count(*), sum(id), sum(a) FROM zb WHERE w > '';
SELECT count(*), sum(id), sum(a) FROM hb WHERE w > '';
SELECT * FROM zheap_check('zb');
-- such a column makes its row move
UPDATE zb SET w = 'y' WHERE id = 7;
UPDATE zb SET w = 'x ' WHERE id = 7;
SELECT id, octet_length(w) FROM zb WHERE w = 'x' AND id = 7;
DROP TABLE zb, hb;
