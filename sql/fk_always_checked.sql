-- Silent fault looked for: a foreign key that isn't checked, because a version
-- that lives is taken for a replaced one, or the inserter of the row for the
-- writer of the version; and the reverse, a false violation.
SET default_table_access_method = zheap;
CREATE TABLE fk_p (id int PRIMARY KEY);
CREATE TABLE fk_c (id int PRIMARY KEY, f int REFERENCES fk_p DEFERRABLE INITIALLY DEFERRED, v int);
CREATE TABLE fk_i (id int PRIMARY KEY, f int REFERENCES fk_p, v int);
INSERT INTO fk_p VALUES (1), (2);
INSERT INTO fk_c VALUES (1, 1, 0);
INSERT INTO fk_i VALUES (1, 1, 0);
BEGIN; UPDATE fk_c SET f = 999; UPDATE fk_c SET f = 1; COMMIT;
BEGIN; UPDATE fk_c SET f = 999; UPDATE fk_c SET v = 1; COMMIT;
BEGIN; UPDATE fk_c SET v = 1; UPDATE fk_c SET f = 999; UPDATE fk_c SET v = 2; COMMIT;
BEGIN; UPDATE fk_c SET f = 2; UPDATE fk_c SET f = 999; SAVEPOINT s; UPDATE fk_c SET f = 1; ROLLBACK TO s; COMMIT;
BEGIN; INSERT INTO fk_c VALUES (2, 999, 0); UPDATE fk_c SET v = 1 WHERE id = 2; COMMIT;
BEGIN; INSERT INTO fk_c VALUES (2, 999, 0); UPDATE fk_c SET v = 1 WHERE id = 2; UPDATE fk_c SET f = 2 WHERE id = 2; COMMIT;
BEGIN; INSERT INTO fk_c VALUES (3, 2, 0); SAVEPOINT s; UPDATE fk_c SET f = 999 WHERE id = 3; RELEASE s; UPDATE fk_c SET v = 1 WHERE id = 3; COMMIT;
BEGIN; INSERT INTO fk_i VALUES (2, 1, 0); UPDATE fk_i SET v = 1 WHERE id = 2; UPDATE fk_i SET f = 999 WHERE id = 2; COMMIT;
BEGIN; UPDATE fk_i SET v = 1; UPDATE fk_i SET f = 2, v = 2; UPDATE fk_i SET f = 999; COMMIT;
SELECT * FROM fk_c ORDER BY id;
SELECT * FROM fk_i ORDER BY id;
DROP TABLE fk_c, fk_i, fk_p;
