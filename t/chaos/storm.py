"""Storm: the crash torture's clients, ledger and twin, while others meddle.

Meddlers drop and create indexes, triggers and constraints in transactions that
mostly roll back, lock the table in all modes at any moment, rewrite a side
table, end what others prepared, copy a database in which transactions abort,
read a logical slot, cancel and terminate, take memory away.  At points of the
code processes sleep, fail and die.  A storm ends with a kill of the server or
with a rest, in which nothing may be left behind.
"""
import contextlib
import os
import queue
import random
import re
import resource
import sys
import threading
import time

import psycopg2

from common import Wrong, at_rest, settings, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "torture"))
import torture as base  # noqa: E402

# what cancels, limits, DDL beside DDL and errors at points may answer
base.EXPECTED |= {"53100", "53200", "53300", "25P02", "42P01", "42P07", "42704", "42710",
                  "55006", "42P04", "3D000", "55000", "23514", "42703", "0A000",
                  "42P16", "2BP01", "42809", "53400", "58P01"}
MODES = ["ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE",
         "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"]

SCHEMA = """
CREATE FUNCTION lock_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'LOCK TABLE account IN ' || TG_ARGV[0] || ' MODE NOWAIT';
	RETURN NEW;
END $$;
CREATE TABLE side (id serial PRIMARY KEY, v int, t text) USING zheap;
CREATE INDEX side_v ON side (v);
CREATE TABLE parent (id int PRIMARY KEY, n int) USING zheap;
CREATE INDEX parent_n ON parent (n);
INSERT INTO parent VALUES (1, 0);
CREATE TABLE child (id serial, pid int REFERENCES parent) USING zheap"""
# rows of committed transactions aren't negative
LIVE = """
CREATE EXTENSION zheap_am;
CREATE TABLE pairs (id int PRIMARY KEY, v int, t text) USING zheap;
CREATE INDEX pairs_v ON pairs (v);
INSERT INTO pairs SELECT g, g, repeat('p', g % 200) FROM generate_series(1, 400) g"""


