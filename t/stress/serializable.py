#!/usr/bin/python3
"""Are histories of SERIALIZABLE transactions serializable?

Random transactions of several sessions read and change a few rows, in savepoints
too, while others vacuum, rewrite, lock and alter the table.  Each change of a row
appends a number of its own to what the row holds, so that what a read saw tells
which changes came before it, and in which order; rows are inserted under keys
that don't come back.  At the end the conflicts between the transactions that
committed are known: who replaced what whom had written, who read it, who read
it before it was replaced.  They must have no cycle.  Deterministic, but for who
is chosen to fail.

usage: serializable.py --bindir DIR [--seeds FIRST-LAST] [--steps 400]
                       [--am heap] [--level "REPEATABLE READ"]
                       [--debug-seed N] [--verbose]

--level "REPEATABLE READ" tests the test: it finds write skew.
"""
import argparse
import os
import random
import sys
import time

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INERROR

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, become_ordinary  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
max_connections = 60
max_pred_locks_per_transaction = 1000
max_pred_locks_per_relation = 5000
max_pred_locks_per_page = 500
zheap.discard_naptime = 20
log_min_messages = warning
log_min_error_statement = panic
"""
NSESSIONS = 5
NROWS = 12
INDEX = ("SET enable_seqscan = off; SET enable_bitmapscan = off; "
         "SET enable_indexscan = on; SET enable_indexonlyscan = on")
BITMAP = ("SET enable_seqscan = off; SET enable_indexscan = off; "
          "SET enable_indexonlyscan = off; SET enable_bitmapscan = on")


THERE = "there"		# read of a row that tells no more than that


class Fault(Exception):
    """Not serializable, or damaged."""


class Transaction:
    def __init__(self, number):
        self.number = number
        self.reads = []		# (id, changes seen as a tuple, THERE, or None: no such row)
        self.writes = []	# (id, change)
        self.committed = False

    def __repr__(self):
        return "T%d" % self.number


class Session:
    def __init__(self, dsn, n):
        self.conn = psycopg2.connect(dsn)
        self.conn.autocommit = True
        self.n = n
        self.xact = None
        self.marks = []		# of savepoints: how many writes and reads there were
        self.execute("SET lock_timeout = '20ms'")

    def execute(self, sql):
        cur = self.conn.cursor()
        try:
            cur.execute(sql)
        except psycopg2.Error as e:
            if e.pgcode is None or e.pgcode.startswith("XX") or e.pgcode == "57P01":
                raise Fault("%s\n%s" % (sql, e))
            return e.pgcode, []
        return None, cur.fetchall() if cur.description else []

    def status(self):
        return self.conn.get_transaction_status()


class History:
    def __init__(self, cluster, seed, args):
        self.cluster, self.args = cluster, args
        self.r = random.Random(seed)
        self.lines = []
        self.changes = 0
        self.number = 0
        self.keys = list(range(1, NROWS + 1))
        self.newest = NROWS
        self.columns = []
        self.all = []
        self.admin = Session(cluster.dsn(), -1)
        am = args.am
        self.must("DROP TABLE IF EXISTS t, clock")
        self.must("CREATE TABLE clock (i int)")
        self.must("CREATE TABLE t (id int, k int, junk text, s text, pad text) USING " + am)
        self.must("CREATE UNIQUE INDEX t_id ON t (id); CREATE INDEX t_k ON t (k)")
        self.must("INSERT INTO t SELECT g, g %% 4, repeat('j', 20), ',0', repeat('p', %d) "
                  "FROM unnest(ARRAY%s) g" % (self.r.choice([0, 30, 300]), self.keys))
        # who wrote what was there before
        self.sessions = [Session(cluster.dsn(), i) for i in range(NSESSIONS)]
        self.old = Session(cluster.dsn(), NSESSIONS)
        self.errors = 0

    def must(self, sql):
        """A worker may have locked for a moment what another history left."""
        code, _ = self.admin.execute(sql)
        end = time.time() + 180
        while code == "55P03" and time.time() < end:
            code, _ = self.admin.execute(sql)
        if code is not None:
            raise Fault("%s: %s" % (sql, code))

    def say(self, text):
        self.lines.append(text)
        if self.args.verbose:
            print(text, flush=True)

    # ---- one session

    def begin(self, s, snapshot=False):
        self.number += 1
        s.xact = Transaction(self.number)
        s.marks = []
        s.execute(self.r.choice([INDEX, INDEX, BITMAP]))
        s.execute("BEGIN ISOLATION LEVEL %s" % self.args.level)
        if snapshot or self.r.random() < .8:
            s.execute("SELECT * FROM clock")
        self.say("%d: begin %r" % (s.n, s.xact))

    def failed(self, s, code):
        if s.status() == TRANSACTION_STATUS_INERROR:
            if s.marks and code in ("55P03", "23505") and self.r.random() < .7:
                self.rollback_to(s)
                return
            s.execute("ROLLBACK")
        self.say("%d: %r failed: %s" % (s.n, s.xact, code))
        self.errors += 1
        s.xact = None

    def rollback_to(self, s):
        i = self.r.randrange(len(s.marks))
        writes, reads = s.marks[i]
        # what it saw of its own changes says nothing, now that they are undone
        mine = set(x for x, _ in s.xact.writes[writes:])
        s.xact.reads[reads:] = [x for x in s.xact.reads[reads:] if x[0] not in mine]
        del s.xact.writes[writes:]
        del s.marks[i + 1:]
        s.execute("ROLLBACK TO s%d" % i)
        self.say("%d: rollback to s%d" % (s.n, i))

    def run(self, s, sql):
        code, rows = s.execute(sql)
        self.say("%d: %s%s" % (s.n, sql, " -> " + (code or repr(rows)[:200])))
        if code is not None:
            self.failed(s, code)
            return None
        return rows

    def seen(self, s, text):
        return tuple(int(x) for x in (text or "").split(",") if x)

    def note_read(self, s, wanted, rows):
        found = dict((i, self.seen(s, text)) for i, text in rows)
        for i in wanted:
            s.xact.reads.append((i, found.get(i)))

    def ids(self, n=None):
        return self.r.sample(self.keys, n or self.r.choice([1, 1, 1, 2]))

    def read(self, s):
        r = self.r
        x = r.random()
        if x < .6:
            ids = self.ids()
            rows = self.run(s, "SELECT id, s FROM t WHERE id IN (%s)" % ",".join(map(str, ids)))
        elif x < .66:
            # by an index alone, as a rule: only that they are there
            a = r.choice(self.keys)
            rows = self.run(s, "SELECT id FROM t WHERE id BETWEEN %d AND %d" % (a, a + 2))
            if rows is not None:
                found = [i for i, in rows]
                for i in range(a, a + 3):
                    s.xact.reads.append((i, THERE if i in found else None))
            return
        elif x < .75:
            a = r.choice(self.keys)
            ids = range(a, a + 3)
            rows = self.run(s, "SELECT id, s FROM t WHERE id BETWEEN %d AND %d" % (a, a + 2))
        elif x < .85:
            i = self.ids(1)[0]
            tid = s.execute("SELECT ctid FROM t WHERE id = %d" % i)
            if tid[0] is not None:
                self.failed(s, tid[0])
                return
            ids = [i]
            if not tid[1]:
                rows = []
            else:
                rows = self.run(s, "SELECT id, s FROM t WHERE %s AND id = %d" % (r.choice([
                    "ctid = '{0}'", "ctid = '{0}'" if self.args.am == "heap" else
                    # heap forgets these
                    "ctid >= '{0}' AND ctid <= '{0}'"]).format(tid[1][0][0]), i))
        else:
            k = r.randrange(4)
            ids = [i for i in range(1, self.newest + 5) if i % 4 == k]
            rows = self.run(s, "SELECT id, s FROM t WHERE k = %d" % k)
        if rows is not None:
            self.note_read(s, ids, rows)

    def write(self, s):
        r = self.r
        x = r.random()
        self.changes += 1
        c = self.changes
        if x < .65:
            i = self.ids(1)[0]
            more = r.choice(["", "", "", ", pad = repeat('p', %d)" % r.choice([0, 10, 100, 1500]),
                             ", k = k", ", junk = repeat('j', %d)" % r.choice([0, 20])])
            if self.columns and r.random() < .2 and "junk" not in more:
                more += ", %s = %d" % (r.choice(self.columns), c)
            if "junk" in more and "junk" not in self.has:
                more = ""
            # its own result tells what it replaced
            rows = self.run(s, "UPDATE t SET s = s || ',%d'%s WHERE id = %d RETURNING id, s" % (c, more, i))
            if rows is not None:
                if rows:
                    seen = self.seen(s, rows[0][1])
                    s.xact.reads.append((i, seen[:-1]))
                    s.xact.writes.append((i, c))
                else:
                    s.xact.reads.append((i, None))
        elif x < .75:
            i = self.ids(1)[0]
            rows = self.run(s, "DELETE FROM t WHERE id = %d RETURNING id, s" % i)
            if rows is not None:
                if rows:
                    s.xact.reads.append((i, self.seen(s, rows[0][1])))
                    s.xact.writes.append((i, -c))
                    if i in self.keys:
                        self.keys.remove(i)
                        self.newest += 1
                        self.keys.append(self.newest)
                else:
                    s.xact.reads.append((i, None))
        elif x < .9:
            i = self.ids(1)[0]
            rows = self.run(s, "INSERT INTO t (id, k, s) VALUES (%d, %d, ',%d') ON CONFLICT (id) %s RETURNING id, s" % (
                i, i % 4, c, r.choice(["DO NOTHING", "DO UPDATE SET s = t.s || ',%d'" % c])))
            if rows:
                seen = self.seen(s, rows[0][1])
                s.xact.reads.append((i, seen[:-1] if len(seen) > 1 else None))
                s.xact.writes.append((i, c))
            elif rows is not None and self.args.am != "heap":
                # heap forgets to lock what it found
                s.xact.reads.append((i, THERE))
        else:
            rows = self.run(s, "SELECT id, s FROM t WHERE id = %d FOR %s" % (
                self.ids(1)[0], r.choice(["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"])))
            if rows:
                self.note_read(s, [rows[0][0]], rows)

    def end(self, s):
        r = self.r
        if r.random() < .12:
            s.execute("ROLLBACK")
            self.say("%d: rollback %r" % (s.n, s.xact))
            s.xact = None
            return
        gid = None
        if r.random() < .1:
            gid = "g%d" % s.xact.number
            if self.run(s, "PREPARE TRANSACTION '%s'" % gid) is None:
                return
            code, _ = s.execute("COMMIT PREPARED '%s'" % gid)
            if code is not None:
                raise Fault("COMMIT PREPARED: " + code)
        else:
            code, _ = s.execute("COMMIT")
            self.say("%d: commit %r%s" % (s.n, s.xact, " -> " + code if code else ""))
            if code is not None:
                s.xact = None
                self.errors += 1
                return
        s.xact.committed = True
        self.all.append(s.xact)
        s.xact = None

    # ---- what goes on besides

    def besides(self):
        r = self.r
        x = r.random()
        if x < .2:
            if self.old.status() == TRANSACTION_STATUS_IDLE:
                self.old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM clock")
            else:
                self.old.execute("COMMIT")
            return
        if x < .5:
            sql = r.choice(["VACUUM FULL t", "CLUSTER t USING t_k", "CLUSTER t USING t_id", "VACUUM FULL t"])
        elif x < .7:
            sql = r.choice(["VACUUM t", "VACUUM (INDEX_CLEANUP off) t", "ANALYZE t", "SELECT pg_sleep(0.03)",
                            "REINDEX TABLE t"])
        elif x < .8 and len(self.columns) < 8:
            name = "a%d" % self.changes
            sql = "ALTER TABLE t ADD COLUMN IF NOT EXISTS %s %s" % (name, r.choice(["int", "int DEFAULT 5"]))
            code, _ = self.admin.execute(sql)
            self.say("admin: %s -> %s" % (sql, code))
            if code is None and name not in self.columns:
                self.columns.append(name)
            return
        elif x < .88:
            sql = "ALTER TABLE t DROP COLUMN IF EXISTS " + r.choice(self.columns + ["junk"])
        else:
            sql = r.choice(["ALTER TABLE t SET (toast_tuple_target = %d)" % r.choice([128, 2000]),
                            "ALTER TABLE t ALTER pad SET STORAGE " + r.choice(["external", "extended", "main"]),
                            "BEGIN; UPDATE t SET s = s || ',7777777', pad = 'x'; DELETE FROM t WHERE k = 2; ROLLBACK",
                            "BEGIN; LOCK TABLE t IN SHARE MODE; COMMIT",
                            "BEGIN; SELECT FROM t FOR SHARE; COMMIT"])
        code, _ = self.admin.execute(sql)
        if code is not None:
            self.admin.execute("ROLLBACK")
        self.say("admin: %s -> %s" % (sql, code))
        if "DROP COLUMN" in sql and code is None:
            name = sql.split()[-1]
            if name in self.columns:
                self.columns.remove(name)
            self.has.discard(name)

    def by_admin(self, sql):
        code, _ = self.admin.execute(sql)
        self.say("admin: %s -> %s" % (sql, code))
        return code is None

    def rewrite(self):
        """All sessions have snapshots and no locks when the table is rewritten,
        and an older one keeps the rows recent."""
        r = self.r
        for s in self.sessions:
            if s.xact is not None:
                self.end(s)
        self.old.execute("COMMIT")
        self.old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM clock")
        name = "b%d" % self.changes
        if r.random() < .5:
            self.by_admin("ALTER TABLE t ADD COLUMN %s int DEFAULT 5" % name)
        self.by_admin(r.choice(["UPDATE t SET pad = pad || 'q'", "UPDATE t SET k = k",
                                "UPDATE t SET id = -id; UPDATE t SET id = -id",
                                "UPDATE t SET pad = repeat('p', 1500)"]))
        if r.random() < .5:
            self.by_admin("ALTER TABLE t ADD COLUMN IF NOT EXISTS %s int DEFAULT 6" % name)
        if r.random() < .6:
            self.by_admin("UPDATE t SET pad = pad || 'r'")
        if r.random() < .8:
            self.by_admin("ALTER TABLE t DROP COLUMN IF EXISTS " + name)
        if r.random() < .3:
            self.by_admin("ALTER TABLE t SET (toast_tuple_target = 128)")
        for s in self.sessions:
            if r.random() < .8:
                self.begin(s, True)
        for _ in range(r.choice([1, 1, 2])):
            self.by_admin(r.choice(["VACUUM FULL t", "CLUSTER t USING t_id"]))
        if r.random() < .3:
            self.by_admin("ALTER TABLE t ADD COLUMN IF NOT EXISTS c%d text DEFAULT 'later'" % self.changes)

    def play(self, steps):
        r = self.r
        self.has = {"junk"}
        for _ in range(steps):
            if r.random() < .02:
                self.rewrite()
            if r.random() < .12:
                self.besides()
                continue
            s = r.choice(self.sessions)
            if s.xact is None:
                self.begin(s)
                continue
            x = r.random()
            if x < .18:
                self.end(s)
            elif x < .22 and len(s.marks) < 3:
                self.run(s, "SAVEPOINT s%d" % len(s.marks))
                s.marks.append((len(s.xact.writes), len(s.xact.reads)))
            elif x < .25 and s.marks:
                self.rollback_to(s)
            elif x < .65:
                self.read(s)
            else:
                self.write(s)
        for s in self.sessions:
            if s.xact is not None:
                self.end(s)
        self.judge()
        if self.args.am == "zheap":
            bad = self.admin.execute("SELECT * FROM zheap_check('t')")
            if bad[1]:
                raise Fault("zheap_check: %r" % bad[1][:5])

    # ---- the judge

    def judge(self):
        """The order of each row's changes follows from the longest thing seen."""
        order, writer = {}, {}
        code, rows = self.admin.execute("SELECT id, s FROM t")
        for i, text in rows:
            order[i] = self.seen(None, text)
        ended = {}
        for x in self.all:
            for i, c in x.writes:
                writer[abs(c)] = x
                if c < 0:
                    ended[i] = x
            for i, seen in x.reads:
                if seen not in (None, THERE) and i not in order:
                    order[i] = seen
        # of rows that were deleted: who deleted them saw all
        for x in self.all:
            for i, seen in x.reads:
                if seen not in (None, THERE) and i in ended and len(seen) > len(order.get(i, ())):
                    order[i] = seen
        edges = {}

        writer[0] = None	# there from the beginning

        def edge(a, b, why):
            if a is not b and a is not None:
                edges.setdefault(a, {}).setdefault(b, why)

        for i, changes in order.items():
            for c in changes:
                if c not in writer:
                    raise Fault("row %d has change %d of nobody who committed: %r" % (i, c, changes))
            for a, b in zip(changes, changes[1:]):
                edge(writer[a], writer[b], "%d: %d then %d" % (i, a, b))
            if i in ended and changes:
                edge(writer[changes[-1]], ended[i], "%d: %d then deleted" % (i, changes[-1]))
        for x in self.all:
            own = set(abs(c) for _, c in x.writes)
            for i, seen in x.reads:
                changes = order.get(i, ())
                if seen is None:
                    # before the insert, or after the delete: not always known
                    born = i > NROWS
                    if i in ended and ended[i] is not x and not born:
                        edge(ended[i], x, "%d: deleted, then not read" % i)
                    if born and changes and i not in ended and changes[0] not in own:
                        edge(x, writer[changes[0]], "%d: not read, then inserted" % i)
                    continue
                if seen == THERE:
                    if changes:
                        edge(writer[changes[0]], x, "%d: inserted, then there" % i)
                    if i in ended:
                        edge(x, ended[i], "%d: there before the delete" % i)
                    continue
                if tuple(changes[:len(seen)]) != seen:
                    raise Fault("%r read %r of row %d, which holds %r" % (x, seen, i, changes))
                if seen:
                    edge(writer[seen[-1]], x, "%d: %d, then read" % (i, seen[-1]))
                if len(seen) < len(changes):
                    if changes[len(seen)] not in own:
                        edge(x, writer[changes[len(seen)]], "%d: read before %d" % (i, changes[len(seen)]))
                elif i in ended and ended[i] is not x:
                    edge(x, ended[i], "%d: read before the delete" % i)
        cycle = find_cycle(edges)
        if cycle:
            raise Fault("not serializable:\n" + "\n".join(
                "  %r -> %r  row %s" % (a, b, edges[a][b]) for a, b in zip(cycle, cycle[1:] + cycle[:1])))

    def close(self):
        for s in self.sessions + [self.admin, self.old]:
            s.conn.close()


