"""Skew: SERIALIZABLE transactions that must not miss each other.

Rows are in groups.  A transaction reads its group, by some plan; if no row of
it is set it sets one or adds a row that is set, else it clears all that it
saw.  One after the other, a group never has more than one row set; two that
overlook each other set two.  Meanwhile the table is rewritten, gets and loses
columns and indexes, and an old snapshot keeps versions.

One thread plays all sessions, so the seed repeats the history.  A session
changes no row that another one has changed and not committed: nobody waits.
"""
import random

import psycopg2

from common import Wrong, at_rest, settings, throwaway

GROUPS, ROWS, NSESSIONS = 5, 3, 4
LIMIT = {"40001", "55P03", "40P01"}
PLANS = ["on,off,off", "off,on,off", "off,off,on", "off,on,on"]
READS = ["SELECT id, v FROM t WHERE g = {g}",
         "SELECT id, v FROM t WHERE g = {g} ORDER BY id",
         "SELECT id, v FROM t WHERE id BETWEEN {g} * 1000 AND {g} * 1000 + 999",
         "SELECT id, v FROM t WHERE g = {g} AND id > 0",
         "SELECT id, v FROM t WHERE g = {g} FOR KEY SHARE",
         "SELECT id, v FROM t WHERE g = {g} AND length(s) >= 0"]


class Session:
    def __init__(self, conn):
        self.conn, self.cur = conn, conn.cursor()
        self.phase = 0
        self.group = None
        self.wrote = set()
        self.seen = {}


