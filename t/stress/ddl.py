#!/usr/bin/python3
"""Definitions that change in transactions which are rolled back, in part or as
a whole: indexes, constraints, columns, triggers, partitions, access method,
persistence, tablespace, TRUNCATE, CLUSTER, beside changes of rows.

Two databases of a throw-away cluster have the same table, in one it is a zheap
table, in the other heap.  Two writers and readers with snapshots of all ages do
the same on both, in the same order; whoever would wait for a lock gives up after
a moment on both.  Rows, row counts and SQLSTATEs must be the same, whatever way
the rows are read; zheap_check and amcheck find nothing.  Deterministic.

usage: ddl.py --bindir DIR [--seeds FIRST-LAST] [--steps 250] [--am heap]
              [--debug-seed N] [--verbose] [--keep]

--am heap compares heap with heap: that tests the test.
"""
import argparse
import os
import random
import sys
import time
import traceback

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, become_ordinary  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
shared_buffers = 32MB
max_connections = 60
allow_in_place_tablespaces = on
zheap.discard_naptime = 20
log_min_messages = warning
log_min_error_statement = panic
"""
PATHS = (
    "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; "
    "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on; ",
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; "
    "SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; ",
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; "
    "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = on; ")
SCHEMA = """
CREATE TABLE t (id int, k int, v int, pad text, r int4range);
CREATE INDEX t_k ON t (k);
CREATE UNIQUE INDEX t_id ON t (id);
CREATE TABLE p (LIKE t) PARTITION BY RANGE (id);
CREATE INDEX p_v ON p (v);
CREATE TABLE log (what text) USING heap;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (concat_ws(' ', TG_NAME, TG_OP,
		CASE WHEN TG_OP <> 'INSERT' THEN OLD.id || ':' || OLD.v END,
		CASE WHEN TG_OP <> 'DELETE' THEN NEW.id || ':' || NEW.v END));
	RETURN NULL;
END $$;
"""


# of a locked row and a key that is taken, which one a statement meets first is a
# matter of where its rows lie
FIRST = ("error", "55P03"), ("error", "23505")


class Difference(Exception):
    """The two sides disagree."""


def execute(conn, sql):
    cur = conn.cursor()
    try:
        cur.execute(sql)
    except psycopg2.Error as e:
        if e.pgcode is None:
            raise Difference("connection lost: %s" % e)
        return ("error", e.pgcode, str(e).split("\n", maxsplit=1)[0])
    rows = cur.fetchall() if cur.description else None
    return ("rows", cur.rowcount, sorted(rows, key=repr) if rows else rows)


class Pair:
    """A session on both sides."""

    def __init__(self, history, name):
        self.history, self.name = history, name
        self.conns = []
        for side in ("zheap", "heap"):
            conn = psycopg2.connect(history.cluster.dsn(side))
            conn.autocommit = True
            self.conns.append(conn)
            conn.cursor().execute("SET lock_timeout = '200ms'")
        self.depth = 0

    def run(self, sql, count=True):
        """The same on both sides; returns SQLSTATE or None, and the rows.
        @AM@ in the text is the side's access method.  Heap is asked first: what
        nobody has locked there may be a rollback worker's for a moment here."""
        out, began = [], time.time()
        self.history.say("%s: %s" % (self.name, sql[:400]))
        for conn, am, side in ((self.conns[1], "heap2", "b"),
                               (self.conns[0], self.history.am, "a")):
            if out and not self.failed():
                locked = out[0][:2] == ("error", "55P03")
                # a block may have caught heap's error; or heap was slow
                slow = time.time() - began > 0.2
                execute(conn, "SET lock_timeout = '%s'" % (
                    "200ms" if locked else "5s" if slow else "180s"))
            text = sql.replace("@AM@", am).replace("@SIDE@", side)
            out.insert(0, execute(conn, text))
            if self.history.verbose and out[0][0] == "error":
                self.history.say("    " + out[0][2])
        a, b = ((x[0], x[1]) if x[0] == "error" or not count else x for x in out)
        if a != b and a in FIRST and b in FIRST:
            return a[1], None
        if not count and a[0] == b[0] == "rows":
            return None, None
        if a != b:
            text = "%s: %s\n" % (self.name, sql)
            for x, side in zip(out, ("subject", "heap")):
                text += "  %s: %s\n" % (side, repr(x)[:1500])
            if out[0][0] == out[1][0] == "rows" and out[0][2] and out[1][2]:
                for i, j, who in ((0, 1, "subject"), (1, 0, "heap")):
                    other = set(map(repr, out[j][2]))
                    text += "  only %s: %s\n" % (who, [
                        x for x in out[i][2] if repr(x) not in other][:10])
            raise Difference(text)
        return (out[0][1], None) if a[0] == "error" else (None, out[0][2])

    def status(self):
        return self.conns[0].get_transaction_status()

    def in_xact(self):
        return self.status() != psycopg2.extensions.TRANSACTION_STATUS_IDLE

    def failed(self):
        return self.status() == psycopg2.extensions.TRANSACTION_STATUS_INERROR

    def close(self):
        for conn in self.conns:
            conn.close()