class Storm(base.Torture):
    def __init__(self, args):
        super().__init__(args)
        r = self.random
        self.ended = queue.Queue()		# what was prepared, for other sessions
        # Whoever decodes isn't disturbed: after an error amid a subtransaction
        # with large values core's ReorderBufferCleanupTXN() takes back chunks
        # whose subtransaction it has freed, on heap too.
        self.decoding = threading.Lock()
        self.logical = r.random() < 0.25
        self.meddlers = r.sample([self.alter, self.alter, self.lock, self.side,
                                  self.copy, self.kill_one, self.limit,
                                  self.long_rollback, self.kill_one], 5)
        self.crashes = r.choice([0, 0, 0, 20, 100])
        self.errors = r.choice([0, 0, 50, 200])
        more = random.Random(args.seed * 13 + 5)
        self.no_room = more.choice([0, 0, 20, 200])
        self.families = more.choice([0, 0, 6])

    def settings(self, sync=False, source=None):
        r = self.random
        text = super().settings(sync, source)
        # who waits for room for an xact slot may do so in a circle
        drawn = settings(self.args.seed, ["xact-slots-kept"] if self.families
                         else []).split("\n")
        text += "\n".join(x for x in drawn if "debug" in x or "discard_naptime" in x
                          or "max_connections" in x or "in_place" in x)
        text += "\nzheap.debug_errors = %d\nzheap.debug_crashes = %d\n" % (
            self.errors, self.crashes)
        text += "zheap.debug_no_room = %d\n" % self.no_room
        text += "max_prepared_transactions = 40\n"
        if self.logical:
            text += "wal_level = logical\n"
        if r.random() < 0.3:
            text += "zheap.debug_points = 0\n"
        return text

    def admin(self, sql, database="postgres"):
        conn = psycopg2.connect(self.node.dsn(database), options="-c lock_timeout=0")
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute(sql)
        rows = cur.fetchall() if cur.description else None
        conn.close()
        return rows

    def run(self):
        self.node.init("include 'torture.conf'\n")
        with self.calm():
            self.write_settings(self.node)
        self.node.start()
        conn = psycopg2.connect(self.node.dsn())
        conn.cursor().execute("SET zheap.debug_points = 0;" + base.SCHEMA)
        conn.cursor().execute(SCHEMA)
        conn.commit()
        conn.close()
        self.admin("CREATE DATABASE live")
        self.admin("SET zheap.debug_points = 0; " + LIVE, "live")
        if self.logical:
            try:
                self.admin("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
            except psycopg2.Error:
                self.logical = False
        for cycle in range(1, self.args.cycles + 1):
            last = cycle == self.args.cycles
            rest = last or self.random.random() < 0.5
            self.weather(rest)
            if rest:
                self.rest(cycle)
            else:
                self.restart()
                self.check(cycle, False)
            self.check_log(self.node)
        self.node.stop()
        self.check_log(self.node)

    def restart(self):
        # what dies at points by itself isn't wanted in recovery and checks
        with self.calm():
            super().restart()

    @contextlib.contextmanager
    def calm(self):
        """Settings without errors and deaths at points."""
        drawn = self.crashes, self.errors, self.no_room
        self.crashes = self.errors = self.no_room = 0
        yield drawn
        self.crashes, self.errors, self.no_room = drawn

    def weather(self, rest):
        """A while of load; ends with a kill unless there is to be rest."""
        self.stop.clear()
        while not self.ended.empty():	# a client may have come late
            self.ended.get()
        self.write_settings(self.node)
        self.node.wait_ready().close()
        try:
            self.admin("SELECT pg_reload_conf()")
        except psycopg2.Error:
            pass
        jobs = [(self.client, (i,)) for i in range(self.args.clients)]
        jobs += [(self.reader, (False,)), (self.keeper, ()), (self.resolver, ())]
        jobs += [(self.meddle, (m,)) for m in self.meddlers]
        jobs += [(self.family, ())] * self.families
        if self.logical:
            jobs.append((self.meddle, (self.decode,)))
        threads = [threading.Thread(target=f, args=a, daemon=True) for f, a in jobs]
        for t in threads:
            t.start()
        self.stop.wait(self.random.uniform(0.5, 1.5) * self.args.seconds)
        if not rest:
            self.node.kill()
            self.kills += 1
        self.stop.set()
        end = time.time() + 60
        for t in threads:
            t.join(max(end - time.time(), 0.1))
        if any(t.is_alive() for t in threads):
            raise base.Lost("a session doesn't end: %s" % self.admin(
                "SELECT pid, state, wait_event, query FROM pg_stat_activity"))
        if self.failures:
            raise base.Lost("; ".join(self.failures[:5]))

    def rest(self, cycle):
        crashes = self.crashes
        with self.calm():
            self.write_settings(self.node)
        self.node.configure("torture.conf", "zheap.debug_points = 0\nlock_timeout = 0\n")
        if crashes:
            # until a process has read the settings it may die
            self.node.kill()
            self.node.launch()
        conn = self.node.wait_ready()
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("SELECT pg_reload_conf()")
        if self.logical:
            for _ in range(100):
                try:
                    cur.execute("SELECT count(*) FROM pg_logical_slot_get_changes("
                                "'s', NULL, NULL)")
                    break
                except psycopg2.Error as e:
                    if e.pgcode != "55006":
                        raise
                    time.sleep(0.1)
            cur.execute("SELECT pg_drop_replication_slot('s')")
            self.logical = False
        for name, in self.admin("SELECT datname FROM pg_database WHERE datname LIKE 'copy%'"):
            cur.execute("DROP DATABASE %s WITH (FORCE)" % name)
        conn.close()
        self.check(cycle, True)

        def run(sql):
            return self.admin(sql)
        at_rest(run)
        self.no_faults(self.admin("SELECT count(*), sum(v) FROM side HAVING "
                                  "coalesce(sum(v), 0) <> 0"), "side table")
        said = warnings(self.node)
        if said and not self.kills and not crashes:
            raise Wrong("server log: " + "; ".join(said[:4]))

    @staticmethod
    def half_snapshots(node):
        """Processes in which core's GetSnapshotData() got memory for the first
        of its arrays only; the next time it takes the second for granted.  Its
        error has no detail, as those of palloc() have."""
        with open(node.logfile, errors="replace") as f:
            lines = f.read().splitlines()
        found = [re.search(r"\[(\d+)\] 53200 ERROR: +out of memory$", a)
                 for a, b in zip(lines, lines[1:]) if "53200 DETAIL:" not in b]
        return ["(PID %s) was terminated by signal 11" % x.group(1) for x in found if x]

    def check_log(self, node):
        # what is left to the workers for lack of memory is legal
        faults = [x for x in node.log_faults() if "out of memory" not in x
                  and "Cannot allocate memory" not in x]
        if faults:
            known = self.half_snapshots(node)
            faults = [x for x in faults if not any(y in x for y in known)]
        if faults:
            raise base.Lost("log of %s: %s" % (node.name, "\n".join(faults[:8])))

    def family(self):
        """Children, and changes of their parent that leave its key alone: for
        these heap's transactions never wait in a circle."""
        def add(conn, r):
            cur = conn.cursor()
            cur.execute("INSERT INTO child (pid) VALUES (1)")
            if r.random() < 0.3:
                time.sleep(0.01)
            try:
                cur.execute("UPDATE parent SET n = n + 1 WHERE id = 1")
            except psycopg2.Error as e:
                if e.pgcode == "40P01":
                    self.fail("parent and children: %s" % e)
                raise
            self.commit(conn)
        self.guard(add, random.Random(self.random.random()))

    # ---- what is prepared is ended by others

    def two_phase(self, conn, r, key):
        state = self.ledger.state
        cur = conn.cursor()
        state[key] = "P?"
        try:
            cur.execute("PREPARE TRANSACTION %s", (base.gid_of(key),))
        except psycopg2.Error as e:
            if e.pgcode is not None:
                state[key] = "no"
            raise
        state[key] = "P"
        conn.commit()
        self.ended.put((time.time() + r.choice([0, 0.02, 0.2]), key))

    def resolver(self):
        def resolve(conn, r):
            conn.autocommit = True
            try:
                due, key = self.ended.get(timeout=0.1)
            except queue.Empty:
                return
            time.sleep(max(due - time.time(), 0))
            yes = r.random() < 0.4
            state = self.ledger.state
            state[key] = "Pyes?" if yes else "Pno?"
            # an error doesn't tell: a cancel may come after the deed
            conn.cursor().execute("%s PREPARED '%s'" % (
                "COMMIT" if yes else "ROLLBACK", base.gid_of(key)))
            state[key] = "yes" if yes else "no"
        self.guard(resolve, random.Random(self.random.random()))
        while not self.ended.empty():
            self.ended.get()

    # ---- meddlers: one step each, with a connection that survives errors

    def meddle(self, what):
        def step(conn, r):
            time.sleep(r.random() * 0.1)
            what(conn, r)
        self.guard(step, random.Random(self.random.random()))

    def alter(self, conn, r):
        """In a transaction that is mostly rolled back, with rows changed."""
        cur = conn.cursor()
        cur.execute("SET LOCAL lock_timeout = '100ms'")
        savepoint = r.random() < 0.4
        if savepoint:
            self.op(cur, r)
            cur.execute("SAVEPOINT a")
        n = r.randrange(3)
        cur.execute(r.choice([
            "DROP INDEX IF EXISTS account_k", "DROP INDEX IF EXISTS account_k",
            "CREATE INDEX IF NOT EXISTS account_k ON account (k)",
            "CREATE INDEX IF NOT EXISTS account_n%d ON account (note)" % n,
            "DROP INDEX IF EXISTS account_n%d" % n,
            "ALTER TABLE account ADD CONSTRAINT c%d CHECK (id > 0)" % n,
            "ALTER TABLE account DROP CONSTRAINT IF EXISTS c%d" % n,
            "CREATE OR REPLACE TRIGGER l%d BEFORE UPDATE ON account FOR EACH ROW "
            "WHEN (NEW.id %% 50 = 7) EXECUTE FUNCTION lock_account('%s')" % (
                n, r.choice(MODES[3:])),
            "DROP TRIGGER IF EXISTS l%d ON account" % n,
            "ALTER INDEX IF EXISTS account_k SET (fillfactor = 50)",
            "REINDEX TABLE account", "ALTER TABLE account SET (fillfactor = %d)" %
            r.choice([20, 100]), "CREATE EXTENSION IF NOT EXISTS pgcrypto",
            "ALTER TABLE account SET TABLESPACE pg_default"]))
        for _ in range(r.randrange(4)):
            self.op(cur, r)
        if savepoint and r.random() < 0.6:
            cur.execute("ROLLBACK TO a")
            self.op(cur, r)
        if r.random() < 0.7:
            conn.rollback()
        else:
            conn.commit()

    def lock(self, conn, r):
        cur = conn.cursor()
        cur.execute("SET TRANSACTION ISOLATION LEVEL " + r.choice(
            ["READ COMMITTED", "REPEATABLE READ"]))
        cur.execute("SELECT 1 FROM receipt LIMIT 1")
        time.sleep(r.choice([0, 0.01, 0.05]))
        cur.execute("SET LOCAL lock_timeout = '100ms'")
        cur.execute("LOCK TABLE account IN %s MODE" % r.choice(MODES))
        self.op(cur, r)
        cur.execute("INSERT INTO account SELECT id, 0, 1, 'l' FROM (SELECT %s AS id "
                    "UNION ALL SELECT %s) q ON CONFLICT (id) DO UPDATE SET note = 'L'",
                    (r.randrange(1, 100), r.randrange(100, 200)))
        conn.rollback() if r.random() < 0.5 else conn.commit()

    def side(self, conn, r):
        """Rows come in pairs whose sum is 0, whatever becomes of the table."""
        cur = conn.cursor()
        cur.execute("SET LOCAL lock_timeout = '300ms'")

        def pairs():
            n = r.choice([1, 5, 60])
            cur.execute("INSERT INTO side (v, t) SELECT x * g, repeat('s', %s) FROM "
                        "generate_series(1, %s) g, (VALUES (1), (-1)) q (x)",
                        (r.randrange(300), n))
        pairs()
        if r.random() < 0.3:
            cur.execute("SAVEPOINT a")
        cur.execute(r.choice([
            "ALTER TABLE side SET ACCESS METHOD heap",
            "ALTER TABLE side SET ACCESS METHOD zheap",
            "ALTER TABLE side SET ACCESS METHOD zheap",
            "ALTER TABLE side SET UNLOGGED", "ALTER TABLE side SET LOGGED",
            "TRUNCATE side", "DROP INDEX IF EXISTS side_v",
            "CREATE INDEX IF NOT EXISTS side_v ON side (v)",
            "ALTER TABLE side ADD COLUMN IF NOT EXISTS w int DEFAULT 3",
            "ALTER TABLE side DROP COLUMN IF EXISTS w",
            "ALTER TABLE side ALTER v TYPE bigint", "ALTER TABLE side ALTER v TYPE int",
            "UPDATE side SET v = v * 2 WHERE abs(v) < 1000",
            "UPDATE side SET t = t || 'x' WHERE id % 3 = 0",
            "DELETE FROM side WHERE abs(v) % 3 = 1"]))
        pairs()
        cur.execute("SELECT coalesce(sum(v), 0), count(*) % 2 FROM side")
        row = cur.fetchone()
        if row[0] != 0 or row[1] != 0:
            self.fail("side table: %s" % (row,))
        conn.rollback() if r.random() < 0.5 else conn.commit()

    def copy(self, conn, r):
        """A database is copied while its sessions abort and go."""
        def live():
            try:
                c = psycopg2.connect(self.node.dsn("live"))
                cur = c.cursor()
                cur.execute("SET zheap.rollback_foreground_size = %s" % r.choice([0, 0, 256]))
                cur.execute("UPDATE pairs SET v = -v WHERE id %% %s = 0" % r.choice([1, 7, 90]))
                cur.execute("INSERT INTO pairs SELECT g, -1, 'never' FROM "
                            "generate_series(1000, %s) g" % r.choice([1001, 1300]))
                if r.random() < 0.3:
                    cur.execute("DELETE FROM pairs WHERE id % 2 = 0")
                time.sleep(r.choice([0, 0.05, 0.3]))
                if r.random() < 0.7:
                    c.rollback()
                c.close()
            except psycopg2.Error:
                pass
        conn.rollback()
        conn.autocommit = True
        cur = conn.cursor()
        name = "copy%d" % r.randrange(10 ** 6)
        t = threading.Thread(target=live, daemon=True)
        t.start()
        time.sleep(r.choice([0, 0.01, 0.05]))
        try:
            cur.execute("CREATE DATABASE %s TEMPLATE live STRATEGY %s" % (
                name, r.choice(["wal_log", "file_copy"])))
            there = True
        except psycopg2.Error as e:
            if e.pgcode not in ("55006", "57014"):
                raise
            there = False
        t.join()
        if there:
            rows = self.admin("SET enable_seqscan = %s; SELECT count(*), min(v), "
                              "count(*) FILTER (WHERE v < 0) FROM pairs WHERE v > -9999"
                              % r.choice(["on", "off"]), name)
            if rows != [(400, 1, 0)]:
                self.fail("copy of a database: %s" % rows)
            rows = self.admin("SELECT * FROM zheap_check('pairs')", name)
            if rows:
                self.fail("copy of a database: zheap_check: %s" % rows[:3])
            cur.execute("DROP DATABASE " + name)

    def long_rollback(self, conn, r):
        """More than a session rolls back by itself, in released savepoints."""
        cur = conn.cursor()
        cur.execute("SET LOCAL zheap.rollback_foreground_size = %s" % r.choice([0, 4, 256]))
        for i in range(r.choice([1, 3])):
            cur.execute("SAVEPOINT a")
            cur.execute("UPDATE account SET note = note || 'l', k = k + %s WHERE id %% 7 = %s",
                        (r.randrange(2), i))
            cur.execute("INSERT INTO side (v) SELECT g FROM generate_series(1, %s) g" %
                        r.choice([2, 400]))
            cur.execute(r.choice(["RELEASE a", "RELEASE a", "ROLLBACK TO a"]))
        conn.rollback()

    def kill_one(self, conn, r):
        conn.rollback()
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND backend_type IN ('client backend', 'undo rollback worker')")
        rows = cur.fetchall()
        if rows:
            call = r.choice(["pg_cancel_backend"] * 3 + ["pg_terminate_backend"])
            with self.decoding:
                cur.execute("SELECT %s(%%s)" % call, (r.choice(rows)[0],))

    def limit(self, conn, r):
        """No more memory for a session, for a moment."""
        conn.rollback()
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND backend_type = 'client backend'")
        rows = cur.fetchall()
        if not rows:
            return
        with self.decoding:
            self.limit_memory(r.choice(rows)[0], r)

    @staticmethod
    def limit_memory(pid, r):
        try:
            # what the stack takes isn't limited: a process whose stack may not
            # grow is killed
            with open("/proc/%d/status" % pid) as f:
                size = [int(x.split()[1]) for x in f if x.startswith("VmData:")][0] * 1024
            free = resource.RLIM_INFINITY
            resource.prlimit(pid, resource.RLIMIT_DATA,
                             (size + r.choice([0, 100000, 2000000]), free))
            time.sleep(r.choice([0.02, 0.1]))
            resource.prlimit(pid, resource.RLIMIT_DATA, (free, free))
        except (OSError, ValueError, IndexError):
            pass

    def decode(self, conn, r):
        conn.rollback()
        conn.autocommit = True
        with self.decoding:
            conn.cursor().execute("SELECT count(*) FROM pg_logical_slot_get_changes("
                                  "'s', NULL, NULL)")
