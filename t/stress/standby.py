#!/usr/bin/python3
"""A zheap table on standbys: one near, one that follows that one, one that replays
late.  Their readers compare it with the heap twin that triggers keep, by
snapshots of all ages and through all kinds of scans, while sessions of the
primary change rows in savepoints, abort, prepare, rewrite and vacuum, and while
standbys are killed.  At the end the late one is promoted.  Odd seeds draw knobs.

usage: standby.py --bindir DIR [--seeds FIRST-LAST] [--seconds 60] [--keep]
"""
import argparse
import os
import random
import sys
import threading
import time

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import throwaway  # noqa: E402

# a cascading standby may ask a killed one for more than that has again
throwaway.Cluster.known = ("requested starting point", "START_REPLICATION")

SETTINGS = """
fsync = off
max_wal_senders = 10
wal_keep_size = 2GB
zheap.undo_log_rest_size = 256
zheap.discard_naptime = 20
wal_consistency_checking = 'zheap'
autovacuum_naptime = 1
"""
TABLES = """
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, i int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, i int, t text) USING heap;
CREATE INDEX z_i ON z (i);
CREATE INDEX h_i ON h (i);
CREATE FUNCTION mirror() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO h VALUES (NEW.*);
		RETURN NULL;
	ELSIF TG_OP = 'DELETE' THEN
		DELETE FROM h WHERE k = OLD.k AND h = OLD::text::h;
	ELSE
		UPDATE h SET k = NEW.k, c = NEW.c, i = NEW.i, t = NEW.t
		WHERE k = OLD.k AND h = OLD::text::h;
	END IF;
	IF NOT FOUND THEN
		RAISE 'the twin has no row as the % found it', TG_OP USING ERRCODE = 'XX999';
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON z
	FOR EACH ROW EXECUTE FUNCTION mirror();
INSERT INTO z SELECT g, 0, g % 17, repeat('x', g % 100) FROM generate_series(1, 600) g;
"""
PLANS = ["SET LOCAL enable_seqscan = %s; SET LOCAL enable_indexscan = %s; SET LOCAL enable_bitmapscan = %s" % p
         for p in (("on", "off", "off"), ("off", "on", "off"), ("off", "off", "on"))]
ANSWERS = ["SELECT count(*), md5(string_agg(md5({0}::text), '' ORDER BY k)) FROM {0} WHERE " + w
           for w in ("k > 0", "i BETWEEN 2 AND 9")]


def change(r):
    a = r.randrange(1, 600)
    b = a + r.randrange(1, r.choice([2, 8, 60]))
    rows = " WHERE k BETWEEN %d AND %d" % (a, b)
    n = r.randrange(10 ** 6)
    return r.choices([
        "UPDATE z SET c = c + 1" + rows,
        "UPDATE z SET t = repeat('%c', %d)" % (97 + n % 26, n % r.choice([50, 300, 900])) + rows,
        "UPDATE z SET i = i + 1" + rows,
        "DELETE FROM z" + rows,
        "INSERT INTO z SELECT g, %d, g %% 17, repeat('i', g %% 100) FROM generate_series(%d, %d) g "
        "ON CONFLICT (k) DO UPDATE SET c = z.c + 1" % (n % 100, a, b),
        "UPDATE z SET t = overlay(t PLACING 'a%d' FROM %d) WHERE length(t) > 1500" % (n, n % 6000 + 1),
        "UPDATE z SET t = (SELECT string_agg(md5((%d + g)::text), '') FROM generate_series(1, 200) g) "
        "WHERE k = %d" % (n, a)], [6, 4, 2, 3, 4, 1, 1])[0]


