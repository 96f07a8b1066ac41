-- Updates that move the row: an indexed column changes, or there is no room.
-- The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE mov (id int PRIMARY KEY, k int, t text);
CREATE INDEX mov_k ON mov (k);
CREATE INDEX mov_expr ON mov ((lower(t)));
CREATE INDEX mov_part ON mov (id) WHERE k > 1000000;
INSERT INTO mov SELECT g, g, 'Text ' || g FROM generate_series(1, 300) g;
UPDATE mov SET k = k + 1000 WHERE id <= 100;
SET enable_seqscan = off;
SELECT id FROM mov WHERE k = 50;
SELECT id FROM mov WHERE k = 1050;
UPDATE mov SET t = 'OTHER' WHERE id = 7;
SELECT id, t FROM mov WHERE lower(t) = 'other';
SELECT count(*) FROM mov WHERE lower(t) = 'text 7';
UPDATE mov SET k = 2000000 WHERE id = 8;
SELECT id FROM mov WHERE k > 1000000 AND id = 8;
UPDATE mov SET id = id + 1000 WHERE id <= 10;
SELECT id FROM mov WHERE id BETWEEN 1001 AND 1010 ORDER BY id;
SELECT count(*) FROM mov WHERE id BETWEEN 1 AND 10;
-- there and back again
UPDATE mov SET k = -1 WHERE id = 20;
UPDATE mov SET k = 1020 WHERE id = 20;
SELECT id, k FROM mov WHERE k = 1020;
SELECT id FROM mov WHERE k = -1;
RESET enable_seqscan;
-- rows that outgrow their page
CREATE TABLE grow (id int PRIMARY KEY, n int, t text);
ALTER TABLE grow ALTER t SET STORAGE PLAIN;
INSERT INTO grow SELECT g, 0, 'x' FROM generate_series(1, 400) g;
UPDATE grow SET t = repeat('y', 300);
SELECT count(*), sum(length(t)), count(DISTINCT id) FROM grow;
UPDATE grow SET t = repeat('z', 1500), n = n + 1 WHERE id % 4 = 0;
SELECT count(*), sum(length(t)), sum(n), count(DISTINCT id) FROM grow;
SET enable_seqscan = off;
SELECT id, n, length(t) FROM grow WHERE id IN (3, 4, 400) ORDER BY id;
RESET enable_seqscan;
-- moved, then changed again, then rolled back
BEGIN;
UPDATE grow SET t = repeat('a', 2500) WHERE id <= 20;
UPDATE grow SET n = n + 10 WHERE id <= 20;
DELETE FROM grow WHERE id <= 5;
SELECT count(*), sum(n), sum(length(t)) FROM grow WHERE id <= 20;
ROLLBACK;
SELECT count(*), sum(n), sum(length(t)) FROM grow WHERE id <= 20;
-- a statement doesn't see the rows it moved
BEGIN;
UPDATE grow SET id = id + 10000, n = n + 1;
SELECT count(*), min(id), max(id) FROM grow;
ROLLBACK;
SELECT count(*), min(id), max(id) FROM grow;
-- current of, and by ctid
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM mov WHERE id IN (30, 31) ORDER BY id FOR UPDATE;
FETCH c;
UPDATE mov SET k = -30 WHERE CURRENT OF c;
FETCH c;
DELETE FROM mov WHERE CURRENT OF c;
COMMIT;
SELECT id, k FROM mov WHERE id IN (30, 31);
-- between partitions
CREATE TABLE part (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (100) TO (200);
INSERT INTO part SELECT g, 'p' || g FROM generate_series(1, 50) g;
UPDATE part SET id = id + 100 WHERE id <= 10;
SELECT tableoid::regclass, count(*), min(id), max(id) FROM part GROUP BY 1 ORDER BY 1;
UPDATE part SET id = id - 100 WHERE id > 100 RETURNING tableoid::regclass, id, v;
DROP TABLE mov, grow, part;