class Skew:
    def __init__(self, bindir, seed, am="zheap"):
        self.r = random.Random(seed)
        self.am = am
        self.cluster = throwaway.Cluster(bindir)
        drawn = settings(seed) if am == "zheap" else ""
        self.cluster.init("autovacuum = off\n" + drawn)
        self.cluster.start()
        self.history = []
        self.counter = 0
        self.columns = []
        self.commits = self.failures = 0

    def connect(self):
        conn = psycopg2.connect(self.cluster.dsn())
        conn.autocommit = True
        return conn

    def run(self, cur, sql, who="monitor"):
        self.history.append("%s: %s" % (who, sql))
        cur.execute(sql)
        return cur.fetchall() if cur.description else None

    def play(self, steps):
        r = self.r
        keeper = self.connect().cursor()
        keeper.execute("CREATE EXTENSION zheap_am; CREATE EXTENSION amcheck")
        keeper.execute("SET default_table_access_method = " + self.am)
        for sql in ("CREATE TABLE x (a int)",
                    "CREATE TABLE t (id int PRIMARY KEY, junk int, g int, v int, "
                    "s text) WITH (fillfactor = %d)" % r.choice([20, 100]),
                    "CREATE INDEX t_g ON t (g)",
                    "INSERT INTO t SELECT g * 1000 + i, 7, g, 0, repeat('s', g * 20) "
                    "FROM generate_series(1, %d) g, generate_series(1, %d) i" % (
                        GROUPS, ROWS)):
            self.run(keeper, sql)
        keeper.execute("SET lock_timeout = '50ms'")
        sessions = [Session(self.connect()) for _ in range(NSESSIONS)]
        old = None
        for n in range(steps):
            x = r.random()
            if x < 0.08:
                self.keep(keeper)
            elif x < 0.11:
                old = self.renew(old)
            elif x < 0.13:
                old = self.scene(sessions, keeper, old)
            else:
                i = r.randrange(NSESSIONS)
                self.step(i, sessions)
            if n % 5 == 0:
                self.check(keeper)
        for s in sessions:
            s.conn.close()
        if old is not None:
            old.connection.close()
        self.check(keeper)
        if self.am == "zheap":
            at_rest(lambda sql: self.run(keeper, sql))
        faults = self.cluster.log_faults()
        if faults:
            raise Wrong("server log: %s" % faults[:4])

    def renew(self, old):
        """A snapshot that keeps versions."""
        if old is not None:
            old.connection.close()
        old = self.connect().cursor()
        self.run(old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM x", "old")
        return old

    def scene(self, sessions, keeper, old):
        """All have snapshots, and none has locked the table, when it is
        rewritten; older ones keep versions of rows that changed lately."""
        r = self.r
        for i, s in enumerate(sessions):
            self.run(s.cur, "ROLLBACK", "s%d" % i)
            s.phase, s.wrote = 0, set()
        if r.random() < 0.8:
            old = self.renew(old)
        for _ in range(r.randrange(4)):
            self.run(keeper, "UPDATE t SET s = s || 'k', v = 0 WHERE g = %d" %
                     r.randrange(1, GROUPS + 1), "keeper")
        for _ in range(r.randrange(3)):
            self.keep(keeper)
        groups = r.sample(range(1, GROUPS + 1), 2)
        for i, s in enumerate(sessions):
            self.step(i, sessions)
            self.run(s.cur, "SELECT * FROM x", "s%d" % i)
            s.group = r.choice(groups)
        self.run(keeper, r.choice(["VACUUM FULL t", "CLUSTER t USING t_g", "VACUUM t"]),
                 "keeper")
        return old

    def check(self, cur):
        rows = self.run(cur, "SELECT g, sum(v) FROM t GROUP BY g HAVING sum(v) > 1")
        if rows:
            raise Wrong("groups with more than one row set: %s" % rows)

    def step(self, i, sessions):
        r, s = self.r, sessions[i]
        who = "s%d" % i
        try:
            if s.phase == 0:
                self.run(s.cur, "BEGIN ISOLATION LEVEL SERIALIZABLE", who)
                for name, value in zip(("seqscan", "indexscan", "bitmapscan"),
                                       r.choice(PLANS).split(",")):
                    s.cur.execute("SET LOCAL enable_%s = %s" % (name, value))
                if r.random() < 0.7:
                    self.run(s.cur, "SELECT * FROM x", who)
                s.group = r.randrange(1, GROUPS + 1)
                s.wrote, s.seen = set(), {}
            elif s.phase == 1:
                read = r.choice(READS[:4] + READS[5:])
                s.seen = dict(self.run(s.cur, read.format(g=s.group), who))
            elif s.phase == 2 and r.random() < 0.3:
                self.run(s.cur, "SAVEPOINT a", who)
            elif s.phase <= 3:
                s.phase = 3
                self.write(s, who, sessions)
            else:
                self.run(s.cur, "COMMIT" if r.random() < 0.9 else "ROLLBACK", who)
                self.commits += 1
                s.wrote = set()
                s.phase = -1
            s.phase += 1
        except psycopg2.Error as e:
            if e.pgcode not in LIMIT:
                raise Wrong("%s: %s %s" % (who, e.pgcode, e))
            self.failures += 1
            self.run(s.cur, "ROLLBACK", who)
            s.phase, s.wrote = 0, set()

    def write(self, s, who, sessions):
        r = self.r
        taken = set().union(*(x.wrote for x in sessions if x is not s))
        ones = [k for k, v in s.seen.items() if v]
        if ones:
            if taken & set(ones):
                return
            for k in ones:
                self.run(s.cur, r.choice([
                    "UPDATE t SET v = 0 WHERE id = %d", "UPDATE t SET v = 0, s = 'n' "
                    "WHERE id = %d", "DELETE FROM t WHERE id = %d"]) % k, who)
            s.wrote |= set(ones)
            return
        free = [k for k in s.seen if k not in taken]
        if not free or r.random() < 0.3:
            self.counter += 1
            k = s.group * 1000 + 10 + self.counter % 980
            if k in taken or k in s.seen:
                return
            s.wrote.add(k)
            self.run(s.cur, "INSERT INTO t (id, g, v, s) VALUES (%d, %d, 1, 'i')" % (
                k, s.group), who)
            return
        k = r.choice(free)
        s.wrote.add(k)
        self.run(s.cur, r.choice([
            "UPDATE t SET v = 1 WHERE id = %d",
            "UPDATE t SET v = 1, s = repeat('u', 300) WHERE id = %d",
            "UPDATE t SET v = 1, s = (SELECT string_agg(md5(g::text), '') FROM "
            "generate_series(1, 100) g) WHERE id = %d"]) % k, who)

    def keep(self, cur):
        r = self.r
        self.counter += 1
        sql = r.choice(["VACUUM FULL t", "VACUUM FULL t", "CLUSTER t USING t_g",
                        "VACUUM t", "column", "column", "drop", "drop",
                        "REINDEX TABLE t", "CREATE INDEX ON t (v)",
                        "ALTER TABLE t ALTER s SET STORAGE EXTERNAL"])
        if sql == "column":
            self.columns.append("c%d" % self.counter)
            sql = "ALTER TABLE t ADD COLUMN c%d %s" % (self.counter, r.choice([
                "int", "int DEFAULT 5", "text DEFAULT 'd'"]))
        elif sql == "drop":
            sql = "ALTER TABLE t DROP COLUMN IF EXISTS " + (
                self.columns.pop(0) if self.columns else "junk")
        try:
            self.run(cur, sql, "keeper")
        except psycopg2.Error as e:
            if e.pgcode not in LIMIT:
                raise Wrong("keeper: %s %s" % (e.pgcode, e))
