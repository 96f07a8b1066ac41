#!/usr/bin/python3
"""Keys that change in place beside everything that changes indexes, by seed.

Four sessions change rows of their own of two zheap tables (one of them in
partitions) and of their heap twins in the same transactions: keys to and fro by
index scans, by cursors (WHERE CURRENT OF), MERGE, ON CONFLICT, COPY, triggers
that change the key again, cascades of foreign keys over an indexed column,
savepoints, prepared transactions.  A fifth gives the zheap tables indexes of all
kinds and takes them away, alters types and columns, rewrites, moves, vacuums,
switches the setting; a sixth does what waits (CONCURRENTLY).  The server is
killed now and then.  Each read goes by one of the zheap table's indexes and is
compared with the heap twin's rows under the same snapshot: new ones, old ones,
those of a standby, too, which is promoted.  At the end the undo is gone,
zheap_check() finds nothing, and bt_index_check nothing in any index.

usage: keyed_ddl.py --bindir DIR [--seeds FIRST-LAST] [--steps N]
                    [--settings "a = b; .."] [--keep] [--verbose]
Starts a throw-away cluster for each seed (as an ordinary user when run by root).
Exits non-zero if a seed failed.
"""
import argparse
import io
import os
import random
import shutil
import sys
import threading
import time

import psycopg2
from psycopg2 import extensions

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, Difference, become_ordinary, play_history, play_seeds  # noqa: E402

IDLE = extensions.TRANSACTION_STATUS_IDLE
INERROR = extensions.TRANSACTION_STATUS_INERROR
WRITERS = 4
ROWS = 120
# answers that another session's work may cause, on either side
MAY_FAIL = {"55P03", "40P01", "40001", "57014"}

SETTINGS = """
fsync = off
autovacuum = off
shared_buffers = 16MB
max_connections = 40
allow_in_place_tablespaces = on
zheap.discard_naptime = 20
zheap.update_indexed_in_place = on
log_min_messages = warning
log_min_error_statement = panic
"""

PARALLEL = """
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
"""
STANDBY = """
hot_standby = on
max_standby_streaming_delay = 300ms
"""

SCHEMA = """
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.a % 13 = 5 THEN NEW.b := NEW.b + 1; NEW.s := 'before'; END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() < 2 AND NEW.a % 11 = 3 THEN
		EXECUTE format('UPDATE %I SET a = a + 1 WHERE id = $1', TG_TABLE_NAME) USING NEW.id;
	END IF;
	EXECUTE format('INSERT INTO %I VALUES ($1)', 'log_' || right(TG_TABLE_NAME, 1))
		USING TG_OP || ' ' || coalesce(OLD.id || ':' || OLD.a || ':' || OLD.b, '') || ' -> '
			|| NEW.id || ':' || NEW.a || ':' || NEW.b;
	RETURN NULL;
END $$;
CREATE TABLE log_z (t text) USING zheap;
CREATE TABLE log_h (t text);
"""
# @ is z or h
TABLES = """
CREATE TABLE t@ (id int PRIMARY KEY, a int, b int, c int, s text, u int, d int DEFAULT 0,
	g int GENERATED ALWAYS AS (a * 2) STORED, ar int[], w bpchar, f char(4)) USING $AM;
CREATE TABLE p@ (id int, r int, a int, b int, s text, PRIMARY KEY (id, r))
	PARTITION BY RANGE (r);
CREATE TABLE p0@ PARTITION OF p@ FOR VALUES FROM (0) TO (2) USING $AM;
CREATE TABLE p1@ PARTITION OF p@ FOR VALUES FROM (2) TO (4) USING $AM;
CREATE TABLE k@ (k int PRIMARY KEY DEFERRABLE, n int) USING $AM;
CREATE TABLE k2@ (k int PRIMARY KEY, n int) USING $AM;
CREATE TABLE f@ (id int PRIMARY KEY, k int REFERENCES k2@ ON UPDATE CASCADE
	ON DELETE SET NULL DEFERRABLE, a int) USING $AM;
INSERT INTO t@ (id, a, b, c, s, u, ar, w, f)
	SELECT g, g % 9, g, -g, 's' || g % 5, g, ARRAY[g % 4, g % 7], 'w' || g % 3, 'f'
	FROM generate_series(1, %d) g;
INSERT INTO p@ SELECT g, g % 4, g % 9, g, 'p' FROM generate_series(1, %d) g;
INSERT INTO k2@ SELECT g, 0 FROM generate_series(0, 1000) g WHERE g < 40;
INSERT INTO f@ SELECT g, g % 40, g FROM generate_series(1, %d) g;
"""

