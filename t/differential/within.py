#!/usr/bin/python3
"""Statements that change what they work on, on zheap and on heap.

One session in each of two databases plays the same statements: UPDATE, DELETE,
INSERT .. ON CONFLICT, MERGE, row locks, changing CTEs and cursors whose
expressions, and whose row triggers, call a volatile function that meanwhile
updates, moves, deletes, inserts and locks rows of the same table, also in
subtransactions that fail.  SQLSTATEs, counts, rows, what triggers and the
function were given (told by NOTICEs in their order), all rows after each
statement, and the locks of the session (pg_locks) must be the same, and memory
that a session keeps must be no more than heap's.

usage: within.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--ddl] [--beside] [--am heap] [--verbose]

--beside: many a statement waits for another session, which has changed rows of its
table and then ends; what it meets then is a newer version of these rows.
--ddl: definitions change as well, and tables are truncated, rewritten and indexed
with expressions that call the function; event triggers change rows meanwhile.
--am heap compares heap with heap: that tests the test.
"""
import argparse
import os
import random
import re
import sys
import threading
import time

import psycopg2
from psycopg2 import extensions

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, Difference, become_ordinary, play_history, play_seeds  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
max_stack_depth = 1MB
log_min_error_statement = panic
"""
ROWS = 8
TABLES = ("t", "p")
# an index scan visits the rows of both sides in the same order
PLANNER = """SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
SET enable_mergejoin = off; SET enable_material = off; SET within.depth = '0'; SET statement_timeout = '300s';
SET seq_page_cost = 0; SET random_page_cost = 0; SET plan_cache_mode = force_custom_plan;
SET max_parallel_workers_per_gather = 0"""
# a script is "OP:OFFSET ..."; each is done to the row OFFSET from the one given
SCHEMA = """
CREATE TABLE t (id int PRIMARY KEY, k int, v int, s text %(unique)s, w text) USING %(am)s;
CREATE INDEX ON t (k);
CREATE TABLE p (id int PRIMARY KEY, k int, v int, s text, w text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (5) USING %(am)s;
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (5) TO (MAXVALUE) USING %(am)s;
CREATE TABLE c (id int PRIMARY KEY, tid int REFERENCES t (id)
	ON UPDATE CASCADE ON DELETE %(action)s %(deferr)s) USING %(am)s;
CREATE FUNCTION act(tab text, script text, i int, answer int) RETURNS int LANGUAGE plpgsql AS $f$
DECLARE depth int := current_setting('within.depth')::int; o text; j int; n int; op text;
BEGIN
	IF depth > 1 OR i IS NULL THEN RETURN answer; END IF;
	PERFORM set_config('within.depth', (depth + 1)::text, false);
	FOREACH o IN ARRAY string_to_array(script, ' ') LOOP
		op := split_part(o, ':', 1); j := i + split_part(o, ':', 2)::int; n := -1;
		BEGIN
			CASE rtrim(op, '!?')
			WHEN 'upd' THEN EXECUTE format('UPDATE %%I SET v = v + 100 WHERE id = %%s', tab, j);
			WHEN 'key' THEN EXECUTE format('UPDATE %%I SET k = k + 1 WHERE id = %%s', tab, j);
			WHEN 'mov' THEN EXECUTE format('UPDATE %%I SET id = id + 20 WHERE id = %%s', tab, j);
			WHEN 'wid' THEN EXECUTE format('UPDATE %%I SET s = repeat(''w'', 700) WHERE id = %%s', tab, j);
			WHEN 'out' THEN EXECUTE format('UPDATE %%I SET s = (SELECT string_agg(md5(g::text), '''') FROM generate_series(1, 90) g) WHERE id = %%s', tab, j);
			WHEN 'nar' THEN EXECUTE format('UPDATE %%I SET s = NULL WHERE id = %%s', tab, j);
			WHEN 'del' THEN EXECUTE format('DELETE FROM %%I WHERE id = %%s', tab, j);
			WHEN 'ins' THEN EXECUTE format('INSERT INTO %%I VALUES (%%s, 0, 0)', tab, j);
			WHEN 'ups' THEN EXECUTE format('INSERT INTO %%I VALUES (%%s, 0, 0) ON CONFLICT (id) DO UPDATE SET v = -1', tab, j);
			WHEN 'nop' THEN EXECUTE format('INSERT INTO %%I VALUES (%%s, 0, 0) ON CONFLICT DO NOTHING', tab, j);
			WHEN 'lfu' THEN EXECUTE format('SELECT 1 FROM %%I WHERE id = %%s FOR UPDATE', tab, j);
			WHEN 'lks' THEN EXECUTE format('SELECT 1 FROM %%I WHERE id = %%s FOR KEY SHARE', tab, j);
			WHEN 'lsh' THEN EXECUTE format('SELECT 1 FROM %%I WHERE id = %%s FOR SHARE', tab, j);
			WHEN 'all' THEN
				-- below triggers there were too many versions for servers with assertions
				IF depth = 0 THEN EXECUTE format('UPDATE %%I SET v = v + 1 WHERE id > -1000', tab); END IF;
			WHEN 'chi' THEN EXECUTE format('INSERT INTO c VALUES (%%s, %%s) ON CONFLICT (id) DO UPDATE SET tid = excluded.tid', j, i);
			WHEN 'mer' THEN EXECUTE format('MERGE INTO %%I USING (VALUES (%%s)) x (i) ON id = i WHEN MATCHED THEN UPDATE SET v = v + 7 WHEN NOT MATCHED THEN INSERT VALUES (i, 1, 1)', tab, j);
			WHEN 'see' THEN EXECUTE format('SELECT coalesce(sum(v), -1) FROM %%I WHERE id = %%s', tab, j) INTO n;
			END CASE;
			IF n = -1 THEN GET DIAGNOSTICS n = ROW_COUNT; END IF;
			RAISE NOTICE 'act %% %% %%: %%', depth, o, j, n;
			IF op LIKE '%%!' THEN RAISE EXCEPTION USING ERRCODE = 'WI001'; END IF;
		EXCEPTION WHEN SQLSTATE 'WI001' THEN RAISE NOTICE 'back';
		WHEN unique_violation OR foreign_key_violation OR SQLSTATE '27000' OR SQLSTATE '21000' OR undefined_object OR undefined_table OR SQLSTATE '55000' THEN
			RAISE NOTICE 'act %%: %%', o, SQLSTATE;
			IF op LIKE '%%?' THEN RAISE; END IF;
		END;
	END LOOP;
	PERFORM set_config('within.depth', depth::text, false);
	RETURN answer;
END $f$;
CREATE FUNCTION row_trigger() RETURNS trigger LANGUAGE plpgsql AS $f$
DECLARE i int;
BEGIN
	RAISE NOTICE '%% %% %% %%: %% -> %%', TG_NAME, TG_WHEN, TG_OP, TG_TABLE_NAME,
		CASE WHEN TG_OP <> 'INSERT' THEN md5(OLD::text) || left(OLD::text, 30) END,
		CASE WHEN TG_OP <> 'DELETE' THEN md5(NEW::text) || left(NEW::text, 30) END;
	i := CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END;
	IF i %% TG_ARGV[1]::int = 0 THEN
		PERFORM act(TG_ARGV[0], TG_ARGV[2], i, 0);
		IF TG_WHEN = 'BEFORE' THEN
			IF TG_ARGV[3] = 'null' THEN RETURN NULL; END IF;
			IF TG_ARGV[3] = 'new' AND TG_OP <> 'DELETE' THEN NEW.v := NEW.v + 1000; END IF;
		END IF;
	END IF;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $f$;
"""
EVENTS = """
CREATE TABLE q (id int PRIMARY KEY, k int, v int, s text, w text) USING %(am)s;
CREATE MATERIALIZED VIEW mv USING %(am)s AS SELECT id, v FROM t;
CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $f$
BEGIN
	RAISE NOTICE 'event %% %%', TG_EVENT, TG_TAG;
	-- before a rewrite the catalogs have new types for rows that are still old; heap
	-- then takes such a row for what it isn't, zheap fails with XX001
	IF TG_EVENT = 'table_rewrite' THEN
		IF pg_event_trigger_table_rewrite_oid() <> 't'::regclass THEN RETURN; END IF;
		PERFORM act('p', '%(script)s', %(i)d, 0);
	ELSIF TG_TAG ~ '%(tags)s' THEN
		PERFORM act('t', '%(script)s', %(i)d, 0);
		PERFORM act('p', 'ups:0 upd:1', %(i)d, 0);
	END IF;
END $f$;
CREATE EVENT TRIGGER e1 ON ddl_command_end EXECUTE FUNCTION on_ddl();
CREATE EVENT TRIGGER e2 ON sql_drop EXECUTE FUNCTION on_ddl();
CREATE EVENT TRIGGER e3 ON table_rewrite EXECUTE FUNCTION on_ddl();
"""
DDL = ("CREATE INDEX ix%(n)d ON t (v)", "CREATE INDEX ix%(n)d ON p (k, v)",
	   "DROP INDEX IF EXISTS ix%(o)d", "ALTER TABLE t ADD x%(n)d int DEFAULT 7", "ALTER TABLE t ADD x%(n)d text DEFAULT 'x' || act('p', 'upd:0 see:0', 3, 3)",
	   "ALTER TABLE t DROP IF EXISTS x%(o)d", "ALTER TABLE t ALTER v TYPE bigint", "ALTER TABLE t ALTER v TYPE int",
	   "ALTER TABLE t ALTER v TYPE int USING act('p', '%(s)s', id, v::int)", "ALTER TABLE p ALTER k TYPE bigint",
	   "ALTER TABLE p ALTER k TYPE int", "TRUNCATE c", "TRUNCATE p", "TRUNCATE t, c", "ALTER TABLE t SET (fillfactor = %(f)d)",
	   "ALTER TABLE p1 SET TABLESPACE pg_default", "ALTER TABLE t ADD CONSTRAINT x%(n)d CHECK (act('p', '%(s)s', id, 1) > 0)",
	   "ALTER TABLE t DROP CONSTRAINT IF EXISTS x%(o)d", "REFRESH MATERIALIZED VIEW mv", "CLUSTER t USING t_pkey",
	   "REINDEX TABLE t", "REINDEX TABLE p", "ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (100) TO (200)",
	   "ALTER TABLE p DETACH PARTITION q", "CREATE TABLE n%(n)d USING %(am)s AS SELECT act('t', '%(s)s', id, id) i FROM t WHERE id > 0",
	   "ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED", "ALTER TABLE t ALTER s SET STORAGE EXTERNAL",
	   "ALTER TABLE t ALTER s SET STORAGE MAIN", "ALTER TABLE t ALTER s SET STORAGE EXTENDED", "ALTER TABLE t ALTER s SET COMPRESSION lz4",
	   "ALTER TABLE t SET (toast_tuple_target = %(w)d)", "ALTER TABLE t DISABLE TRIGGER USER", "ALTER TABLE t ENABLE TRIGGER USER")
OPS = ("upd", "upd", "upd", "key", "mov", "wid", "out", "nar", "del", "del", "ins", "ups", "nop",
       "lfu", "lks", "lsh", "all", "chi", "mer", "see")
LOCKS = """SELECT locktype, mode, regexp_replace(relation::regclass::text, '^[0-9]+$', '-') r, count(*) FROM pg_locks
	WHERE pid = %d AND locktype NOT IN ('virtualxid', 'transactionid')
	AND mode <> 'SIReadLock' AND (relation >= 16384 AND relation::regclass::text !~ 'toast') IS NOT false
	GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
# what lives on between statements, but for caches, which depend on catalogs
MEMORY = """SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts
	WHERE name IN ('TopMemoryContext', 'TopTransactionContext', 'CurTransactionContext', 'TopPortalContext',
	'PortalContext', 'ExecutorState', 'MessageContext') OR name ~* 'zheap|undo' AND name <> 'zheap read caches'"""
CONTEXTS = """SELECT name, ident, used_bytes FROM pg_backend_memory_contexts ORDER BY 3 DESC LIMIT 9"""
CHECK = """SELECT t.oid::regclass::text, x::text FROM pg_class t JOIN pg_am a ON a.oid = t.relam,
	LATERAL zheap_check(t.oid) x WHERE a.amname = 'zheap' AND t.relkind = 'r'"""
BTREES = """SELECT bt_index_check(i.indexrelid, true) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
	WHERE x.relkind = 'i' AND x.relnamespace = 'public'::regnamespace"""


FAULTS = []             # of the server's log, of a crash


class HeapFailed(Exception):
    """An assertion of heap_update's in 15 and 16, which a row trips that is locked, and
    whose update a subtransaction rolled back: all was alike so far."""


class Session:
    """A connection to one side."""

    def __init__(self, node, database):
        self.node = node
        self.conn = psycopg2.connect(node.dsn(database))
        self.conn.autocommit = True
        self.cur = self.conn.cursor()
        self.pid = self.conn.get_backend_pid()

    def run(self, sql):
        """What the statement answers: SQLSTATE, constraint, count, rows, notices."""
        self.conn.notices = []
        code = constraint = rows = None
        try:
            self.cur.execute(sql)
            if self.cur.description:
                rows = self.cur.fetchall()
        except psycopg2.Error as e:
            if e.pgcode is None:
                # several sessions may be told of a crash
                FAULTS.extend(self.node.log_faults())
                if any('heapam.c"' in x for x in FAULTS):
                    raise HeapFailed(sql) from e
                raise Difference("%s: %s %s" % (sql, e, FAULTS)) from e
            code, constraint = e.pgcode, e.diag.constraint_name
        told = [x.split("CONTEXT:")[0].strip() for x in self.conn.notices]
        return code, constraint, self.cur.rowcount if code is None else None, rows, told

    def status(self):
        return self.conn.get_transaction_status()

    def run_beside(self, sql, other, end, watch):
        """run(), and when it waits for a lock, or is done, the other session ends."""
        got = []
        thread = threading.Thread(target=lambda: got.append(self.attempt(sql)))
        thread.start()
        try:
            while thread.is_alive() and watch.run(
                    "SELECT 1 FROM pg_locks WHERE pid = %d AND NOT granted AND "
                    "locktype IN ('transactionid', 'tuple')" % self.pid)[2] == 0:
                time.sleep(0.002)
            waited = thread.is_alive()
            other.run(end)
        finally:
            thread.join()
            if isinstance(got[0], Exception):
                raise got[0]
        return got[0], waited

    def attempt(self, sql):
        try:
            return self.run(sql)
        except (Difference, HeapFailed) as e:
            return e


class History:
    """The statements of a seed, on both sides."""

    def __init__(self, node, seed, args):
        self.node, self.args, self.r = node, args, random.Random(seed)
        self.done, self.codes, self.triggers = [], {}, {}
        self.cursors = []
        self.savepoints = self.base = self.skipped = self.waited = 0

    def open(self):
        r = self.r
        admin = Session(self.node, "postgres")
        choice = {"unique": r.choice(["", "", "UNIQUE"]),
                  "action": r.choice(["CASCADE", "SET NULL", "NO ACTION"]),
                  "deferr": r.choice(["", "DEFERRABLE INITIALLY DEFERRED"])}
        keyed = r.random() < 0.5
        # of p alone: the child's key would look into t
        event = {"tags": r.choice(["ALTER|CREATE", "TRUNCATE|DROP|REFRESH|ALTER", "INDEX", "."]), "script": self.script().replace("chi", "upd"),
                 "i": r.randint(1, ROWS)}
        self.sides = []
        for name, am in (("zside", self.args.am), ("hside", "heap")):
            admin.cur.execute("DROP DATABASE IF EXISTS %s WITH (FORCE)" % name)
            admin.cur.execute("CREATE DATABASE %s TEMPLATE pattern" % name)
            if keyed and self.args.am == "zheap":
                admin.cur.execute("ALTER DATABASE %s SET zheap.update_indexed_in_place = on" % name)
            side = Session(self.node, name)
            side.cur.execute(SCHEMA % dict(choice, am=am))
            if self.args.ddl:
                side.cur.execute(EVENTS % dict(event, am=am))
            side.cur.execute(PLANNER)
            for t in TABLES:
                side.cur.execute("INSERT INTO %s SELECT g, g %% 3, g FROM generate_series(1, %d) g" % (t, ROWS))
            side.cur.execute("INSERT INTO c SELECT g, g FROM generate_series(1, %d, 2) g" % ROWS)
            self.sides.append(side)
        self.others = [Session(self.node, name) for name in ("zside", "hside")] if self.args.beside else []
        for other in self.others:
            other.cur.execute(PLANNER + "; SET lock_timeout = '100ms'")
        self.version = self.sides[0].conn.server_version // 10000
        self.watch = admin

    def play(self):
        self.open()
        try:
            for _ in range(self.args.steps):
                self.step(self.statement())
                self.look()
            self.step("ROLLBACK")
            self.look()
        except HeapFailed:
            self.codes["heap failed"] = 1
            for side in self.sides + self.others + [self.watch]:
                side.conn.close()
            time.sleep(0.5)
            self.node.wait_ready().close()
            self.node.log_faults()
            FAULTS.clear()
            return
        for sql in (CHECK, BTREES) if self.args.am == "zheap" else (BTREES,):
            got = self.sides[0].run(sql)
            if got[0] or (sql == CHECK and got[3]):
                raise Difference("%s: %s" % (sql, got))
        faults = self.node.log_faults()
        if faults:
            raise Difference("log: %s" % faults[:5])
        for side in self.sides + self.others + [self.watch]:
            side.conn.close()

    def step(self, sql):
        if self.plans_differ(sql) or self.core_is_wrong(sql):
            self.skipped += 1
            return
        self.done.append(sql)
        if self.args.verbose:
            print(sql, flush=True)
        got = self.beside(sql)
        if got == ():
            return
        got = got or [side.run(sql.replace("@AM@", am)) for side, am in zip(self.sides, (self.args.am, "heap"))]
        self.codes[got[1][0]] = self.codes.get(got[1][0], 0) + 1
        if (got[1][0] or "").startswith("XX"):
            # heap can't: its indexes aren't there yet while a table is rewritten
            self.savepoints, self.cursors = 0, []
            for side in self.sides:
                side.run("ROLLBACK")
            self.node.log_faults()
            return self.step("SET within.depth = '0'")
        if "act('p'" in sql and sql.startswith("ALTER"):
            for x in got:
                x[4].sort()
        # what was done before a row was met that can't be changed: a matter of places
        if got[0] != got[1] and not got[0][0] == got[1][0] == "40001":
            raise Difference("%s\nzheap %s\nheap  %s" % (sql, got[0], got[1]))
        if got[0][0]:
            if self.sides[0].status() == extensions.TRANSACTION_STATUS_INERROR:
                end = "ROLLBACK"
                if self.savepoints and self.r.random() < 0.8:
                    end = "ROLLBACK TO s%d" % self.savepoints
                else:
                    self.savepoints = 0
                self.cursors = []
                self.step(end)
            self.step("SET within.depth = '0'")

    def beside(self, sql):
        """The statement waits for another session's transaction; None: there is none."""
        r = self.r
        if not self.others or r.random() < 0.4 or \
                not sql.startswith(("UPDATE", "DELETE", "MERGE", "WITH", "INSERT", "SELECT", "FETCH")):
            return None
        table = "p" if sql.split(" (")[0].find(" p ") > 0 or "FROM p " in sql else "t"
        ids = [int(x) for x in re.findall(r"(?:BETWEEN|AND|\() ?(\d)\b", sql)] or [r.randint(1, ROWS)]
        changes = ["BEGIN; SET LOCAL within.depth = '5'"]
        if " act(" not in sql:
            # then the lock is met first, which is another (sub)transaction's
            i = r.choice(ids)
            changes += r.choice([[], ["SELECT 1 FROM %s WHERE id = %d FOR UPDATE" % (table, i), "SAVEPOINT a"]])
        for _ in range(r.choice([1, 1, 2])):
            changes.append(r.choice([
                "UPDATE {t} SET v = v + 10 WHERE id = {i}", "UPDATE {t} SET v = v + 10 WHERE id = {i}",
                "UPDATE {t} SET k = k + 1 WHERE id = {i}", "UPDATE {t} SET id = id + 20 WHERE id = {i}",
                "UPDATE {t} SET s = repeat('o', 900) WHERE id = {i}", "DELETE FROM {t} WHERE id = {i}",
                "SELECT 1 FROM {t} WHERE id = {i} FOR SHARE", "SELECT 1 FROM {t} WHERE id = {i} FOR KEY SHARE",
                "UPDATE {t} SET w = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 80) g) WHERE id = {i}",
                "UPDATE c SET tid = NULL WHERE tid = {i}", "DELETE FROM c WHERE tid = {i}",
                "INSERT INTO c SELECT 100 + max(id), {i} FROM c"]).format(
                    t=table, i=i if len(changes) > 2 and r.random() < 0.7 else r.choice(ids)))
        for change in changes:
            self.done.append("other: " + change)
            got = [other.run(change) for other in self.others]
            if got[0][:3] != got[1][:3]:
                raise Difference("%s\nzheap %s\nheap  %s" % (change, *got))
            if got[0][0]:
                break
        end = r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
        self.done.append("other: " + end)
        # the tables have grown
        if self.plans_differ(sql):
            for other in self.others:
                other.run(end)
            self.skipped += 1
            return ()
        both = [side.run_beside(sql, other, end, self.watch) for side, other in zip(self.sides, self.others)]
        # heap waits for lockers of an old version before it fails, zheap does not
        if both[0][1] != both[1][1] and both[0][0][0] != "40001":
            raise Difference("%s\nzheap %s %s\nheap %s %s" % (
                sql, *(y for x in both for y in ("waits" if x[1] else "doesn't wait", x[0]))))
        self.waited += both[0][1]
        return [x[0] for x in both]

    def core_is_wrong(self, sql):
        """16.4's MERGE of rows that others have changed has faults that later minors have
        not: no 40001, and actions are tried on versions in between."""
        return bool(self.others) and "MERGE" in sql and self.sides[0].conn.server_version == 160004

    def plans_differ(self, sql):
        """Other plans come to the rows in another order."""
        if not sql.startswith(("UPDATE", "DELETE", "MERGE", "WITH", "SELECT", "INSERT")) or " CURRENT OF " in sql:
            return False
        plans = [side.run("EXPLAIN (COSTS off) " + sql)[3] for side in self.sides]
        return None not in plans and plans[0] != plans[1]

    def look(self):
        for t in TABLES + ("c",):
            columns = "id, tid" if t == "c" else "id, k, v, s, w"
            sql = "SELECT %s, tableoid::regclass::text FROM %s WHERE id > -1000 ORDER BY %s" % (columns, t, columns)
            rows = [side.run(sql)[3] for side in self.sides]
            if rows[0] != rows[1]:
                raise Difference("%s after %s\nzheap %s\nheap  %s" % (t, self.done[-1], rows[0], rows[1]))
        locks = [side.run(LOCKS % side.pid)[3] for side in self.sides]
        if locks[0] != locks[1]:
            raise Difference("locks after %s\nzheap only %s\nheap only %s" % (
                self.done[-1], set(locks[0]) - set(locks[1]), set(locks[1]) - set(locks[0])))
        memory = [side.run(MEMORY)[3][0][0] for side in self.sides]
        # caches of a fixed size are there by then
        if len(self.done) < 80:
            self.base = max(self.base, memory[0] - memory[1])
        elif memory[0] > memory[1] + self.base + 131072:
            raise Difference("memory after %s: zheap %d, heap %d, at first %d more\n%s" % (
                self.done[-1], *memory, self.base, [side.run(CONTEXTS)[3] for side in self.sides]))

    # ---- statements

    def script(self, most=2):
        r = self.r
        return " ".join("%s%s:%d" % (r.choice(OPS), r.choice(["", "", "", "!", "?"]), r.choice([0, 0, 0, 1, 1, -1, 2]))
                        for _ in range(r.randint(1, most)))

    def act(self, table, i, answer):
        return "act('%s', '%s', %s, %s)" % (table, self.script(), i, answer)

    def some(self, table, i, answer, chance=0.5):
        return self.act(table, i, answer) if self.r.random() < chance else str(answer)

    def values(self):
        """Rows of a source; some keys twice."""
        r = self.r
        return ", ".join("(%d, %d)" % (r.randint(1, ROWS + 2), r.randint(0, 9)) for _ in range(r.randint(1, 4)))

    def returning(self, table, alias, merge=False):
        r = self.r
        if r.random() < 0.5 or (merge and self.version < 17):
            return ""
        text = " RETURNING %s%s.id, %s.v, %s" % ("merge_action(), " if merge else "", alias, alias,
                                                self.some(table, alias + ".id", 3, 0.4))
        if self.version >= 18 and r.random() < 0.5:
            text += ", old.v, new.v, left(old.s, 3), new.k"
        return text

    def sets(self, table, alias):
        r = self.r
        return ", ".join(r.sample([
            "v = %s" % self.some(table, alias + ".id", alias + ".v + 1"),
            "k = %s" % self.some(table, alias + ".id", alias + ".k + 1", 0.3),
            "s = %s" % r.choice(["NULL", "repeat('q', %d)" % r.choice([1, 30, 600, 1900]), "'x' || %s.v" % alias,
                                 "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 100) g)",
                # with w beside it this one goes out of line
                "(SELECT string_agg(md5(%s.id::text || g), '') FROM generate_series(1, 55) g)" % alias]),
            "w = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, %d) g)" % r.choice([3, 30, 40, 90])],
            r.choice([1, 1, 2])) + (["id = %s.id + %d" % (alias, r.choice([20, -20, 3]))] if r.random() < 0.12 else []))

    def where(self, table, alias):
        r = self.r
        a = r.randint(1, ROWS)
        text = "%s.id BETWEEN %d AND %d" % (alias, a, a + r.choice([0, 1, 3, 8]))
        if r.random() < 0.4:
            text += " AND %s > 0" % self.act(table, alias + ".id", 1)
        return text

    def update(self, table):
        if self.r.random() < 0.5:
            return "UPDATE %s SET %s WHERE %s%s" % (table, self.sets(table, table), self.where(table, table),
                                                    self.returning(table, table))
        return "UPDATE %s SET %s FROM (VALUES %s) x (i, n) WHERE %s.id = x.i%s" % (
            table, self.sets(table, table), self.values(), table, self.returning(table, table))

    def delete(self, table):
        if self.r.random() < 0.5:
            return "DELETE FROM %s WHERE %s%s" % (table, self.where(table, table), self.returning(table, table))
        return "DELETE FROM %s USING (VALUES %s) x (i, n) WHERE %s.id = x.i%s" % (
            table, self.values(), table, self.returning(table, table))

    def insert(self, table):
        r = self.r
        return "INSERT INTO %s SELECT %s, 1, x.n FROM (VALUES %s) x (i, n) %s%s" % (
            table, self.some(table, "x.i", "x.i", 0.3), self.values(), r.choice([
                "", "ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO NOTHING",
                "ON CONFLICT (id) DO UPDATE SET %s" % self.sets(table, table),
                "ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE %s > 0" % self.act(table, table + ".id", 1)]),
            self.returning(table, table))

    def merge(self, table):
        r = self.r
        clauses = []
        condition = lambda: "" if r.random() < 0.3 else " AND " + r.choice([
            "m.v < x.n", "m.v > x.n", "m.k = 1", "%s > 0" % self.act(table, "x.i", 1),
            "%s > 0 AND m.v < 50" % self.act(table, "m.id", 1)])
        change = lambda: r.choice(["UPDATE SET %s" % self.sets(table, "m"), "UPDATE SET v = x.n", "DELETE", "DO NOTHING"])
        for _ in range(r.randint(1, 3)):
            clauses.append("WHEN MATCHED%s THEN %s" % (condition(), change()))
        if r.random() < 0.6:
            clauses.append("WHEN NOT MATCHED%s THEN %s" % (
                r.choice(["", " AND x.n > 3"]), r.choice(["INSERT VALUES (x.i, 5, %s)" % self.some(table, "x.i", "x.n"),
                                                          "DO NOTHING"])))
        if self.version >= 17 and r.random() < 0.3:
            clauses.append("WHEN NOT MATCHED BY SOURCE%s THEN %s" % (
                r.choice(["", " AND m.v > 10", " AND %s > 0" % self.act(table, "m.id", 1)]),
                r.choice(["UPDATE SET v = m.v + 1", "UPDATE SET v = %s" % self.act(table, "m.id", "m.v"), "DELETE",
                          "DO NOTHING"])))
        # a clause that no condition limits hides those after it of its kind
        seen, kept = set(), []
        for c in clauses:
            kind = c.split(" THEN ")[0].split(" AND ")[0]
            if kind not in seen:
                kept.append(c)
            if " AND " not in c.split(" THEN ")[0]:
                seen.add(kind)
        on = "m.id = x.i" + (" AND %s > 0" % self.act(table, "m.id", 1) if r.random() < 0.2 else "")
        return "MERGE INTO %s m USING (VALUES %s) x (i, n) ON %s %s%s" % (
            table, self.values(), on, " ".join(kept), self.returning(table, "m", True))

    def changing_ctes(self, table):
        r = self.r
        ctes = []
        for name in "ab"[:r.randint(1, 2)]:
            sql = r.choice([self.update, self.delete, self.insert])(table)
            ctes.append("%s AS (%s)" % (name, sql.split(" RETURNING ")[0] + " RETURNING %s.id i" % table))
        last = r.choice(["SELECT * FROM a", "SELECT id, v FROM %s WHERE id IN (SELECT i FROM a) ORDER BY id" % table,
                         self.update(table), self.delete(table)])
        return "WITH %s %s" % (", ".join(ctes), last)

    def cursor(self, table):
        r = self.r
        if self.sides[0].status() != extensions.TRANSACTION_STATUS_INTRANS:
            return "BEGIN"
        if not self.cursors or r.random() < 0.2:
            name = "c%d" % len(self.done)
            some = self.some(table, "id", 4, 0.3)
            tail = r.choice([" ORDER BY id", "", " FOR UPDATE", " FOR KEY SHARE"])
            self.cursors.append((name, table, tail))
            return "DECLARE %s CURSOR FOR SELECT id, v, %s, left(s, 9) FROM %s WHERE id > 0%s" % (
                name, some, table, tail)
        name, table, _ = r.choice(self.cursors)
        return r.choice(["FETCH 1 FROM %s" % name, "FETCH 2 FROM %s" % name, "FETCH 1 FROM %s" % name,
                         "UPDATE %s SET %s WHERE CURRENT OF %s%s" % (
                             table, self.sets(table, table), name, self.returning(table, table)),
                         "DELETE FROM %s WHERE CURRENT OF %s%s" % (table, name, self.returning(table, table))])

    def trigger(self, table):
        r = self.r
        name = "g%d" % r.randrange(3)
        if self.triggers.get(name):
            return "DROP TRIGGER %s ON %s" % (name, self.triggers.pop(name))
        self.triggers[name] = table
        when = r.choice(["BEFORE", "AFTER"])
        return "CREATE %s TRIGGER %s %s %s ON %s FOR EACH ROW EXECUTE FUNCTION row_trigger('%s', '%d', '%s', '%s')" % (
            "CONSTRAINT" if when == "AFTER" and r.random() < 0.3 else "", name, when,
            r.choice(["UPDATE", "DELETE", "INSERT", "INSERT OR UPDATE OR DELETE", "UPDATE OR DELETE"]), table,
            table, r.choice([1, 2, 3]), self.script(), r.choice(["", "", "new", "null"]))

    def control(self):
        r = self.r
        if self.sides[0].status() == extensions.TRANSACTION_STATUS_IDLE:
            self.savepoints, self.cursors = 0, []
            if r.random() < 0.2:
                return r.choice(["VACUUM t", "VACUUM p", "VACUUM (FREEZE) t"])
            return "BEGIN ISOLATION LEVEL " + r.choice(["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
        x = r.random()
        if x < 0.35:
            self.savepoints += 1
            return "SAVEPOINT s%d" % self.savepoints
        if x < 0.65 and self.savepoints:
            self.cursors = []
            return "ROLLBACK TO s%d" % self.savepoints
        if x < 0.75 and self.savepoints:
            self.savepoints -= 1
            return "RELEASE s%d" % (self.savepoints + 1)
        self.savepoints, self.cursors = 0, []
        if r.random() < 0.4:
            self.triggers = dict(self.kept)
            return "ROLLBACK"
        return "COMMIT"

    def refill(self, table):
        return "INSERT INTO %s SELECT g, g %% 3, g FROM generate_series(1, %d) g ON CONFLICT DO NOTHING" % (table, ROWS)

    def statement(self):
        r = self.r
        if self.sides[0].status() == extensions.TRANSACTION_STATUS_IDLE:
            self.kept = dict(self.triggers)
        table = r.choice(["t", "t", "t", "p"])
        if self.args.ddl and r.random() < 0.3:
            return self.ddl()
        kind = r.choices([self.update, self.delete, self.insert, self.merge, self.changing_ctes, self.cursor,
                          self.trigger, self.refill, self.lock, None], [18, 8, 14, 22, 6, 9, 5, 6, 4, 14])[0]
        return kind(table) if kind else self.control()

    def ddl(self):
        r = self.r
        n = len(self.done)
        # those who scan a table meet the rows of the sides in other orders
        ddl = r.choice([x for x in DDL if not self.triggers or "act(" not in x or "WHERE" in x])
        return ddl % {"n": n, "o": r.randrange(max(1, n)), "s": r.choice(["upd", "wid", "del", "ups", "key"]) + ":0", "am": "@AM@",
                                "f": r.choice([10, 50, 100]), "w": r.choice([128, 1000, 2032, 8000])}

    def lock(self, table):
        return "SELECT id, v, %s FROM %s WHERE %s FOR %s" % (
            self.some(table, "id", 2), table, self.where(table, table), self.r.choice(["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-10")
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--am", default="zheap", help="heap: tests the test itself")
    ap.add_argument("--beside", action="store_true", help="statements wait for another session")
    ap.add_argument("--ddl", action="store_true", help="definitions, too, and event triggers that change rows")
    ap.add_argument("--settings", default="")
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)
    node = Cluster(args.bindir)
    node.init(SETTINGS + args.settings.replace(";", "\n"))
    node.start()
    admin = Session(node, "postgres")
    admin.cur.execute("CREATE DATABASE pattern")
    admin.conn.close()
    pattern = Session(node, "pattern")
    pattern.cur.execute("CREATE EXTENSION zheap_am; CREATE EXTENSION amcheck")
    pattern.conn.close()

    def play(seed):
        history = History(node, seed, args)
        return play_history(history, seed, lambda: "%d statements, %d waited, %d with other plans left out, errors %s" % (len(history.done), history.waited, history.skipped, " ".join(
            "%s:%d" % x for x in sorted(history.codes.items(), key=str) if x[0])), 60)

    try:
        sys.exit(play_seeds(args.seeds, play))
    finally:
        node.drop()


if __name__ == "__main__":
    main()
