-- Silent fault looked for: chunks of a value, which go by one record for all on
-- a page, come back wrong, or don't, when that is rolled back or looked past.
-- Each step is done to a heap twin, too: nothing but its name may differ.
SET client_min_messages = warning;
CREATE TABLE tdh (id int PRIMARY KEY, big text, other text) USING heap;
CREATE TABLE tdz (id int PRIMARY KEY, big text, other text) USING zheap;
ALTER TABLE tdh ALTER big SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL;
ALTER TABLE tdz ALTER big SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL;
CREATE FUNCTION val(seed text, n int) RETURNS text LANGUAGE sql AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE FUNCTION twins(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	differing int;
	n int;
BEGIN
	EXECUTE replace(command, 'THE_TABLE', 'tdh');
	EXECUTE replace(command, 'THE_TABLE', 'tdz');
	SELECT count(*) INTO differing FROM ((TABLE tdh EXCEPT ALL TABLE tdz) UNION ALL (TABLE tdz EXCEPT ALL TABLE tdh)) d;
	SELECT count(*) INTO n FROM tdz;
	RETURN n || ' rows, ' || differing || ' differ';
END $$;
CREATE FUNCTION found() RETURNS SETOF text LANGUAGE sql AS $$ SELECT what FROM zheap_check('tdz') UNION ALL
	SELECT c.what FROM pg_class t, LATERAL zheap_check(t.reltoastrelid) c WHERE t.relname = 'tdz' $$;

-- of all lengths: rows of one chunk, of some on a page, of some pages
SELECT twins('INSERT INTO THE_TABLE SELECT g, val(''b'' || g, g * 700), val(''o'' || g, 2100 + g * 13 % 4000) FROM generate_series(1, 40) g');
VACUUM tdh, tdz;

-- visible to all: one record covers all rows of a command on a page
BEGIN;
SELECT twins('UPDATE THE_TABLE SET big = val(''c'' || id, 12000) WHERE id % 3 = 0');
SAVEPOINT a;
SELECT twins('UPDATE THE_TABLE SET other = val(''c'' || id, 9000) WHERE id % 2 = 0');
SELECT twins('DELETE FROM THE_TABLE WHERE id % 5 = 0');
ROLLBACK TO a;
SELECT twins('UPDATE THE_TABLE SET other = other WHERE false');
SELECT twins('DELETE FROM THE_TABLE WHERE id % 7 = 0');
ROLLBACK;
SELECT twins('SELECT FROM THE_TABLE');
SELECT found();

-- what the transaction, and its subtransactions, have just saved
BEGIN;
SELECT twins('INSERT INTO THE_TABLE SELECT g, val(''n'' || g, g * 150), val(''p'' || g, 8000) FROM generate_series(41, 60) g');
SELECT twins('UPDATE THE_TABLE SET big = val(''q'' || id, 9000) WHERE id > 35');
SAVEPOINT b;
SELECT twins('UPDATE THE_TABLE SET big = val(''r'' || id, 5000) WHERE id > 30');
SAVEPOINT c;
SELECT twins('UPDATE THE_TABLE SET big = val(''s'' || id, 15000), other = NULL WHERE id > 30 AND id % 2 = 1');
SELECT twins('DELETE FROM THE_TABLE WHERE id % 4 = 0');
RELEASE c;
SELECT twins('UPDATE THE_TABLE SET other = val(''t'' || id, 7000) WHERE id > 25');
ROLLBACK TO b;
SELECT twins('UPDATE THE_TABLE SET other = val(''u'' || id, 6500) WHERE id > 45');
COMMIT;
SELECT twins('SELECT FROM THE_TABLE');
SELECT found();

-- others' that an older snapshot still needs, committed one after the other, so
-- that one page holds what several transactions have written
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE old CURSOR WITH HOLD FOR SELECT id, z.big = h.big AS big, length(z.other), z.other = h.other AS other FROM tdz z JOIN tdh h USING (id) WHERE id % 10 = 3 ORDER BY id;
SAVEPOINT d;
SELECT twins('UPDATE THE_TABLE SET big = val(''v'' || id, 8100) WHERE id % 10 = 3');
ROLLBACK TO d;
SELECT twins('UPDATE THE_TABLE SET big = val(''w'' || id, 8200) WHERE id % 10 = 4');
COMMIT;
SELECT twins('UPDATE THE_TABLE SET big = val(''x'' || id, 4000) WHERE id % 6 = 1');
SELECT twins('UPDATE THE_TABLE SET big = val(''y'' || id, 4100) WHERE id % 6 IN (1, 2)');
SELECT found();
BEGIN;
SELECT twins('UPDATE THE_TABLE SET big = val(''z'' || id, 4200) WHERE id % 6 IN (1, 2, 3)');
SAVEPOINT e;
SELECT twins('DELETE FROM THE_TABLE WHERE id % 6 IN (0, 1, 2)');
SELECT twins('INSERT INTO THE_TABLE SELECT g, val(''n'' || g, 6100) FROM generate_series(70, 90) g');
ROLLBACK TO e;
SELECT twins('DELETE FROM THE_TABLE WHERE id % 6 = 1');
ROLLBACK;
SELECT twins('SELECT FROM THE_TABLE');
FETCH ALL FROM old;
CLOSE old;
SELECT found();
SELECT twins('DELETE FROM THE_TABLE WHERE id % 2 = 0');
VACUUM tdz;
SELECT twins('UPDATE THE_TABLE SET big = other, other = big');
SELECT found();
DROP TABLE tdh, tdz;
DROP FUNCTION val, twins, found;