def find_cycle(edges):
    state, stack = {}, []

    def visit(a):
        state[a] = 1
        stack.append(a)
        for b in edges.get(a, {}):
            if state.get(b) == 1:
                return stack[stack.index(b):]
            if b not in state:
                found = visit(b)
                if found:
                    return found
        stack.pop()
        state[a] = 2
        return None

    sys.setrecursionlimit(100000)
    for a in list(edges):
        if a not in state:
            found = visit(a)
            if found:
                return found
    return None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-20")
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--am", default="zheap")
    ap.add_argument("--level", default="SERIALIZABLE")
    ap.add_argument("--debug-seed", type=int, default=0)
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    first, last = (args.seeds.split("-") * 2)[:2]
    become_ordinary(__file__)

    cluster = Cluster(args.bindir)
    cluster.init(SETTINGS + "zheap.debug_seed = %d\n" % args.debug_seed
                 if args.debug_seed else SETTINGS)
    cluster.start()
    Session(cluster.dsn(), 0).execute("CREATE EXTENSION zheap_am")
    failed = 0
    for seed in range(int(first), int(last) + 1):
        history = History(cluster, seed, args)
        try:
            history.play(args.steps)
            faults = cluster.log_faults()
            if faults:
                raise Fault("server log: %s" % faults[:5])
            print("seed %d: %d committed, %d failed, no cycle" % (
                seed, len(history.all), history.errors), flush=True)
        except Fault as e:
            failed += 1
            print("seed %d: FAULT\n%s" % (seed, e))
            print("\n".join(history.lines[-400:] if not args.verbose else []), flush=True)
        history.close()
    cluster.drop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
