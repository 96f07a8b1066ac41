-- Deleting.  The answers are heap's.
SET default_table_access_method = zheap;
CREATE TABLE del (id int PRIMARY KEY, v text);
INSERT INTO del SELECT g, 'v' || g FROM generate_series(1, 1000) g;
DELETE FROM del WHERE id % 10 = 0 AND id <= 50 RETURNING *;
DELETE FROM del WHERE id > 500;
SELECT count(*), min(id), max(id) FROM del;
DELETE FROM del WHERE id = 5;
DELETE FROM del WHERE id = 5;
-- keys can be used again
INSERT INTO del VALUES (5, 'again'), (10, 'again'), (600, 'again');
SELECT * FROM del WHERE v = 'again' ORDER BY id;
-- delete and insert of one key in one transaction
BEGIN;
DELETE FROM del WHERE id = 5;
INSERT INTO del VALUES (5, 'third');
DELETE FROM del WHERE id = 5;
INSERT INTO del VALUES (5, 'fourth');
SELECT * FROM del WHERE id = 5;
COMMIT;
SELECT * FROM del WHERE id = 5;
-- using another table; all of it; and what cursors still see
CREATE TABLE del_ids AS SELECT g AS id FROM generate_series(1, 100) g;
DELETE FROM del USING del_ids d WHERE del.id = d.id;
SELECT count(*), min(id) FROM del;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM del;
DELETE FROM del;
SELECT count(*) FROM del;
FETCH c;
ROLLBACK;
SELECT count(*) FROM del;
-- row triggers see the deleted row, also at commit
CREATE TABLE del_log (id int, v text);
CREATE FUNCTION del_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO del_log VALUES (OLD.id, OLD.v);
	RETURN OLD;
END $$;
CREATE TRIGGER b BEFORE DELETE ON del FOR EACH ROW EXECUTE FUNCTION del_note();
CREATE CONSTRAINT TRIGGER d AFTER DELETE ON del DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION del_note();
BEGIN;
UPDATE del SET v = 'last words' WHERE id = 200;
DELETE FROM del WHERE id = 200;
SELECT * FROM del_log;
COMMIT;
SELECT * FROM del_log;
-- space of deleted rows is used again: many rounds, one size
CREATE TABLE churn (id int, v text);
INSERT INTO churn SELECT g, repeat('c', 100) FROM generate_series(1, 1000) g;
DELETE FROM churn;
VACUUM churn;
INSERT INTO churn SELECT g, repeat('d', 100) FROM generate_series(1, 1000) g;
SELECT count(*), min(v) = repeat('d', 100) AS new FROM churn;
DROP TABLE del, del_ids, del_log, churn;
DROP FUNCTION del_note;