class History:
    def __init__(self, cluster, seed, am, verbose):
        self.cluster, self.am, self.verbose = cluster, am, verbose
        self.r = random.Random(seed)
        self.n = 0
        self.columns, self.indexes, self.constraints, self.triggers = [], [], [], []
        self.gid = None
        self.lines = []
        admin = psycopg2.connect(cluster.dsn())
        admin.autocommit = True
        for side in ("zheap", "heap"):
            execute(admin, "DROP DATABASE IF EXISTS %s WITH (FORCE)" % side)
            execute(admin, "CREATE DATABASE " + side)
        admin.close()
        # so that SET ACCESS METHOD rewrites on both sides
        conn = psycopg2.connect(cluster.dsn("heap"))
        conn.autocommit = True
        execute(conn, "CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler")
        conn.close()
        if am == "heap":
            self.am = "heap2"
            conn = psycopg2.connect(cluster.dsn("zheap"))
            conn.autocommit = True
            execute(conn, "CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler")
            conn.close()
        self.w = None
        self.w = Pair(self, "w")
        self.w.run("CREATE EXTENSION zheap_am; CREATE EXTENSION amcheck")
        self.w.run("SET default_table_access_method = @AM@;" + SCHEMA)
        self.other = Pair(self, "o")
        # old snapshots keep rows; a table with few indexes soon has none
        self.readers = [Pair(self, "r%d" % i) for i in range(self.r.choice([0, 1, 3]))]
        self.bare = self.r.random() < .5
        if self.bare:
            self.w.run("DROP INDEX t_id")
        for x in (self.w, self.other):
            x.run("SET default_table_access_method = @AM@")

    def say(self, text):
        self.lines.append(text)
        if self.verbose:
            print(text, flush=True)

    # ---- rows

    def span(self):
        r = self.r
        a = r.randrange(1, 500)
        return "BETWEEN %d AND %d" % (a, a + r.choice([0, 0, 3, 20, 100, 400]))

    def pad(self):
        r = self.r
        return "repeat('%s', %d)" % (r.choice("abc"), r.choice([0, 5, 30, 30, 100, 700]))

    def change(self):
        r = self.r
        x = r.random()
        span = self.span()
        if x < .2:
            return "UPDATE t SET v = v + 1 WHERE id " + span
        if x < .3:
            return "UPDATE t SET k = (k * 7 + 3) %% 1000, v = v + 1 WHERE id %s" % span
        if x < .4:
            return "UPDATE t SET pad = %s WHERE id %s" % (self.pad(), span)
        if x < .5:
            return "UPDATE t SET id = id + 1000 - 2000 * (id > 1000)::int WHERE id %s" % span
        if x < .65:
            return "DELETE FROM t WHERE id " + span
        if x < .7:
            return "DELETE FROM t WHERE k %s" % span
        if x < .75:
            return "UPDATE t SET v = v * 2 WHERE k %s" % span
        if x < .8:
            return ("INSERT INTO t (id, k, v, pad) SELECT g, g, 0, %s FROM generate_series(%d, %d) g "
                    "ON CONFLICT DO NOTHING" % (self.pad(), r.randrange(500), r.randrange(500)))
        if x < .83:
            return "SELECT id, v FROM t WHERE id %s FOR %s" % (
                span, r.choice(["UPDATE", "SHARE", "KEY SHARE", "NO KEY UPDATE"]))
        if x < .87 and self.columns:
            return "UPDATE t SET %s = %s WHERE id %s" % (
                r.choice(self.columns), r.choice(["NULL", "5", "7"]), span)
        a = r.randrange(1, 500)
        return ("INSERT INTO t (id, k, v, pad, r) SELECT g, g, 0, %s, int4range(g, g + 1) FROM "
                "generate_series(%d, %d) g WHERE NOT EXISTS (SELECT FROM t o WHERE o.id = g)"
                % (self.pad(), a, a + r.choice([0, 5, 50, 300])))

    # ---- definitions

    def name(self, kind):
        self.n += 1
        return kind + str(self.n)

    def no_index(self):
        return ("DO $i$ DECLARE i record; BEGIN FOR i IN SELECT indexrelid::regclass AS name, conname FROM pg_index x "
                "JOIN pg_class c ON c.oid = indexrelid AND NOT relispartition LEFT JOIN pg_constraint ON conindid = "
                "indexrelid WHERE indrelid = 't'::regclass LOOP IF i.conname IS NOT NULL THEN EXECUTE 'ALTER TABLE t "
                "DROP CONSTRAINT ' || i.conname; ELSE EXECUTE 'DROP INDEX ' || i.name; END IF; END LOOP; END $i$")

    def bare_for_a_while(self):
        """Rows go, and so do the indexes, for the time of some changes."""
        w = self.w
        w.run("INSERT INTO t (id, k, v, pad) SELECT g, g, 0, 'some' FROM generate_series(1, 400) g "
              "WHERE NOT EXISTS (SELECT FROM t o WHERE o.id = g)")
        w.run(self.r.choice(["DELETE FROM t WHERE id BETWEEN 20 AND 350", "UPDATE t SET k = k + 1000 WHERE k < 300"]))
        w.run("BEGIN")
        w.run(self.change())
        w.run("SAVEPOINT s1")
        w.depth = 1
        w.run(self.no_index(), count=False)
        for _ in range(4):
            if not w.failed():
                w.run(self.change())

    def index(self):
        r = self.r
        x = r.random()
        if x < (.3 if self.bare else .1):
            return self.no_index() if r.random() < .7 else "CREATE INDEX IF NOT EXISTS t_k ON t (k)"
        if self.indexes and x < .35:
            return "DROP INDEX IF EXISTS " + r.choice(self.indexes)
        if x < .45:
            return r.choice(["DROP INDEX IF EXISTS t_k", "DROP INDEX IF EXISTS t_id"])
        if x < .55:
            return r.choice(["CREATE INDEX IF NOT EXISTS t_k ON t (k)",
                             "CREATE UNIQUE INDEX IF NOT EXISTS t_id ON t (id)"])
        if x < .65:
            return r.choice(["REINDEX TABLE t", "REINDEX INDEX t_k", "REINDEX INDEX t_id"])
        name = self.name("i")
        self.indexes.append(name)
        cols = ["v", "k, v", "(k % 5), id", "v) WHERE (k > 100", "id) INCLUDE (v", "pad", "k"]
        if self.columns:
            cols.append(r.choice(self.columns))
        if x < .75:
            return "CREATE INDEX %s ON t USING %s" % (
                name, r.choice(["hash (k)", "brin (v)", "gist (r)", "hash (v)"]))
        return "CREATE %sINDEX %s ON t (%s)" % (
            r.choice(["", "", "UNIQUE "]), name, r.choice(cols))

    def constraint(self):
        r = self.r
        if self.constraints and r.random() < .4:
            return "ALTER TABLE t DROP CONSTRAINT IF EXISTS " + r.choice(self.constraints)
        name = self.name("c")
        self.constraints.append(name)
        return "ALTER TABLE t ADD CONSTRAINT %s %s" % (name, r.choice([
            "UNIQUE (id)", "UNIQUE (k, id)", "PRIMARY KEY (id)", "CHECK (v > -5)",
            "UNIQUE (id) DEFERRABLE INITIALLY DEFERRED",
            "EXCLUDE USING gist (r WITH &&)", "EXCLUDE USING btree (id WITH =)",
            "EXCLUDE USING gist (r WITH &&) DEFERRABLE INITIALLY DEFERRED"]))

    def column(self):
        r = self.r
        x = r.random()
        if self.columns and x < .35:
            return "ALTER TABLE t DROP COLUMN IF EXISTS " + r.choice(self.columns)
        if x < .7 and len(self.columns) < 20:
            name = self.name("a")
            self.columns.append(name)
            return "ALTER TABLE t ADD COLUMN %s %s" % (name, r.choice([
                "int", "int DEFAULT 9", "text DEFAULT 'dd'", "text DEFAULT repeat('d', 60)",
                "int DEFAULT (random() * 0)::int", "int NOT NULL DEFAULT 4"]))
        return r.choice([
            "ALTER TABLE t ALTER v TYPE bigint", "ALTER TABLE t ALTER v TYPE int",
            "ALTER TABLE t ALTER pad SET STORAGE %s" % r.choice(["external", "extended", "main"]),
            "ALTER TABLE t SET (toast_tuple_target = %d)" % r.choice([128, 2000]),
            "ALTER TABLE t SET (fillfactor = %d)" % r.choice([50, 100]),
            "ALTER TABLE t ALTER k TYPE int USING k", "ALTER TABLE t ALTER pad SET NOT NULL"])

    def trigger(self):
        r = self.r
        if self.triggers and r.random() < .5:
            return r.choice([
                "DROP TRIGGER IF EXISTS %s ON t", "ALTER TABLE t DISABLE TRIGGER %s",
                "ALTER TABLE t ENABLE TRIGGER %s"]) % r.choice(self.triggers)
        name = self.name("g")
        self.triggers.append(name)
        return r.choice([
            "CREATE TRIGGER %s AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note()",
            "CREATE TRIGGER %s AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.v <> NEW.v) EXECUTE FUNCTION note()",
            "CREATE CONSTRAINT TRIGGER %s AFTER UPDATE OR DELETE ON t DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION note()"]) % name

    def table(self):
        r = self.r
        return r.choice([
            "TRUNCATE t", "TRUNCATE t", "CLUSTER t USING t_k", "CLUSTER t USING t_id",
            "ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED",
            "ALTER TABLE t SET ACCESS METHOD heap", "ALTER TABLE t SET ACCESS METHOD @AM@",
            "ALTER TABLE t SET ACCESS METHOD @AM@",
            "ALTER TABLE p ATTACH PARTITION t DEFAULT", "ALTER TABLE p DETACH PARTITION t",
            "CREATE INDEX IF NOT EXISTS p_pad ON p (pad)", "DROP INDEX IF EXISTS p_v",
            "CREATE INDEX IF NOT EXISTS p_v ON p (v)", "DROP INDEX IF EXISTS p_pad",
            "ALTER TABLE t REPLICA IDENTITY %s" % r.choice(["FULL", "NOTHING", "DEFAULT"]),
            "LOCK TABLE t IN %s MODE" % r.choice(["SHARE", "ROW SHARE", "EXCLUSIVE",
                                                  "ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE"]),
            "ANALYZE t"])

    def definition(self):
        r = self.r
        return r.choice([self.index, self.index, self.index, self.constraint, self.column,
                         self.trigger, self.table, self.table])()

    def block(self):
        """A function that does things, and takes them back by an error."""
        r = self.r
        inner = ";\n".join(r.choice([self.change, self.definition, self.change])().replace("SELECT id", "PERFORM id")
                           for _ in range(r.randrange(1, 5)))
        return ("DO $$ BEGIN %s; BEGIN %s; %s EXCEPTION WHEN OTHERS THEN NULL; END; %s; END $$"
                % (self.change().replace("SELECT id", "PERFORM id"), inner,
                   r.choice(["PERFORM 1 / 0;", "PERFORM 1 / 0;", ""]),
                   self.change().replace("SELECT id", "PERFORM id")))

    # ---- judges

    def look(self, pair):
        """In a transaction; leaves no lock behind."""
        r = self.r
        pair.run("SAVEPOINT looking")
        for path in PATHS:
            where = r.choice(["id > 0", "k >= 0", "v >= 0", "id " + self.span(),
                              "k " + self.span(), "v BETWEEN 0 AND 2", "k = 9", "pad >= ''"])
            code, _ = pair.run(path + "SELECT * FROM t WHERE " + where)
            if code is not None:
                break
            pair.run(path + "SELECT count(*), sum(k) FROM t WHERE " + where)
        pair.run("ROLLBACK TO looking")
        pair.run("RELEASE looking")

    def check(self):
        """No transaction is open in w."""
        conn = self.w.conns[0]
        execute(conn, "SET lock_timeout = '200ms'")
        out = execute(conn, "SELECT relam = (SELECT oid FROM pg_am WHERE amname = 'zheap') "
                      "FROM pg_class WHERE oid = 't'::regclass")
        if out[0] == "rows" and out[2][0][0]:
            out = execute(conn, "SELECT * FROM zheap_check('t')")
            if out[0] == "error" and out[1] != "55P03" or out[0] == "rows" and out[2]:
                raise Difference("zheap_check: %r" % (out,))
        out = execute(conn, "SELECT bt_index_check(i.indexrelid, true) FROM pg_index i "
                      "JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am b ON b.oid = x.relam "
                      "WHERE b.amname = 'btree' AND i.indrelid = 't'::regclass AND x.relkind = 'i' AND i.indisvalid")
        if out[0] == "error" and out[1] != "55P03":
            raise Difference("amcheck: %r" % (out,))

    # ---- playing

    def transaction_step(self, w):
        r = self.r
        if w.failed():
            if w.depth and r.random() < .8:
                w.depth = r.randrange(1, w.depth + 1)
                w.run("ROLLBACK TO s%d" % w.depth)
            else:
                w.run("ROLLBACK")
                w.depth = 0
            return
        x = r.random()
        if x < .12:
            end = r.choice(["COMMIT", "ROLLBACK", "ROLLBACK", "prepare"])
            if end == "prepare":
                end = "COMMIT"
                if self.gid is None:
                    self.gid = self.name("x")
                    end = "PREPARE TRANSACTION '@SIDE@%s'" % self.gid
            code, _ = w.run(end)
            if code is not None and "PREP" in end:
                self.gid = None
            w.depth = 0
        elif x < .25 and w.depth < 4:
            w.depth += 1
            w.run("SAVEPOINT s%d" % w.depth)
        elif x < .38 and w.depth:
            w.depth = r.randrange(1, w.depth + 1)
            w.run("ROLLBACK TO s%d" % w.depth)
            self.look(w)
        elif x < .44 and w.depth:
            w.run("RELEASE s%d" % w.depth)
            w.depth -= 1
        elif x < .47:
            self.look(w)
        elif x < .5:
            w.run("SET CONSTRAINTS ALL " + r.choice(["IMMEDIATE", "DEFERRED"]))
        elif x < .72:
            w.run(self.definition(), count=False)
        elif x < .76:
            w.run(self.block(), count=False)
        else:
            w.run(self.change())

    def step(self):
        r = self.r
        x = r.random()
        if x < .1 and self.readers:
            cur = r.choice(self.readers)
            if cur.in_xact():
                cur.run("COMMIT")
            else:
                cur.run("BEGIN ISOLATION LEVEL %s" % r.choice(["REPEATABLE READ", "SERIALIZABLE"]))
                cur.run("SELECT count(*) FROM pg_am WHERE false")
        elif x < .2 and self.readers:
            cur = r.choice(self.readers)
            if cur.failed():
                cur.run("ROLLBACK")
            elif cur.in_xact():
                self.look(cur)
        elif x < .3:
            o = self.other
            if o.in_xact():
                if o.failed() or r.random() < .5:
                    o.run(r.choice(["ROLLBACK", "COMMIT"]))
                else:
                    o.run(self.change())
            elif r.random() < .5:
                o.run("BEGIN")
                o.run(self.change())
            else:
                o.run(r.choice([self.change, self.change, self.index])(), count=False)
        elif self.w.in_xact():
            self.transaction_step(self.w)
        elif self.gid is not None and r.random() < .4:
            self.w.run("%s PREPARED '@SIDE@%s'" % (r.choice(["COMMIT", "ROLLBACK", "ROLLBACK"]), self.gid))
            self.gid = None
        elif r.random() < .2:
            self.w.run(r.choice(["VACUUM t", "VACUUM (INDEX_CLEANUP off) t", "VACUUM FULL t",
                                 "VACUUM ANALYZE t", "VACUUM (TRUNCATE off) t", "SELECT pg_sleep(0.03)",
                                 "REINDEX TABLE t", "TRUNCATE log",
                                 # heap's indexes don't survive a rollback of these
                                 "ALTER TABLE t SET TABLESPACE place",
                                 "ALTER TABLE t SET TABLESPACE pg_default",
                                 "CREATE INDEX CONCURRENTLY IF NOT EXISTS t_cv ON t (v)",
                                 "DROP INDEX CONCURRENTLY IF EXISTS t_cv"]), count=False)
        elif r.random() < .1:
            self.w.run(self.definition(), count=False)
        else:
            for conn in self.w.conns:
                execute(conn, "SET zheap.rollback_foreground_size = %d" % r.choice([0, 256]))
            if r.random() < .15:
                self.bare_for_a_while()
                return
            self.w.run("BEGIN")
            self.w.depth = 0

    def play(self, steps):
        self.w.run("INSERT INTO t (id, k, v, pad, r) SELECT g, g, 0, repeat('x', 30), int4range(g, g + 1) "
                   "FROM generate_series(1, 300) g")
        for i in range(steps):
            self.step()
            if not self.w.in_xact():
                self.w.run("BEGIN")
                self.look(self.w)
                self.w.run("ROLLBACK")
                if i % 5 == 0:
                    self.check()
        for x in [self.w, self.other] + self.readers:
            if x.in_xact():
                x.run("ROLLBACK")
        if self.gid is not None:
            self.w.run("ROLLBACK PREPARED '@SIDE@%s'" % self.gid)
            self.gid = None
        self.w.run("BEGIN")
        self.look(self.w)
        self.w.run("SELECT what FROM log")
        self.w.run("ROLLBACK")
        self.check()

    def close(self):
        if self.gid is not None:
            for conn, side in zip(self.w.conns, ("a", "b")):
                if self.w.in_xact():
                    execute(conn, "ROLLBACK")
                execute(conn, "ROLLBACK PREPARED '%s%s'" % (side, self.gid))
            self.gid = None
        for x in [self.w, self.other] + self.readers:
            x.close()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-10")
    ap.add_argument("--steps", type=int, default=250)
    ap.add_argument("--am", default="zheap")
    ap.add_argument("--debug-seed", type=int, default=0)
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--keep", action="store_true")
    args = ap.parse_args()
    first, last = (args.seeds.split("-") * 2)[:2]
    become_ordinary(__file__)

    cluster = Cluster(args.bindir)
    cluster.init(SETTINGS + "zheap.debug_seed = %d\n" % args.debug_seed
                 if args.debug_seed else SETTINGS)
    cluster.start()
    conn = psycopg2.connect(cluster.dsn())
    conn.autocommit = True
    execute(conn, "CREATE TABLESPACE place LOCATION ''")
    conn.close()
    failed = 0
    for seed in range(int(first), int(last) + 1):
        history = None
        try:
            history = History(cluster, seed, args.am, args.verbose)
            history.play(args.steps)
            history.close()
            faults = cluster.log_faults()
            if faults:
                raise Difference("server log: %s" % faults[:5])
            print("seed %d: %d steps, no difference" % (seed, args.steps), flush=True)
        except (Difference, psycopg2.Error) as e:
            failed += 1
            print("seed %d: DIFFERENCE\n%s" % (seed, e), flush=True)
            if isinstance(e, psycopg2.Error):
                traceback.print_exc()
            if history is not None:
                print("\n".join(x for x in history.lines if "SET LOCAL" not in x and "looking" not in x))
            print("server log: %s" % cluster.log_faults()[:5], flush=True)
            if args.keep:
                break
            try:
                history.close()
                psycopg2.connect(cluster.dsn()).close()
            except (psycopg2.Error, AttributeError):
                cluster.kill()
                cluster.start()
    cluster.drop(args.keep)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
