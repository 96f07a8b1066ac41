-- CLUSTER in the order of an index in which rows have entries of older keys: each
-- row comes once, at the place of its newest key.
SET zheap.update_indexed_in_place = on;
CREATE TABLE ck (id int PRIMARY KEY, k int, url text, pad text) USING zheap;
CREATE INDEX ck_k ON ck (k, url);
INSERT INTO ck SELECT g, g, (SELECT string_agg(md5(g || $$-$$ || i), '') FROM generate_series(1, CASE WHEN g % 5 = 0 THEN 40 ELSE 1 END) i), repeat($$x$$, 50) FROM generate_series(1, 300) g;
DO $$
BEGIN
	LOOP
		UPDATE ck SET k = k + 1 WHERE id = 40;
		EXIT WHEN 'keys_allowed' = ANY (zheap_page_flags('ck', 0));
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
UPDATE ck SET k = 40 WHERE id = 40;
UPDATE ck SET k = 1000 - id WHERE id % 10 = 3;
UPDATE ck SET k = 2000 + id WHERE id % 10 = 3 AND id < 100;
UPDATE ck SET k = 0 - id WHERE id % 10 = 7;
BEGIN; UPDATE ck SET k = -1000 WHERE id % 10 = 5; ROLLBACK;
BEGIN; UPDATE ck SET k = -2000 WHERE id % 10 = 3; SAVEPOINT s; UPDATE ck SET k = -3000; ROLLBACK TO s; COMMIT;
-- an unchanged part of the key goes out of line
UPDATE ck SET k = 3000 - id WHERE id % 15 = 0;
UPDATE ck SET pad = (SELECT string_agg(md5(id || '+' || i), '') FROM generate_series(1, 30) i) WHERE id % 15 = 0;
SELECT count(*) FROM ck WHERE id % 15 = 0 AND pg_column_size(url) = 1280;
DELETE FROM ck WHERE id IN (3, 7, 113);
SET enable_sort = off; SET enable_seqscan = off;
CLUSTER ck USING ck_k;
RESET enable_seqscan; RESET enable_sort;
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE k < before) AS misplaced FROM (SELECT id, k, lag(k) OVER () AS before FROM ck) s;
SELECT count(*) FROM zheap_check('ck');
DROP TABLE ck;
