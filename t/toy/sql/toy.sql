-- The undo store with a client that only takes notes.
CREATE EXTENSION undo_toy;

-- waits until a condition holds
CREATE FUNCTION wait_for(condition text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	ok bool;
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXECUTE 'SELECT ' || condition INTO ok;
		IF ok THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN false;
END $$;
-- all logs drained
CREATE VIEW drained AS
	SELECT NOT toy_has_unapplied(0) AND
		(SELECT count(*) = 0 FROM toy_undo_logs()
		 WHERE tail IS NOT NULL AND tail <> head_block) AS ok;

-- the format at its limits; damaged pages
SELECT toy_format_records(), toy_format_runs(), toy_format_damage(200);

-- heap tables give the blocks
CREATE TABLE p (a text) WITH (fillfactor = 10);
CREATE UNLOGGED TABLE un (a text) WITH (fillfactor = 10);
CREATE TEMP TABLE te (a text) WITH (fillfactor = 10);
INSERT INTO p SELECT repeat('x', 700) FROM generate_series(1, 100);
INSERT INTO un SELECT repeat('x', 700) FROM generate_series(1, 10);
INSERT INTO te SELECT repeat('x', 700) FROM generate_series(1, 10);
SELECT pg_relation_size('p') / 8192 AS blocks;

-- write, read back, commit; discarded when nobody can need it any more
BEGIN;
SELECT * FROM toy_write('p', 3, 100, 5) \gset
SELECT toy_read('p', :urp, :writer, 5);
SELECT toy_chain('p', :urp, :writer, 5);
COMMIT;
SELECT wait_for(format('(SELECT h > %s FROM toy_horizons())', :writer));
SELECT toy_read('p', :urp, :writer, 5) IS NULL AS discarded;
SELECT u <= h AS u_not_above_h, u > :writer AS u_passed, oldest_unapplied FROM toy_horizons();

-- many pages, all chained
BEGIN;
SELECT * FROM toy_write('p', 5000, 200, 1) \gset
SELECT toy_chain('p', :urp, :writer, 1);
SELECT * FROM toy_write('un', 1000, 200, 1) \gset
SELECT toy_chain('un', :urp, :writer, 1);
SELECT * FROM toy_write('te', 1000, 200, 1) \gset
SELECT toy_chain('te', :urp, :writer, 1);
COMMIT;
SELECT wait_for('(SELECT ok FROM drained)');

-- the largest record
SELECT urp IS NOT NULL FROM toy_write('p', 3, 8085, 1);
SELECT toy_write('p', 1, 8192, 1);

-- small transactions recycle a small ring
SELECT max(used_blocks) AS before FROM toy_undo_logs() WHERE persistence = 'p' \gset
DO $$
BEGIN
	FOR i IN 1 .. 400 LOOP
		PERFORM toy_write('p', 10, 500, 1);
		COMMIT;
		IF i % 20 = 0 THEN
			PERFORM pg_sleep(0.06);
		END IF;
	END LOOP;
END $$;
SELECT max(used_blocks) <= :before + 100 AS recycled FROM toy_undo_logs() WHERE persistence = 'p';

-- a small rollback is done at once
SELECT toy_forget_asked();
BEGIN;
SELECT count(*) FROM generate_series(1, 5) g, toy_write('p', 2, 10, g);
SELECT count(*) FROM generate_series(1, 2) g, toy_write('un', 2, 10, g);
SELECT count(*) FROM generate_series(1, 2) g, toy_write('te', 2, 10, g);
ROLLBACK;
SELECT reloid::regclass, block, times > 0 AS asked, background FROM toy_asked() ORDER BY 1, 2;
SELECT toy_has_unapplied(0);

-- savepoints: only what was aborted
SELECT toy_forget_asked();
BEGIN;
SELECT writer > 0 FROM toy_write('p', 1, 10, 1);
SAVEPOINT a;
SELECT writer > 0 FROM toy_write('p', 1, 10, 2);
SAVEPOINT b;
SELECT writer > 0 FROM toy_write('p', 1, 10, 3);
ROLLBACK TO b;
SELECT reloid::regclass, block FROM toy_asked() ORDER BY 1, 2;
RELEASE a;
SAVEPOINT c;
SELECT writer > 0 FROM toy_write('p', 1, 10, 4);
RELEASE c;
COMMIT;
SELECT reloid::regclass, block FROM toy_asked() ORDER BY 1, 2;
BEGIN;
SAVEPOINT a;
SELECT writer > 0 FROM toy_write('p', 1, 10, 5);
RELEASE a;
ROLLBACK;
SELECT reloid::regclass, block FROM toy_asked() ORDER BY 1, 2;
SELECT toy_has_unapplied(0);

-- a big one is done in the background
SELECT toy_forget_asked();
BEGIN;
SELECT count(*) FROM generate_series(0, 99) g, toy_write('p', 3, 10, g);
ROLLBACK;
SELECT wait_for('NOT toy_has_unapplied(0)');
SELECT count(*), min(background) > 0 AS background FROM toy_asked();

-- held back: undo stays, and U with it
ALTER SYSTEM SET zheap.rollback_paused = on;
SELECT pg_reload_conf();
-- a session reads its configuration between statements, so not in wait_for
SELECT pg_sleep(1);
SHOW zheap.rollback_paused;
SELECT toy_forget_asked();
BEGIN;
SELECT count(*) FROM generate_series(0, 99) g, toy_write('p', 3, 10, g);
SELECT * FROM toy_write('p', 1, 20, 99) \gset
ROLLBACK;
SELECT writer > 0 FROM toy_write('p', 1, 20, 1);
SELECT wait_for('(SELECT oldest_unapplied > 0 FROM toy_horizons())');
SELECT u <= :writer AS u_held FROM toy_horizons();
SELECT toy_has_unapplied(0), toy_has_unapplied(oid) FROM pg_database WHERE datname = current_database();
SELECT toy_has_unapplied(1);
SELECT toy_read('p', :urp, :writer, 99, true);
SELECT count(*) FROM toy_asked();
-- a table that is dropped meanwhile
CREATE TABLE gone (a text);
INSERT INTO gone SELECT repeat('x', 700) FROM generate_series(1, 1000);
BEGIN;
SELECT count(*) FROM generate_series(0, 79) g, toy_write('gone', 3, 10, g);
ROLLBACK;
DROP TABLE gone;
-- a table that is locked does not hold up others
CREATE TABLE locked (a text);
INSERT INTO locked SELECT repeat('x', 700) FROM generate_series(1, 1000);
BEGIN;
SELECT count(*) FROM generate_series(0, 79) g, toy_write('locked', 3, 10, g);
ROLLBACK;
ALTER SYSTEM RESET zheap.rollback_paused;
BEGIN;
LOCK TABLE locked;
SELECT pg_reload_conf();
SELECT wait_for('(SELECT count(*) >= 100 FROM toy_asked() WHERE reloid = ''p''::regclass)');
SELECT pg_sleep(0.3);
SELECT count(*) FROM toy_asked() WHERE reloid = 'locked'::regclass;
SELECT toy_has_unapplied(0);
COMMIT;
SELECT wait_for('NOT toy_has_unapplied(0)');
SELECT reloid::regclass, count(*) FROM toy_asked() GROUP BY reloid ORDER BY 2;
SELECT wait_for('(SELECT u > ' || :writer || ' FROM toy_horizons())');

-- an error in the foreground rollback is survived
SELECT toy_forget_asked();
SET undo_toy.fail_block = 3;
BEGIN;
SELECT writer > 0 FROM toy_write('p', 1, 10, 2);
SELECT writer > 0 FROM toy_write('p', 1, 10, 3);
SELECT writer > 0 FROM toy_write('p', 1, 10, 4);
ROLLBACK;
SELECT wait_for('NOT toy_has_unapplied(0)');
SELECT block, background > 0 AS background FROM toy_asked() ORDER BY 1;
-- the session can still be cancelled
SET statement_timeout = '100ms';
SELECT pg_sleep(60);
RESET statement_timeout;
-- in subtransactions, again and again
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN
			PERFORM toy_write('p', 1, 10, 3);
			RAISE EXCEPTION 'error %', i;
		EXCEPTION WHEN raise_exception THEN
			IF SQLERRM <> 'error ' || i THEN
				RAISE EXCEPTION 'message lost: %', SQLERRM;
			END IF;
		END;
	END LOOP;
END $$;
-- the error that is being handled is kept, whether the rollback works or not
SELECT toy_outer_error('p', 3);
SELECT toy_outer_error('p', 4);
SET statement_timeout = '100ms';
SELECT pg_sleep(60);
RESET statement_timeout;
SELECT wait_for('NOT toy_has_unapplied(0)');
RESET undo_toy.fail_block;

-- prepared transactions leave their log to others
BEGIN;
SELECT count(*) FROM generate_series(1, 5) g, toy_write('p', 2, 10, g);
PREPARE TRANSACTION 'toy';
SELECT count(*) FROM toy_undo_logs() WHERE state = 'attached';
SELECT toy_has_unapplied(0);
SELECT toy_forget_asked();
ROLLBACK PREPARED 'toy';
SELECT wait_for('NOT toy_has_unapplied(0)');
SELECT block, background > 0 AS background FROM toy_asked() ORDER BY 1;

-- a file created and dropped in the same transaction is left alone
SELECT toy_forget_asked();
BEGIN;
CREATE TABLE brief (a int);
INSERT INTO brief VALUES (1);
SELECT writer > 0 FROM toy_write('brief', 1, 10, 0);
ROLLBACK;
SELECT count(*) FROM toy_asked();
SELECT toy_has_unapplied(0);

-- a big log rests, and is cut down when drained
BEGIN;
SELECT writer > 0 FROM toy_write('p', 20000, 1000, 1);
SELECT max(used_blocks) > 2000 AS big FROM toy_undo_logs();
COMMIT;
SELECT wait_for('(SELECT ok FROM drained)');
SELECT wait_for('(SELECT max(used_blocks) < 600 FROM toy_undo_logs())');
SELECT wait_for('(SELECT count(*) = 0 FROM toy_undo_logs() WHERE state NOT IN (''free'', ''absent''))');
SELECT writer > 0 FROM toy_write('p', 20, 1000, 1);
