"""Life: what happens to a cluster in years.

One session after the other changes a zheap table and its heap twin alike, in
two databases; what it rolls back is left to workers that may be paused or
missing.  In between the cluster is stopped, killed, started without the
library or without workers, its xids are advanced by pg_resetwal, everything is
frozen so that core cuts the commit log, databases are copied, others have the
workers waiting for a lock, and sometimes it is upgraded into a cluster that has
used more xids, or a standby with lower limits takes over, or somebody meets a
long aborted history, or prepared transactions end beside one that wrote behind,
or a rollback is marked as done when its pages belong to others.  After each
event the twins are compared.
"""
import os
import random
import shutil
import subprocess
import threading
import time

import psycopg2

from common import Wrong, at_rest, settings, throwaway

STEP = 1 << 20			# xids of a segment of the commit log
SCHEMA = """
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE TABLE z (id int PRIMARY KEY, k int, s text) USING zheap;
CREATE INDEX z_k ON z (k);
CREATE TABLE behind (a int, b text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, k int, s text) USING heap"""
TWIN = """
SELECT 'z', id, k, left(s, 9) FROM (SELECT * FROM z EXCEPT ALL SELECT * FROM h) a
UNION ALL
SELECT 'h', id, k, left(s, 9) FROM (SELECT * FROM h EXCEPT ALL SELECT * FROM z) b
LIMIT 6"""