class History:
    def __init__(self, args, seed):
        self.args, self.seed = args, seed
        self.r = random.Random(seed)
        self.over = threading.Event()
        self.wrong = []
        self.done = {"transactions": 0, "answers": 0, "kills": 0}
        self.primary = throwaway.Cluster(args.bindir)
        self.primary.init(SETTINGS + ("zheap.debug_seed = %d\n" % seed if seed % 2 else ""))
        self.primary.start()
        self.run(self.primary, TABLES)
        delay = "max_standby_streaming_delay = "
        feedback = "\nhot_standby_feedback = "
        self.standbys = {}
        self.follow("near", self.primary, delay + self.r.choice(["50ms", "3s", "-1"])
                    + feedback + self.r.choice(["on", "off"]))
        self.follow("far", self.standbys["near"], delay + self.r.choice(["50ms", "1s"]))
        self.follow("late", self.primary, delay + "300ms" + feedback + self.r.choice(["on", "off"])
                    + "\nrecovery_min_apply_delay = " + self.r.choice(["500ms", "4s"]))

    def follow(self, name, of, conf):
        c = throwaway.Cluster(self.args.bindir, name, self.primary.root, of.port)
        c.tool("pg_basebackup", "-D", c.data, "-d", of.dsn(), "-X", "stream", "-c", "fast")
        c.configure("postgresql.conf", "\nprimary_conninfo = '%s'\n%s\n" % (of.dsn(), conf))
        with open(os.path.join(c.data, "standby.signal"), "w"):
            pass
        c.start()
        self.standbys[name] = c

    @staticmethod
    def run(cluster, sql):
        conn = psycopg2.connect(cluster.dsn())
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute(sql)
        rows = cur.fetchall() if cur.description else None
        conn.close()
        return rows

    def expect(self, who, e):
        """Errors that may be: conflicts, deadlocks, a server that is gone."""
        if e.pgcode is not None and e.pgcode[:2] in ("XX", "58"):
            self.wrong.append("%s: %s" % (who, e))

    def write(self, r):
        conn = None
        while not self.over.is_set():
            try:
                if conn is None:
                    conn = psycopg2.connect(self.primary.dsn(), options="-c lock_timeout=2s")
                self.transaction(r, conn, conn.cursor())
                self.done["transactions"] += 1
            except psycopg2.Error as e:
                self.expect("writer", e)
                try:
                    conn.rollback()
                except psycopg2.Error:
                    conn = None

    @staticmethod
    def transaction(r, conn, cur):
        """More than 64 subtransactions now and then."""
        last = None
        cur.execute("SET TRANSACTION ISOLATION LEVEL " + r.choice(
            ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]))
        for n in range(r.choice([1, 3, 8, 5, 5, 80])):
            if r.random() < .35:
                last = n
                cur.execute("SAVEPOINT s%d" % n)
            cur.execute(change(r))
            if last is not None and r.random() < .2:
                cur.execute("ROLLBACK TO s%d" % last)
        what = r.random()
        if what < .15:
            gid = "g%d" % r.randrange(10 ** 9)
            cur.execute("PREPARE TRANSACTION '%s'" % gid)
            conn.commit()
            time.sleep(r.random() / 2)
            conn.autocommit = True
            cur.execute("%s PREPARED '%s'" % (r.choice(["COMMIT", "ROLLBACK"]), gid))
            conn.autocommit = False
        elif what < .4:
            conn.rollback()
        else:
            conn.commit()

    def define(self, r):
        while not self.over.is_set():
            time.sleep(2 * r.random())
            try:
                conn = psycopg2.connect(self.primary.dsn(), options="-c lock_timeout=1s")
                conn.autocommit = True
                conn.cursor().execute(r.choice(
                    ["VACUUM z"] * 5 + ["VACUUM h", "VACUUM FULL z", "CLUSTER z USING z_i",
                                        "REINDEX TABLE z", "CHECKPOINT",
                                        "ALTER TABLE z ALTER t SET STORAGE " + r.choice(["EXTERNAL", "EXTENDED"]),
                                        "BEGIN; DROP INDEX z_i; UPDATE z SET i = i + 1 WHERE k < 50; ROLLBACK"]))
                conn.close()
            except psycopg2.Error as e:
                self.expect("definition", e)

    def read(self, r, name):
        while not self.over.is_set():
            try:
                conn = psycopg2.connect((self.standbys.get(name) or self.primary).dsn())
                conn.set_session(isolation_level="REPEATABLE READ")
                self.compare(r, name, conn.cursor())
                conn.close()
            except psycopg2.Error as e:
                self.expect(name, e)
                time.sleep(.1)

    def compare(self, r, name, cur):
        kept = None
        for _ in range(r.choice([1, 2, 5, 15])):
            cur.execute(r.choice(PLANS))
            both = []
            for table in "zh":
                both.append([])
                for answer in ANSWERS:
                    cur.execute(answer.format(table))
                    both[-1].append(cur.fetchone())
            if both[0] != both[1] or kept not in (None, both[0]):
                self.wrong.append("%s: %r, heap %r, before %r" % (name, both[0], both[1], kept))
                return
            kept = both[0]
            self.done["answers"] += 1
            time.sleep(r.random() * r.choice([.1, 1]))

    def log_faults(self):
        for c in [self.primary] + list(self.standbys.values()):
            self.wrong += ["log of %s: %s" % (c.name, x) for x in c.log_faults()[:3]]

    def end(self, c):
        """Nothing pending; the twins are alike."""
        for (gid,) in self.run(c, "SELECT gid FROM pg_prepared_xacts"):
            self.run(c, "ROLLBACK PREPARED '%s'" % gid)
        limit = time.time() + 180
        while not self.run(c, "SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()")[0][0]:
            if time.time() > limit:
                self.wrong.append("%s keeps undo: %r" % (
                    c.name, self.run(c, "SELECT * FROM pg_stat_zheap_undo_holders")))
                break
            time.sleep(.1)
        for sql in ("(TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z) LIMIT 3",
                    "SELECT * FROM zheap_check('z') LIMIT 3"):
            rows = self.run(c, sql)
            if rows:
                self.wrong.append("%s at the end: %r" % (c.name, rows))

    def play(self):
        jobs = [(self.write,)] * 4 + [(self.define,)]
        jobs += [(self.read, name) for name in ("near", "far", "late", "near", "far", "late", "primary")]
        threads = [threading.Thread(target=job[0], daemon=True,
                                    args=(random.Random("%d %d" % (self.seed, n)),) + job[1:])
                   for n, job in enumerate(jobs)]
        for t in threads:
            t.start()
        end = time.time() + self.args.seconds
        while time.time() < end and not self.wrong:
            time.sleep(3 + 10 * self.r.random())
            if self.r.random() < .6:
                c = self.r.choice(list(self.standbys.values()))
                c.kill()
                c.start()
                self.done["kills"] += 1
            self.log_faults()
        self.over.set()
        for t in threads:
            t.join()
        late = self.standbys["late"]
        self.end(self.primary)
        late.tool("pg_ctl", "promote", "-w", "-t", "180", "-D", late.data)
        self.end(late)
        self.log_faults()

    def drop(self):
        for c in self.standbys.values():
            c.kill()
        self.primary.drop(self.args.keep)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1")
    ap.add_argument("--seconds", type=int, default=60)
    ap.add_argument("--keep", action="store_true")
    args = ap.parse_args()
    throwaway.become_ordinary(__file__)

    def play(seed):
        history = History(args, seed)
        try:
            history.play()
        except (RuntimeError, psycopg2.Error) as e:
            history.wrong.append(str(e))
        finally:
            history.drop()
        print("seed %d: %s" % (seed, "; ".join(history.wrong[:3])[:1500] or "no difference"), history.done)
        return not history.wrong
    sys.exit(throwaway.play_seeds(args.seeds, play))


main()