# indexes of the zheap tables: (table, definition).  With posting lists amcheck would
# complain of w, of which nbtree believes that equal values are the same, on heap, too
# (sql/index_blanks)
KINDS = [
    "(a)", "(a)", "(b)", "(a, b)", "(b DESC, a)", "(s)", "(c, a)", "(g)", "(a, id)",
    "(d)", "(w) WITH (deduplicate_items = off)", "(f, a)", "(s, a) WITH (deduplicate_items = off)", "(a) WITH (fillfactor = 50)",
    "USING hash (a)", "USING brin (b)", "USING brin (a) WITH (pages_per_range = 1)",
    "USING gin (ar)", "((a + b))", "(b) WHERE a > 3", "(c) INCLUDE (b)", "(a) INCLUDE (d)"]


# core's, about what a cancelled REINDEX CONCURRENTLY left
Cluster.known = ("cannot reindex invalid index",)


class Fuzz:
    def __init__(self, args, seed):
        self.args, self.seed = args, seed
        self.r = random.Random(seed)
        self.node = Cluster(args.bindir)
        self.root = self.node.root
        knobs = self.r.choice(["", "", "zheap.debug_set = 'shared-slot=3'",
                               "zheap.debug_seed = %d" % seed])
        if self.r.random() < 0.4:
            knobs += PARALLEL
        self.node.init(SETTINGS + args.settings.replace(";", "\n") + "\n" + knobs)
        self.triggers = self.r.random() < 0.5
        self.standby = None
        self.conns, self.names = {}, 0
        self.done = []
        self.prepared = {}		# gid -> session
        self.waits = None		# thread of what runs concurrently
        self.trouble = []
        self.stale = self.compared = 0

    def start_standby(self):
        """Its readers ask as the others do; what it has not replayed doesn't
        matter, because a transaction changes both tables."""
        self.standby = Cluster(self.node.bindir, "standby", root=self.node.root, port=5433)
        self.node.tool("pg_basebackup", "-D", self.standby.data, "-h", self.node.socket,
                       "-p", str(self.node.port), "-U", Cluster.user, "-c", "fast", "-R", "-N")
        self.standby.configure("postgresql.conf", "\nport = 5433\n" + STANDBY +
                               "hot_standby_feedback = %s\n" % self.r.choice(["on", "off"]))
        self.standby.start()

    # ---- talk

    def open(self, node):
        """Recovery may break off who is about to connect, too."""
        for _ in range(20):
            try:
                return psycopg2.connect(node.dsn())
            except psycopg2.OperationalError as e:
                if node != self.standby or "conflict with recovery" not in str(e):
                    raise
        raise Difference("no connection to the standby")

    def connect(self, name):
        conn = self.conns.get(name)
        if conn is None or conn.closed:
            conn = self.open(self.standby if name[0] == "s" else self.node)
            conn.autocommit = True
            self.conns[name] = conn
            cur = conn.cursor()
            cur.execute("SET lock_timeout = '60ms'; SET client_min_messages = error; "
                        "SET deadlock_timeout = '30ms'")
        return conn

    def say(self, name, sql):
        self.done.append("%s: %s" % (name, sql))
        if self.args.verbose:
            print(self.done[-1], flush=True)

    def run(self, name, sql, may=()):
        """(SQLSTATE or None, rows or None, count)"""
        self.say(name, sql)
        cur = self.connect(name).cursor()
        try:
            cur.execute(sql)
            return None, cur.fetchall() if cur.description else None, cur.rowcount
        except psycopg2.Error as e:
            code = e.pgcode or "lost"
            if name[0] == "s" and (code in ("lost", "57P01") or self.connect(name).closed):
                return "40001", str(e), 0
            if code in ("lost", "XX000", "XX001", "XX002") and code not in may:
                raise Difference("%s: %s: %s" % (name, sql, e))
            return code, str(e), 0

    def status(self, name):
        return self.connect(name).info.transaction_status

    # ---- both tables

    def both(self, name, sql):
        """In one transaction, whose savepoint it undoes if it fails."""
        alone = self.status(name) == IDLE
        self.run(name, "BEGIN" if alone else "SAVEPOINT both")
        got = []
        for side in "zh":
            code, rows, count = self.run(name, sql.replace("@", side))
            got.append((code, sorted(rows) if rows and not code else None, count))
            if code:
                self.run(name, "ROLLBACK TO both" if not alone else "ROLLBACK; BEGIN")
        if got[0] != got[1] and not (MAY_FAIL & {got[0][0], got[1][0]}):
            raise Difference("%s: %s\n  z: %s\n  h: %s" % (name, sql, got[0], got[1]))
        if got[0][0] or got[1][0]:
            self.run(name, "ROLLBACK" if alone else "ROLLBACK TO both")
        elif alone:
            self.run(name, "COMMIT" if self.r.random() < 0.85 else "ROLLBACK")
        else:
            self.run(name, "RELEASE both")
        return got[0]

    # ---- writers

    def mine(self, name):
        return "id %% %d = %d" % (WRITERS, int(name[1:]))

    def own_id(self, name):
        return self.r.randrange(ROWS // WRITERS) * WRITERS + int(name[1:]) or WRITERS

    def sets(self, table):
        r = self.r
        key = r.randrange(9)
        out = ["a = %d" % key, "a = a + 1", "a = 8 - a", "b = -b", "b = b + 1000",
               "a = %d, b = b + 1" % key, "s = 's%d'" % r.randrange(5), "a = a, b = b",
               "s = repeat('x', %d)" % r.choice([5, 60, 500, 2500])]
        if table == "t":
            out += ["c = c + 1", "d = %d" % r.randrange(4), "ar = ARRAY[%d]" % key,
                    "c = -c, a = a - 1", "f = 'f%d'" % (key % 3),
                    "w = repeat('w', %d) || repeat(' ', %d)" % (key % 3, r.randrange(3)), "d = 1 - d, s = 'd'", "u = u"]
        else:
            out += ["r = (r + 1) % 4", "r = %d, a = a + 1" % r.randrange(4)]
        return r.choice(out)

    def where(self, name):
        r = self.r
        a = r.randrange(9)
        return "%s AND %s" % (self.mine(name), r.choice([
            "id = %d" % self.own_id(name), "id = %d" % self.own_id(name),
            "a = %d" % a, "a BETWEEN %d AND %d" % (a, a + 2), "a > %d AND b > %d" % (a, r.randrange(ROWS)),
            "b < %d" % r.randrange(-60, 60), "a IN (%d, %d)" % (a, a + 1),
            "s = 's%d' OR a = %d" % (r.randrange(5), a), "id < %d" % r.randrange(30)]))

    def plan(self, name):
        seq, index, only, bitmap = self.r.choice([
            ("off", "on", "on", "off"), ("off", "on", "off", "off"), ("off", "off", "off", "on"),
            ("on", "off", "off", "off"), ("off", "on", "on", "on")])
        self.run(name, "SET enable_seqscan = %s; SET enable_indexscan = %s; SET enable_indexonlyscan = %s; "
                 "SET enable_bitmapscan = %s" % (seq, index, only, bitmap))

    def write(self, name):
        r = self.r
        if self.status(name) == INERROR:
            return self.end(name)
        table = r.choice("ttp")
        x = r.random()
        if x < 0.05:
            self.plan(name)
        elif x < 0.10 and self.status(name) == IDLE:
            level = r.choice(["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"])
            self.run(name, "BEGIN ISOLATION LEVEL " + level)
        elif x < 0.12:
            self.run(name, "SET zheap.update_indexed_in_place = " + r.choice(["on", "on", "off"]))
        elif x < 0.30 and self.status(name) != IDLE:
            return self.end(name) if r.random() < 0.4 else self.save(name)
        elif x < 0.36:
            i = self.own_id(name)
            self.both(name, "DELETE FROM %s@ WHERE %s AND id = %d RETURNING id, a, b" % (
                table, self.mine(name), i))
        elif x < 0.46:
            self.insert(name, table)
        elif x < 0.53:
            self.cursor(name)
        elif x < 0.60:
            self.cascade(name)
        else:
            self.both(name, "UPDATE %s@ SET %s WHERE %s%s" % (
                table, self.sets(table), self.where(name), r.choice([
                    "", " RETURNING id, a, b, s"])))
        return None

    def insert(self, name, table):
        r = self.r
        i = self.own_id(name)
        k = r.randrange(9)
        x = r.random()
        if table == "p":
            self.both(name, "INSERT INTO p@ VALUES (%d, %d, %d, %d, 'i') ON CONFLICT (id, r) DO UPDATE "
                      "SET a = excluded.a, b = p@.b + 1" % (i, r.randrange(4), k, i))
        elif x < 0.4:
            self.both(name, "INSERT INTO t@ (id, a, b, c, s, u) VALUES (%d, %d, %d, %d, 'i', %d) "
                      "ON CONFLICT (id) DO UPDATE SET a = excluded.a, s = 'c' || t@.a" % (i, k, i, -i, i))
        elif x < 0.7:
            self.both(name, "MERGE INTO t@ m USING (SELECT %d AS id, %d AS a) n ON m.id = n.id "
                      "WHEN MATCHED AND m.b < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET a = n.a, b = m.b + n.a "
                      "WHEN NOT MATCHED THEN INSERT (id, a, b, c, s, u) VALUES (n.id, n.a, n.id, -n.id, 'm', n.id)" % (i, k))
        else:
            self.copy(name, i, k)

    def copy(self, name, i, k):
        """COPY fires triggers that change the rows again."""
        if self.status(name) == IDLE:
            return
        self.run(name, "SAVEPOINT copied")
        for side in "zh":
            self.run(name, "DELETE FROM t%s WHERE id IN (%d, %d)" % (side, i, i + WRITERS * 7))
            if self.status(name) == INERROR:
                break
            self.say(name, "COPY t%s" % side)
            rows = "".join("%d\t%d\t%d\tc\t%d\n" % (j, k, j, j) for j in (i, i + WRITERS * 7))
            cur = self.connect(name).cursor()
            try:
                cur.copy_expert("COPY t%s (id, a, b, s, u) FROM STDIN" % side, io.StringIO(rows))
            except psycopg2.Error as e:
                if e.pgcode not in MAY_FAIL:
                    raise Difference("COPY: %s" % e) from e
                break
        if self.status(name) == INERROR:
            self.run(name, "ROLLBACK TO copied")
        self.run(name, "RELEASE copied")

    def cursor(self, name):
        """The rows of a cursor get another key behind it."""
        r = self.r
        if self.status(name) == IDLE:
            self.run(name, "BEGIN")
        self.names += 1
        self.run(name, "SAVEPOINT cur")
        ids = ",".join(str(self.own_id(name)) for _ in range(4))
        lock = r.choice(["", " FOR UPDATE", " FOR NO KEY UPDATE"])
        moves = [(r.randrange(1, 3), self.sets("t"), r.random() < 0.15) for _ in range(3)]
        seen = []
        for side in "zh":
            self.run(name, "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; "
                     "SET LOCAL enable_indexscan = on")
            self.run(name, "DECLARE c%d%s CURSOR FOR SELECT id, a, b FROM t%s WHERE id IN (%s)%s" % (
                self.names, side, side, ids, lock))
            got = []
            for step, sets, delete in moves:
                code, rows, _ = self.run(name, "FETCH %d FROM c%d%s" % (step, self.names, side))
                got.append((code, rows if not code else None))
                if code or len(rows) < step:
                    break
                what = "DELETE FROM t%s" % side if delete else "UPDATE t%s SET %s" % (side, sets)
                code, rows, n = self.run(name, "%s WHERE CURRENT OF c%d%s" % (what, self.names, side))
                got.append((code, n))
                if code:
                    break
            seen.append(got)
            if self.status(name) == INERROR:
                self.run(name, "ROLLBACK TO cur")
        codes = {x[0] for got in seen for x in got}
        if seen[0] != seen[1] and not codes & MAY_FAIL:
            raise Difference("cursor of %s:\n  z: %s\n  h: %s" % (name, seen[0], seen[1]))
        if codes != {None}:
            self.run(name, "ROLLBACK TO cur")

    def cascade(self, name):
        """A key of another table changes, which an indexed column follows."""
        r = self.r
        k = r.randrange(10) * WRITERS + int(name[1:])
        self.both(name, r.choice([
            "UPDATE k2@ SET k = k + 1000 WHERE k = %d" % k,
            "UPDATE k2@ SET k = k - 1000 WHERE k = %d" % (k + 1000),
            "DELETE FROM k2@ WHERE k = %d" % k,
            "INSERT INTO k2@ VALUES (%d, 1) ON CONFLICT (k) DO NOTHING" % k,
            "UPDATE f@ SET k = %d WHERE id = %d" % (k, self.own_id(name)),
            "UPDATE f@ SET a = a + 1, k = NULL WHERE id = %d" % self.own_id(name)]))

    def save(self, name):
        r = self.r
        sql = r.choice(["SAVEPOINT s", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"])
        if self.run(name, sql)[0]:
            self.run(name, "ROLLBACK")

    def end(self, name):
        r = self.r
        if self.status(name) != INERROR and r.random() < 0.2 and len(self.prepared) < 2:
            self.names += 1
            gid = "g%d" % self.names
            if self.run(name, "PREPARE TRANSACTION '%s'" % gid)[0] is None:
                self.prepared[gid] = name
            return
        self.run(name, r.choice(["COMMIT", "COMMIT", "ROLLBACK"]))

    def end_prepared(self):
        if self.prepared:
            gid = self.r.choice(sorted(self.prepared))
            del self.prepared[gid]
            self.run("ddl", "%s PREPARED '%s'" % (self.r.choice(["COMMIT", "ROLLBACK"]), gid))

    # ---- readers

    READ = """WITH z AS MATERIALIZED (SELECT %(cols)s FROM %(t)sz WHERE %(w)s),
	h AS MATERIALIZED (SELECT %(cols)s FROM %(t)sh WHERE %(w)s)
SELECT 'z', x.* FROM (TABLE z EXCEPT ALL TABLE h) x UNION ALL
SELECT 'h', x.* FROM (TABLE h EXCEPT ALL TABLE z) x LIMIT 5"""

    def question(self):
        r = self.r
        table = r.choice("tttpf")
        a, b = r.randrange(-3, 12), r.randrange(-60, 120)
        if table == "f":
            return "f", r.choice(["id, k, a", "k"]), "k = %d" % r.randrange(40)
        w = r.choice(["a = %d" % a, "a BETWEEN %d AND %d" % (a, a + 3), "b > %d" % b, "a IN (1, 3, %d)" % a,
                      "a = %d AND b > %d" % (a, b), "a = %d OR b = %d" % (a, b), "s = 's%d'" % r.randrange(5),
                      "s IS NULL OR a < 4", "true", "a + b = %d" % b, "a IS NOT NULL"])
        cols = r.choice(["a", "a, b", "id, a, b", "id, a, b, s", "b"])
        if table == "t":
            cols = r.choice([cols, "g", "c, a", "d", "id, a, b, c, d, g, s"])
            w = r.choice([w, w, "c < %d" % b, "g = %d" % (2 * a), "d = %d" % r.randrange(3),
                          "ar @> ARRAY[%d]" % r.randrange(7), "w = 'ww'", "w > 'w'", "f = 'f1'"])
        return table, cols, w

    def read(self, name):
        r = self.r
        if self.status(name) == INERROR:
            self.run(name, "ROLLBACK")
        if self.status(name) == IDLE and r.random() < 0.3:
            self.run(name, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        elif self.status(name) != IDLE and r.random() < 0.08:
            self.run(name, "COMMIT")
        self.plan(name)
        table, cols, w = self.question()
        code, rows, _ = self.run(name, self.READ % {"t": table, "cols": cols, "w": w})
        self.compared += code is None
        if code is None and rows:
            raise Difference("%s: %s of %s where %s: %s" % (name, cols, table, w, rows))
        if code not in MAY_FAIL | {None, "42703", "0A000"} and name[0] != "s":
            raise Difference("%s: %s" % (name, rows))
        if r.random() < 0.4 and not code:
            r.choice([self.in_order, self.in_sum])(name)

    def in_order(self, name):
        """By an index, to and fro, and with an end."""
        r = self.r
        col = r.choice("ab")
        way = r.choice(["", "DESC"])
        w = "%s BETWEEN %d AND %d" % (col, r.randrange(-5, 5), r.randrange(4, 80))
        got = []
        for side in "zh":
            code, rows, _ = self.run(name, "SELECT %s FROM t%s WHERE %s ORDER BY %s %s LIMIT %d" % (
                col, side, w, col, way, 40))
            if code:
                return
            got.append(rows)
            if self.status(name) == IDLE:
                return
        if got[0] != got[1] and self.level(name) == "repeatable read":
            raise Difference("%s in order %s %s: %s; %s" % (name, col, w, got[0], got[1]))

    def in_sum(self, name):
        """Where parallel workers may scan: not in a WITH."""
        table, _, w = self.question()
        if self.status(name) == IDLE or self.level(name) != "repeatable read":
            return
        got = [self.run(name, "SELECT count(*), sum(id), sum(a) FROM %s%s WHERE %s" % (table, side, w))[:2]
               for side in "zh"]
        if got[0][0] is None and got[1][0] is None and got[0] != got[1]:
            raise Difference("%s: sums of %s where %s: %s" % (name, table, w, got))

    def level(self, name):
        code, rows, _ = self.run(name, "SHOW transaction_isolation")
        return None if code else rows[0][0]

    # ---- definitions

    def indexes(self):
        code, rows, _ = self.run("ddl", "SELECT c.relname, t.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                                 "JOIN pg_class t ON t.oid = i.indrelid WHERE c.relname ~ '^x[0-9]' AND c.relkind = 'i' "
                                 "AND NOT c.relispartition ORDER BY 1")
        return rows if code is None else []

    def ddl(self):
        r = self.r
        kind = r.choice(
            ["create"] * 4 + ["drop"] * 2 + ["concurrently"] * 3 + ["vacuum"] * 6 + ["reindex", "cluster", "full",
             "type", "column", "constraint", "option", "rolled", "analyze", "access", "logged", "space", "rename",
             "list", "part", "prepared", "prepared", "invalidate"])
        return getattr(self, "ddl_" + kind)()

    def new_index(self, concurrently=""):
        self.names += 1
        table = self.r.choice(["tz", "tz", "tz", "pz", "fz", "p1z"])
        kind = "(k)" if table == "fz" else self.r.choice(KINDS)
        if concurrently and table == "pz":
            table = "p0z"
        return "CREATE INDEX %s x%d ON %s %s" % (concurrently, self.names, table, kind)

    def may(self, sql, more=()):
        code, rows, _ = self.run("ddl", sql)
        if code not in MAY_FAIL | {None, "42P01", "42704", "42703", "0A000", "2BP01", "55006", "54000"} | set(more):
            raise Difference("%s: %s" % (sql, rows))
        return code

    def ddl_create(self):
        self.may(self.new_index())

    def ddl_drop(self):
        found = self.indexes()
        if len(found) > 6:
            self.may("DROP INDEX " + self.r.choice(found)[0])

    def ddl_vacuum(self):
        self.may("VACUUM %s %s" % (self.r.choice([
            "", "", "(FREEZE)", "(INDEX_CLEANUP off)", "(INDEX_CLEANUP on)", "(TRUNCATE off)", "(PARALLEL 2)",
            "(DISABLE_PAGE_SKIPPING)"]), self.r.choice(["tz", "tz", "pz", "fz", "tz, pz, fz"])))

    def ddl_analyze(self):
        self.may("ANALYZE tz; ANALYZE pz")

    def ddl_reindex(self):
        found = self.indexes()
        if found and self.r.random() < 0.6:
            self.may("REINDEX INDEX " + self.r.choice(found)[0])
        else:
            self.may("REINDEX TABLE " + self.r.choice(["tz", "p0z", "fz"]))

    def ddl_cluster(self):
        for index, table in self.indexes():
            if self.r.random() < 0.4 and table != "pz":
                self.run("ddl", "SET enable_seqscan = " + self.r.choice(["on", "off"]))
                self.may("CLUSTER %s USING %s" % (table, index))
                break

    def ddl_full(self):
        self.may("VACUUM FULL " + self.r.choice(["tz", "p0z", "fz"]))

    def twice(self, sql, more=()):
        """Of both tables, or of none."""
        self.run("ddl", "BEGIN")
        for side in "zh":
            if self.may(sql.replace("@", side), more):
                self.run("ddl", "ROLLBACK")
                return
        self.run("ddl", "COMMIT" if self.r.random() < 0.8 else "ROLLBACK")

    def ddl_type(self):
        self.twice("ALTER TABLE t@ ALTER %s TYPE %s" % (self.r.choice("bc"), self.r.choice(["int", "bigint"])),
                   {"22003", "0A000", "55006"})

    def ddl_column(self):
        self.twice(self.r.choice([
            "ALTER TABLE t@ ADD COLUMN IF NOT EXISTS e int DEFAULT 7", "ALTER TABLE t@ DROP COLUMN IF EXISTS e",
            "UPDATE t@ SET e = e + a", "ALTER TABLE t@ ALTER s SET STORAGE EXTERNAL",
            "ALTER TABLE t@ DROP COLUMN ar, ADD COLUMN ar int[] DEFAULT ARRAY[1, 2]",
            "ALTER TABLE t@ DROP COLUMN d, ADD COLUMN d int DEFAULT 1"]))

    def ddl_constraint(self):
        self.twice(self.r.choice([
            "ALTER TABLE t@ ADD CONSTRAINT tu@ UNIQUE (u, id) DEFERRABLE INITIALLY DEFERRED",
            "ALTER TABLE t@ DROP CONSTRAINT IF EXISTS tu@",
            "ALTER TABLE t@ ADD CONSTRAINT te@ EXCLUDE USING btree (id WITH =, u WITH =) WHERE (u > 3)",
            "ALTER TABLE t@ DROP CONSTRAINT IF EXISTS te@",
            "ALTER TABLE t@ ADD CONSTRAINT ta@ UNIQUE (a, id)", "ALTER TABLE t@ DROP CONSTRAINT IF EXISTS ta@"]),
            {"42P07", "42710", "55006"})

    def ddl_part(self):
        self.twice(self.r.choice([
            "ALTER TABLE p@ DETACH PARTITION p0@; ALTER TABLE p@ ATTACH PARTITION p0@ FOR VALUES FROM (0) TO (2)",
            "ALTER TABLE p@ DETACH PARTITION p1@; UPDATE p1@ SET a = a + 1 WHERE b > 60; "
            "ALTER TABLE p@ ATTACH PARTITION p1@ FOR VALUES FROM (2) TO (4)"]))

    def ddl_option(self):
        self.may(self.r.choice([
            "ALTER TABLE tz SET (fillfactor = %d)" % self.r.choice([40, 80, 100]), "ALTER TABLE tz RESET (fillfactor)",
            "ALTER TABLE tz ALTER a SET STATISTICS 50", "ALTER TABLE tz REPLICA IDENTITY FULL",
            "ALTER TABLE tz REPLICA IDENTITY DEFAULT"]))

    def ddl_rename(self):
        found = self.indexes()
        if found:
            index = self.r.choice(found)[0]
            self.names += 1
            self.may(self.r.choice(["ALTER INDEX %s RENAME TO x%d" % (index, self.names),
                                    "ALTER INDEX %s SET (fillfactor = 70)" % index,
                                    "ALTER INDEX %s SET (deduplicate_items = off)" % index]), {"22023"})

    def ddl_rolled(self):
        """An index that comes and goes within a transaction that changes keys."""
        self.run("ddl", "BEGIN")
        found = self.indexes()
        sqls = [self.new_index(), "UPDATE tz SET a = a + 1 WHERE id <= 3", "TRUNCATE log_z"]
        if found:
            sqls.append("DROP INDEX " + self.r.choice(found)[0])
        self.r.shuffle(sqls)
        for sql in sqls:
            if self.may(sql):
                break
        self.run("ddl", "ROLLBACK")

    def ddl_access(self):
        if self.r.random() < 0.3 and self.standby is None:
            self.end_all()  # an older snapshot would find the table empty, as with heap
            if not self.may("ALTER TABLE tz SET ACCESS METHOD heap"):
                for _ in range(40):
                    if not self.may("ALTER TABLE tz SET ACCESS METHOD zheap"):
                        break
                    self.end_all()

    def ddl_logged(self):
        if not self.prepared and self.r.random() < 0.3 and self.standby is None:
            self.end_all()
            self.may("ALTER TABLE tz SET UNLOGGED")
            for _ in range(40):
                if not self.may("ALTER TABLE tz SET LOGGED"):
                    break
                self.end_all()

    def ddl_space(self):
        self.may("ALTER TABLE tz SET TABLESPACE " + self.r.choice(["other", "pg_default"]))

    def ddl_list(self):
        self.may("ALTER SYSTEM SET zheap.update_indexed_in_place_tables = %s" % self.r.choice(["'tz'", "''", "'public.pz, tz'"]))
        self.may("SELECT pg_reload_conf()")

    def ddl_invalidate(self):
        name = self.r.choice(["w0", "w1", "r0", "r1"])
        if self.status(name) == IDLE:
            self.run(name, "DISCARD PLANS; DISCARD SEQUENCES")

    def ddl_prepared(self):
        self.end_prepared()

    def ddl_concurrently(self):
        """In a thread: it waits for the others, which go on."""
        # a snapshot of a standby lacks rows by an index that was built so
        if self.standby is not None or self.waits is not None and self.waits.is_alive():
            return
        found = self.indexes()
        r = self.r
        index = r.choice(found)[0] if found else "x0"
        sql = r.choice([self.new_index("CONCURRENTLY"), self.new_index("CONCURRENTLY"),
                        "REINDEX INDEX CONCURRENTLY " + index, "REINDEX TABLE CONCURRENTLY tz"]
                       + (["DROP INDEX CONCURRENTLY " + index] if len(found) > 7 else []))
        self.say("waits", sql)

        def work():
            try:
                conn = psycopg2.connect(self.node.dsn())
                conn.autocommit = True
                cur = conn.cursor()
                cur.execute("SET statement_timeout = '%ds'" % r.choice([1, 3, 8]))
                cur.execute(sql)
                conn.close()
            except psycopg2.Error as e:
                if e.pgcode in ("XX000", "XX001", "XX002"):
                    self.trouble.append("%s: %s" % (sql, e))
        self.waits = threading.Thread(target=work)
        self.waits.start()

    # ---- a history

    def end_all(self):
        for name in list(self.conns):
            if name != "ddl" and self.status(name) != IDLE:
                self.run(name, "ROLLBACK")

    def setup(self):
        self.node.start()
        if self.r.random() < 0.5:
            self.start_standby()
        self.run("ddl", "CREATE TABLESPACE other LOCATION ''")
        self.must(SCHEMA)
        for side, am in (("z", "zheap"), ("h", "heap")):
            self.must((TABLES.replace("@", side).replace("$AM", am).replace("%d", str(ROWS))))
            if self.triggers:
                self.must("""CREATE TRIGGER hurry BEFORE INSERT OR UPDATE ON t@ FOR EACH ROW EXECUTE FUNCTION hurry();
CREATE TRIGGER again AFTER INSERT OR UPDATE ON t@ FOR EACH ROW EXECUTE FUNCTION again()""".replace("@", side))
        for sql in "CREATE INDEX x1 ON tz (a)", "CREATE INDEX x2 ON tz (b, a)", "CREATE INDEX x3 ON pz (a)", \
                "CREATE INDEX x4 ON fz (k)", "CREATE INDEX x5 ON tz (s)":
            self.must(sql)
        self.names = 9
        self.allow()

    def allow(self):
        end = time.time() + 60
        for table in "tz", "p0z", "p1z", "fz":
            column = "k" if table == "fz" else "a"
            while time.time() < end:
                self.must("BEGIN; UPDATE %s SET %s = %s + 1 WHERE id < 9; ROLLBACK" % (
                    table, column, column) if column == "a" else
                    "BEGIN; UPDATE fz SET k = 39 - k WHERE id < 9; ROLLBACK")
                if self.must("SELECT 'keys_allowed' = ANY (zheap_page_flags('%s', 0))" % table)[0][0]:
                    break
                time.sleep(0.01)

    def must(self, sql):
        code, rows, _ = self.run("ddl", sql)
        if code:
            raise Difference("%s: %s" % (sql, rows))
        return rows

    def crash(self):
        self.say("all", "kill -9")
        self.node.kill()
        if self.waits is not None:
            self.waits.join()
        for conn in self.conns.values():
            conn.close()
        self.conns = {}
        self.node.start()

    def wait_standby(self):
        lsn = self.must("SELECT pg_current_wal_flush_lsn()")[0][0]
        end = time.time() + 120
        while self.run("s9", "SELECT pg_last_wal_replay_lsn() >= '%s'" % lsn)[1] != [(True,)]:
            if time.time() > end:
                raise Difference("the standby doesn't follow:\n" + self.standby.log_tail(9))
            time.sleep(0.1)

    def promote(self):
        """The standby has the rows, and goes on alone."""
        self.wait_standby()
        self.node.kill()
        for conn in self.conns.values():
            conn.close()
        self.conns = {}
        self.check_log()
        self.node, self.standby = self.standby, None
        self.run("ddl", "SELECT pg_promote(true, 120)")

    STALE = """SELECT count(*) FROM pg_class t, generate_series(0, pg_relation_size(t.oid) / 8192 - 1) b,
	zheap_page_items(t.oid, b) WHERE t.relam = (SELECT oid FROM pg_am WHERE amname = 'zheap')
	AND t.relkind = 'r' AND 'stale' = ANY (flags)"""
    WHOLE = """SELECT bt_index_check(i.indexrelid, true) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
	JOIN pg_am m ON m.oid = x.relam WHERE m.amname = 'btree' AND x.relkind = 'i' AND i.indisvalid
	AND x.relnamespace = 'public'::regnamespace"""
    FINDINGS = """SELECT t.oid::regclass::text, c::text FROM pg_class t JOIN pg_am m ON m.oid = t.relam,
	LATERAL zheap_check(t.oid) c WHERE m.amname = 'zheap' AND t.relkind = 'r' LIMIT 9"""

    def judge(self):
        if self.waits is not None:
            self.waits.join()
        self.end_all()
        while self.prepared:
            self.end_prepared()
        for name in list(self.conns):
            if name != "ddl":
                self.conns.pop(name).close()
        if self.standby is not None:
            self.promote()
        for turn in range(3):
            for table, cols in ("t", "id, a, b, c, d, g, s, u, ar"), ("p", "*"), ("f", "*"), ("k2", "*"):
                for w in "true", "a BETWEEN -1000 AND 5000", "b > -100000":
                    if table in ("k2", "f") and w != "true":
                        continue
                    for _ in range(3):
                        self.plan("ddl")
                        rows = self.must(self.READ % {"t": table, "cols": cols, "w": w})
                        if rows:
                            raise Difference("at the end %s where %s: %s" % (table, w, rows))
            rows = self.must("SELECT * FROM (TABLE log_z EXCEPT ALL TABLE log_h) a UNION ALL "
                             "SELECT * FROM (TABLE log_h EXCEPT ALL TABLE log_z) b LIMIT 5")
            if rows:
                raise Difference("triggers: %s" % rows)
            self.stale += self.must(self.STALE)[0][0]
            found = self.must(self.FINDINGS)
            if found:
                raise Difference("zheap_check: %s" % found)
            self.must(self.WHOLE)
            self.must("VACUUM tz, pz, fz, k2z")
            if turn == 1:
                self.must("REINDEX TABLE tz")
        self.check_log()

    def check_log(self):
        faults = self.node.log_faults() + (self.standby.log_faults() if self.standby else [])
        if faults or self.trouble:
            raise Difference("log: %s %s" % (faults[:5], self.trouble[:3]))

    def play(self):
        r = self.r
        self.setup()
        for n in range(self.args.steps):
            x = r.random()
            if x < 0.66:
                self.write("w%d" % r.randrange(WRITERS))
            elif x < 0.86:
                self.read(r.choice(["s0", "s1", "r0"] if self.standby else ["r0", "r1"]))
            elif x < 0.997:
                self.ddl()
            else:
                self.crash()
            if n % 50 == 0:
                self.check_log()
        self.judge()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-5")
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--settings", default="")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)

    def play(seed):
        fuzz = Fuzz(args, seed)
        try:
            return play_history(fuzz, seed, lambda: "%d statements, %d reads compared, %d rows had an old entry" % (
                len(fuzz.done), fuzz.compared, fuzz.stale), 60) and fuzz.stale > 0
        finally:
            if fuzz.standby is not None:
                fuzz.standby.kill()
            fuzz.node.drop(args.keep)
            if not args.keep:
                shutil.rmtree(fuzz.root, ignore_errors=True)

    sys.exit(play_seeds(args.seeds, play))


if __name__ == "__main__":
    main()