class Life:
    without = ()			# names of events that don't happen
    only = ()				# of the only ones that do, if any

    def __init__(self, bindir, seed):
        self.r = random.Random(seed)
        self.seed = seed
        self.cluster = throwaway.Cluster(bindir)
        self.conf = {"autovacuum": "off", "max_worker_processes": "8",
                     "shared_preload_libraries": "'zheap_am'"}
        self.paused = False
        self.keep = []			# knobs that aren't drawn
        self.next = 0
        self.history = []
        self.copies = []
        self.opened = []

    def note(self, text):
        self.history.append(text)

    # ---- the cluster

    def configure(self, cluster=None, **conf):
        """Settings of the cluster, or of another one, which has others, too."""
        text = settings(self.seed, self.keep)
        if "''" == self.conf["shared_preload_libraries"]:
            text = "".join(x + "\n" for x in text.split("\n")
                           if not x.startswith("zheap."))
        else:
            text += "zheap.rollback_paused = %s\n" % ("on" if self.paused else "off")
        text += "".join("%s = %s\n" % x for x in {**self.conf, **conf}.items())
        with open(os.path.join((cluster or self.cluster).data, "life.conf"), "w") as f:
            f.write(text)

    def start(self):
        self.configure()
        self.cluster.start()

    def stop(self):
        for conn in self.opened:
            conn.close()
        self.opened = []
        self.cluster.stop()

    def connect(self, database="postgres"):
        conn = psycopg2.connect(self.cluster.dsn(database))
        conn.autocommit = True
        return conn

    def sql(self, sql, database="postgres"):
        conn = self.connect(database)
        try:
            cur = conn.cursor()
            cur.execute(sql)
            return cur.fetchall() if cur.description else None
        finally:
            conn.close()

    # ---- rows

    def change(self, cur):
        r = self.r
        for _ in range(r.choice([1, 2, 5])):
            a = r.randrange(1, 200)
            self.next += 1
            sql = r.choice([
                "UPDATE {0} SET s = s || 'u' WHERE id BETWEEN %d AND %d" % (a, a + 9),
                "UPDATE {0} SET k = k + 1 WHERE id = %d" % a,
                "UPDATE {0} SET s = repeat('%s', %d) WHERE id %% 9 = %d" % (
                    r.choice("abc"), r.choice([5, 200]), a % 9),
                "DELETE FROM {0} WHERE id BETWEEN %d AND %d" % (a, a + 4),
                "INSERT INTO {0} SELECT g, g %% 7, 'i' FROM generate_series(%d, %d) g "
                "ON CONFLICT (id) DO NOTHING" % (a, a + r.choice([1, 20])),
                "INSERT INTO {0} VALUES (%d, 1, 'n')" % (1000 + self.next)])
            for table in r.sample(["z", "h"], 2):
                cur.execute(sql.format(table))

    def transactions(self, database, n):
        r = self.r
        conn = self.connect(database)
        cur = conn.cursor()
        for _ in range(n):
            cur.execute("SET zheap.rollback_foreground_size = %d" % r.choice([0, 0, 64]))
            cur.execute("BEGIN")
            self.change(cur)
            if r.random() < 0.3:
                cur.execute("SAVEPOINT a")
                self.change(cur)
                cur.execute(r.choice(["ROLLBACK TO a", "RELEASE a"]))
            end = r.choices(["COMMIT", "ROLLBACK", "prepare", "leave"],
                            [8, 5, 2, 1])[0]
            if end == "prepare":
                self.next += 1
                gid = "g%d" % self.next
                cur.execute("PREPARE TRANSACTION '%s'" % gid)
                other = self.connect(database).cursor()
                other.execute("BEGIN; INSERT INTO z VALUES (%d); INSERT INTO h VALUES (%d)"
                              % (5000 + self.next, 5000 + self.next))
                cur.execute("%s PREPARED '%s'" % (r.choice(["COMMIT", "ROLLBACK"]), gid))
                other.connection.close()
            elif end == "leave":
                conn.close()
                conn = self.connect(database)
                cur = conn.cursor()
            else:
                cur.execute(end)
        conn.close()

    def compare(self, database="postgres"):
        for setting in ("on", "off"):
            rows = self.sql("SET enable_seqscan = %s; SET enable_bitmapscan = off; "
                            % setting + TWIN, database)
            if rows:
                raise Wrong("%s: table and twin differ: %s" % (database, rows))
        rows = self.sql("SET enable_seqscan = off; SELECT count(*) FROM z WHERE k >= 0 "
                        "UNION ALL SELECT count(*) FROM h WHERE k >= 0", database)
        if rows[0] != rows[1]:
            raise Wrong("%s: by index: %s" % (database, rows))

    # ---- events

    def crash(self):
        self.cluster.kill()
        self.opened = []
        self.start()

    def restart(self):
        self.stop()
        self.start()

    def pause(self):
        self.paused = not self.paused
        self.configure()
        self.sql("SELECT pg_reload_conf()")
        time.sleep(0.1)

    def jump(self):
        """Millions of transactions pass."""
        self.stop()
        data = subprocess.run([os.path.join(self.cluster.bindir, "pg_controldata"),
                               self.cluster.data], stdout=subprocess.PIPE,
                              check=True).stdout.decode()
        line = [x for x in data.splitlines() if "NextXID:" in x][0]
        xid = int(line.split(":")[-1])
        to = (xid // STEP + self.r.choice([1, 3, 20, 60])) * STEP
        self.note("xid %d -> %d" % (xid, to))
        self.cluster.tool("pg_resetwal", "-x", str(to), "-D", self.cluster.data)
        self.start()

    def freeze(self, all_tables=None):
        """Core cuts the commit log as far as it may."""
        if all_tables is None:
            all_tables = self.r.random() < 0.5
        for database, in self.sql("SELECT datname FROM pg_database WHERE datallowconn"):
            names = self.sql(
                "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON "
                "a.oid = c.relam WHERE relkind IN ('r', 'm', 't') AND relpersistence "
                "<> 't' AND (%s OR amname = 'heap')" % all_tables, database)
            conn = self.connect(database)
            for name, in names:
                conn.cursor().execute("VACUUM (FREEZE) " + name)
            conn.close()

    def without_library(self):
        self.stop()
        self.conf["shared_preload_libraries"] = "''"
        self.start()
        if self.r.random() < 0.6 and "copy_without_library" not in self.without:
            self.copy()
        if self.r.random() < 0.6:
            self.freeze(False)
        self.stop()
        self.conf["shared_preload_libraries"] = "'zheap_am'"
        if self.r.random() < 0.5:
            self.start()
            self.jump()
        else:
            self.start()
        time.sleep(self.r.choice([0, 0.3]))

    def without_workers(self):
        self.stop()
        self.conf["max_worker_processes"] = "0"
        self.start()
        self.transactions("postgres", 4)
        self.jump()
        self.freeze()
        self.compare()
        self.stop()
        self.conf["max_worker_processes"] = "8"
        self.start()

    def copy(self):
        name = "copy%d" % len(self.copies)
        try:
            self.sql("CREATE DATABASE %s TEMPLATE live STRATEGY %s" % (
                name, self.r.choice(["wal_log", "file_copy"])))
        except psycopg2.Error as e:
            if e.pgcode not in ("55006", "55000", "0A000"):
                raise
            self.note("copy is refused: %s" % e)
        else:
            self.copies.append(name)

    def copy_beside_session(self):
        """A session that holds core up, and aborts in the last moment."""
        conn = self.connect("live")
        cur = conn.cursor()
        cur.execute("SET zheap.rollback_foreground_size = 0; BEGIN")
        self.change(cur)
        cur.execute("UPDATE z SET s = 'never'")
        wait = self.r.choice([0.5, 6, 7])
        child = subprocess.Popen(["sh", "-c", "sleep %s; kill -TERM %d" % (
            wait, conn.get_backend_pid())])
        self.copy()
        child.wait()
        conn.close()

    def stuck(self):
        """Workers that wait for locks may not keep others from coming."""
        if self.paused:
            return
        holders = []
        workers = int(self.sql("SHOW zheap.max_rollback_workers")[0][0])
        for i in range(workers):
            name = "stuck%d" % i
            if not self.sql("SELECT 1 FROM pg_database WHERE datname = '%s'" % name):
                self.sql("CREATE DATABASE " + name)
                self.sql(SCHEMA, name)
            conn = self.connect(name)
            conn.cursor().execute("SET zheap.rollback_foreground_size = 0; BEGIN; "
                                  "SAVEPOINT a; INSERT INTO z SELECT generate_series"
                                  "(1, 300); ROLLBACK TO a; LOCK TABLE z")
            holders.append(conn)
        # each place has to be taken by one that waits: others go when they have
        # been idle for a while
        end = time.time() + 60
        while time.time() < end and self.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'stuck%' "
                "AND backend_type = 'undo rollback worker'")[0][0] < workers:
            time.sleep(0.1)
        self.sql("SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE z SET "
                 "s = 'never'; ROLLBACK", "live")
        end = time.time() + 180
        while time.time() < end:
            rows = self.sql("SELECT count(*) FROM generate_series(0, pg_relation_size("
                            "'z') / 8192 - 1) b, zheap_page_slots('z', b) s "
                            "WHERE s.status = 'aborted'", "live")
            if rows[0][0] == 0:
                break
            time.sleep(0.2)
        else:
            raise Wrong("a rollback isn't done for 180 s while workers of other "
                        "databases wait for locks")
        for conn in holders:
            conn.close()

    def failover(self):
        """A standby that may have fewer processes, so has made room for fewer
        logs, takes over all that its primary made since."""
        # the number of logs isn't drawn; the limits are near each other
        self.keep = ["logs"]
        limits = ["autovacuum_max_workers"]
        if int(self.sql("SHOW server_version_num")[0][0]) >= 180000:
            limits.append("autovacuum_worker_slots")
        self.stop()
        self.conf.update({x: 200 for x in limits})
        self.conf.update(max_connections=20, max_wal_senders=3,
                         max_prepared_transactions=5)
        self.start()
        self.next += 1
        standby = throwaway.Cluster(self.cluster.bindir, "standby%d" % self.next,
                                    self.cluster.root)
        standby.tool("pg_basebackup", "-D", standby.data, "-R", "-c", "fast",
                     "-d", self.cluster.dsn())
        self.conf.update({x: 1 for x in limits})
        self.configure(standby)
        standby.start()
        self.fill_logs()
        for database in ("postgres", "live"):
            self.transactions(database, 2)
        left = self.connect()
        left.cursor().execute("BEGIN; UPDATE z SET s = 'never'; INSERT INTO z VALUES (-1)")
        lsn = self.sql("SELECT pg_current_wal_insert_lsn()")[0][0]
        primary, self.cluster = self.cluster, standby
        end = time.time() + 120
        while not self.sql("SELECT pg_last_wal_replay_lsn() >= '%s'" % lsn)[0][0]:
            if time.time() > end:
                raise Wrong("the standby doesn't come to " + lsn)
            time.sleep(0.05)
        for database in ("postgres", "live"):
            self.compare(database)
        self.opened = []
        primary.kill()
        left.close()
        faults = primary.log_faults()
        if faults:
            raise Wrong("log of the primary: %s" % faults[:4])
        shutil.rmtree(primary.data)
        self.sql("SELECT pg_promote()")

    def prepared_behind(self):
        """Transactions are prepared, another one writes behind them in their
        log and runs on, and they are ended by and by.  Others write between
        them to another log: when that is discarded the horizon passes all that
        may be passed."""
        r = self.r
        if self.paused:
            self.pause()

        def write(conn):
            self.next += 1
            conn.cursor().execute("INSERT INTO z VALUES (%d); INSERT INTO h VALUES (%d)" % (
                5000 + self.next, 5000 + self.next))

        gids = {}
        for _ in range(r.choice([1, 1, 2, 3])):
            conn, holds, other = (self.connect() for _ in range(3))
            cur = conn.cursor()
            cur.execute("SET lock_timeout = '100ms'; BEGIN")
            try:
                self.change(cur)
                cur.execute("SELECT pg_current_xact_id()::text")
                xid = int(cur.fetchone()[0])
                cur.execute("PREPARE TRANSACTION 'b%d'" % self.next)
                gids["b%d" % self.next] = xid
            except psycopg2.errors.LockNotAvailable:
                pass
            holds.cursor().execute("BEGIN")
            write(holds)
            write(other)
            holds.cursor().execute("COMMIT")
            for conn in (conn, holds, other):
                conn.close()
        runs = self.connect()
        cur = runs.cursor()
        cur.execute("BEGIN; INSERT INTO behind SELECT g, 'b' FROM generate_series(1, 50) g; "
                    "UPDATE behind SET b = repeat('c', %d)" % r.choice([10, 500]))
        for gid in [None] + r.sample(sorted(gids), len(gids)):
            ended = 0
            if gid is not None:
                ended = gids.pop(gid)
                self.sql("%s PREPARED '%s'" % (r.choice(["COMMIT", "ROLLBACK", "ROLLBACK"]), gid))
            may_pass = ended < min(gids.values(), default=ended + 1)
            for n in range(40):
                if int(self.sql("SELECT u::text FROM zheap_horizons()")[0][0]) > ended:
                    break
                if n > 2 and not may_pass:
                    break
                time.sleep(0.1)
            self.compare()
        cur.execute(r.choice(["COMMIT", "ROLLBACK"]))
        runs.close()

    # ---- points where a process waits for us (undo/undo_debug.h)

    def hold(self, point, pid=""):
        folder = os.path.join(self.cluster.data, "zheap_points")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "new"), "w") as f:
            f.write("wait %s" % pid)
        os.rename(os.path.join(folder, "new"), os.path.join(folder, point))

    def held(self, point):
        """Is a process there?  If none comes for a while the story goes on
        without it."""
        for _ in range(50):
            if os.path.exists(os.path.join(self.cluster.data, "zheap_points", point + ".at")):
                return True
            time.sleep(0.1)
        return False

    def let_go(self, point, others=True):
        for name in (point, point + ".at") if others else (point + ".at",):
            try:
                os.unlink(os.path.join(self.cluster.data, "zheap_points", name))
            except FileNotFoundError:
                pass

    def late_mark(self):
        """A backend and a worker roll back the same (the xid of a released
        savepoint has no lock).  When the later one says that it is done the
        pages have been discarded and are written by another transaction."""
        r = self.r
        # the backend is to finish its rollback, its log to go on
        self.keep = ["rest-size", "foreground-apply-pages", "foreground-ms",
                     "foreground-pages", "foreground-bytes", "undo-page-bytes"][:r.choice([5, 6])]
        self.paused = False
        self.restart()
        conn = self.connect()
        cur = conn.cursor()
        cur.execute("SET zheap.debug_points = 0; SET zheap.rollback_foreground_size = '1MB'; "
                    "CREATE TABLE IF NOT EXISTS marked (a int, b text) USING zheap; "
                    "TRUNCATE marked, behind; INSERT INTO marked SELECT g, repeat('x', 100) "
                    "FROM generate_series(1, %d) g" % r.choice([150, 300]))
        self.hold("mark-in-abort", conn.get_backend_pid())
        self.hold("mark-by-worker")
        job = threading.Thread(target=cur.execute, args=(
            "BEGIN; SAVEPOINT a; UPDATE marked SET b = repeat('y', 100); RELEASE a; ROLLBACK",))
        job.start()
        if self.held("mark-by-worker"):
            # that of another page than the first
            for _ in range(r.choice([1, 1, 2])):
                self.hold("mark-by-worker")
                self.let_go("mark-by-worker", False)
                self.held("mark-by-worker")
        self.let_go("mark-in-abort")
        job.join()
        conn.close()
        for _ in range(6):
            self.next += 1
            self.sql("INSERT INTO z VALUES (%d); INSERT INTO h VALUES (%d)" % (
                5000 + self.next, 5000 + self.next))
            time.sleep(0.2)
        conn = self.connect()
        cur = conn.cursor()
        cur.execute("SET zheap.debug_points = 0; SET zheap.rollback_foreground_size = %d; BEGIN; "
                    "INSERT INTO behind SELECT g, repeat('z', 100) FROM generate_series(1, 100000) g"
                    % r.choice([0, 0, 256]))
        self.let_go("mark-by-worker")
        time.sleep(0.5)
        cur.execute("ROLLBACK")
        conn.close()
        self.sql("SELECT pg_zheap_drain_undo()")
        for _ in range(6):
            self.next += 1
            self.sql("INSERT INTO z VALUES (%d); INSERT INTO h VALUES (%d)" % (
                5000 + self.next, 5000 + self.next))
            time.sleep(0.1)
        rows = self.sql("SELECT (SELECT count(*) FROM behind), (SELECT count(*) FROM marked "
                        "WHERE b <> repeat('x', 100))")
        if rows != [(0, 0)]:
            raise Wrong("rows of aborted transactions are seen: %s" % rows)

    def fill_logs(self):
        """Under an old snapshot full logs rest, and new ones are made."""
        conn, old = self.connect(), self.connect()
        cur = conn.cursor()
        cur.execute("SET zheap.debug_points = 0")
        cur.execute("CREATE TABLE IF NOT EXISTS filler (t text) USING zheap")
        cur.execute("ALTER TABLE filler ALTER t SET STORAGE PLAIN; INSERT INTO filler "
                    "SELECT repeat('f', 2500) FROM generate_series(1, 130)")
        old.cursor().execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM z LIMIT 1")
        end = time.time() + 180
        n = 0
        while n < 125 and time.time() < end:
            cur.execute("UPDATE filler SET t = repeat('%s', 2500)" % self.r.choice("abcdef"))
            time.sleep(0.02)
            cur.execute("SELECT count(*) FROM pg_stat_zheap_undo")
            n = cur.fetchone()[0]
        self.note("%d logs" % n)
        old.close()
        conn.close()

    def long_history(self):
        """Whoever meets a long aborted history of a page can be cancelled:
        each record takes a while, and not all of them are taken back."""
        paused, self.paused = self.paused, False
        self.pause()
        conn = self.connect()
        cur = conn.cursor()
        cur.execute("SET zheap.debug_points = 0; SET zheap.rollback_foreground_size = 0")
        cur.execute("CREATE TABLE IF NOT EXISTS hot (a int, b int) USING zheap")
        cur.execute("INSERT INTO hot SELECT g, 0 FROM generate_series(1, 2) g")
        cur.execute("BEGIN; DO $$ BEGIN FOR i IN 1..12000 LOOP UPDATE hot SET "
                    "b = b + 1 WHERE a = 1; END LOOP; END $$; ROLLBACK")

        def left():
            return self.sql("SET zheap.debug_points = 0; SELECT count(*) FROM generate_series(0, "
                            "pg_relation_size('hot') / 8192 - 1) b, zheap_page_slots('hot', b) s, "
                            "zheap_undo_records('hot', b, s.id) WHERE s.status = 'aborted'")[0][0]
        cur.execute("SET statement_timeout = '200ms'")
        for sql in self.r.sample(["UPDATE hot SET b = 1 WHERE a = 2", "SELECT b FROM hot",
                                  "DELETE FROM hot WHERE a = 2"], 2):
            before = left()
            cur.execute("SET zheap.debug_points = 1000")
            try:
                cur.execute(sql)
            except psycopg2.errors.QueryCanceled:
                after = left()
                self.note("%d of %d" % (after, before))
                if before > 9000 and after == 0:
                    raise Wrong("a statement was cancelled when it had taken %d records "
                                "back: %s" % (before, sql))
        conn.close()
        self.paused = not paused
        self.pause()

    def upgrade(self):
        """Into a cluster whose server has used more xids."""
        self.paused = False
        self.restart()
        for name in self.copies:
            self.sql("DROP DATABASE " + name)
        self.copies = []
        at_rest(self.sql)
        self.sql("ALTER DATABASE template0 ALLOW_CONNECTIONS false")
        new = throwaway.Cluster(self.cluster.bindir, "new", self.cluster.root)
        new.init("include 'life.conf'\n")
        shutil.copy(os.path.join(self.cluster.data, "life.conf"), new.data)
        new.start()
        conn = psycopg2.connect(new.dsn())
        conn.autocommit = True
        xid = self.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")[0][0]
        if int(xid) < 30000:
            conn.cursor().execute("SET zheap.debug_points = 0")
            conn.cursor().execute("DO $$ BEGIN WHILE pg_snapshot_xmax("
                                  "pg_current_snapshot())::text::int < %d LOOP PERFORM "
                                  "pg_current_xact_id(); COMMIT; END LOOP; END $$"
                                  % (int(xid) + 300))
        conn.close()
        time.sleep(1)
        new.stop()
        self.stop()
        work = self.cluster.root + "/u"
        os.makedirs(work, exist_ok=True)
        done = subprocess.run([
            os.path.join(new.bindir, "pg_upgrade"), "-b", new.bindir, "-B", new.bindir,
            "-d", self.cluster.data, "-D", new.data, "-U", "tester", "-s", work],
            cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise Wrong("pg_upgrade: " + done.stdout.decode()[-1500:])
        shutil.rmtree(self.cluster.data)
        self.cluster = new
        self.start()
        conn = self.connect()
        cur = conn.cursor()
        cur.execute("SET zheap.rollback_foreground_size = 0; BEGIN")
        self.change(cur)
        cur.execute("UPDATE z SET s = 'never'; INSERT INTO z VALUES (-1)")
        rows = self.sql("SELECT count(*) FROM z WHERE s = 'never' OR id < 0")
        if rows[0][0]:
            raise Wrong("rows of a running transaction are seen after pg_upgrade")
        cur.execute("ROLLBACK")
        conn.close()

    # ---- a life

    def play(self):
        r = self.r
        self.cluster.init("include 'life.conf'\n")
        self.start()
        self.sql("CREATE DATABASE live")
        for database in ("postgres", "live"):
            self.sql(SCHEMA, database)
            for t in "zh":
                self.sql("INSERT INTO %s SELECT g, g %% 7, repeat('s', g %% 50) FROM "
                         "generate_series(1, 200) g" % t, database)
        self.sql("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
        events = [self.crash, self.restart, self.pause, self.pause, self.jump,
                  self.freeze, self.freeze, self.without_library, self.without_workers,
                  self.copy, self.copy_beside_session, self.stuck]
        chosen = [r.choice(events) for _ in range(r.randint(3, 6))]
        x = r.random()
        if x < 0.2:
            chosen.insert(0, self.upgrade)
        elif x < 0.5:
            chosen.insert(r.randrange(2), r.choice([self.failover, self.long_history]))
        elif x < 0.75:
            chosen.insert(r.randrange(3), self.prepared_behind)
        elif x < 0.88:
            chosen.insert(r.randrange(2), self.late_mark)
        chosen = [x for x in chosen if x.__name__ not in self.without]
        if self.only:
            chosen = [getattr(self, x) for x in self.only]
        for event in chosen:
            for database in ("postgres", "live"):
                self.transactions(database, r.choice([0, 2, 6]))
            self.note(event.__name__)
            event()
            for database in ("postgres", "live"):
                self.compare(database)
        self.paused = False
        self.restart()
        at_rest(self.sql, 60)
        for database in ["postgres", "live"] + self.copies:
            for _ in range(2):
                self.transactions(database, 1)
            self.compare(database)
        at_rest(self.sql, 60)
        for database in ["live"] + self.copies:
            self.compare(database)
            rows = self.sql("SELECT * FROM zheap_check('z')", database)
            if rows:
                raise Wrong("%s: zheap_check: %s" % (database, rows[:4]))
        faults = self.cluster.log_faults()
        if faults:
            raise Wrong("server log: %s" % faults[:4])
