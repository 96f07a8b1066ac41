-- Silent fault looked for: large values written as heap tuples into zheap
-- pages, or chunks lost with the old version of a row.
SET default_table_access_method = zheap;
CREATE TABLE ta (id int PRIMARY KEY, v int, big text);
ALTER TABLE ta ALTER big SET STORAGE EXTERNAL;
SELECT a.amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam WHERE c.relname = 'ta';
INSERT INTO ta SELECT g, g, repeat(chr(96 + g), 10000) FROM generate_series(1, 3) g;
UPDATE ta SET v = v + 1;
BEGIN;
DECLARE c CURSOR FOR SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
UPDATE ta SET big = repeat('new', 5000) WHERE id = 1;
UPDATE ta SET big = NULL WHERE id = 2;
DELETE FROM ta WHERE id = 3;
SAVEPOINT s;
UPDATE ta SET big = repeat('undone', 5000);
ROLLBACK TO s;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
FETCH ALL FROM c;
ROLLBACK;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
UPDATE ta SET big = big || 'x' WHERE id = 1;
DELETE FROM ta WHERE id = 2;
VACUUM ta;
SELECT id, v, md5(big), length(big) FROM ta ORDER BY id;
DROP TABLE ta;
