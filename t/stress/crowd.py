#!/usr/bin/python3
"""Hundreds of sessions with open transactions on the rows of a page or two, by seed.

One driver gives each session its statements, first for a heap table, then for
its zheap twin: row locks of all modes (NOWAIT, SKIP LOCKED, by cursors that are
read in part), changes that stay in place, move, delete, insert, each below
savepoints that may be rolled back to; REPEATABLE READ readers with snapshots of
all ages; transactions that are prepared.  As nothing waits for long, each
statement must have the same rows, or the same SQLSTATE, on both sides: what is
locked by whom is compared, too.  So xact slots give out, and rows end and are locked
by the shared one.  In the end the server is killed: what transactions
that were prepared have locked is compared before and after, and as they are
resolved one by one.

usage: crowd.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--sessions N]
                [--wide] [--settings "a = b; .."] [--keep] [--verbose]
--wide: rows of up to a page, with few xact slots.  Starts a throw-away cluster
for each seed (as an ordinary user when run by root).  Exits non-zero if a seed
failed.  FOR KEY SHARE isn't compared where heap waits for lockers of a newer
version, which zheap does not.
"""
import argparse
import os
import random
import sys

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, Difference, become_ordinary, play_history, play_seeds  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
shared_buffers = 32MB
max_locks_per_transaction = 200
max_prepared_transactions = 200
zheap.discard_naptime = 20
log_min_messages = warning
log_min_error_statement = panic
"""
MODES = ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE")
SIZES = (10, 3000, 6000, 7900)


class Session:
    def __init__(self, node, number, foreground):
        self.number = number
        self.cur = psycopg2.connect(node.dsn()).cursor()
        self.cur.connection.autocommit = True
        self.cur.execute("SET lock_timeout = 15")
        self.cur.execute("SET zheap.rollback_foreground_size = %s", (foreground,))
        self.level = None       # of the open transaction
        self.savepoints = []
        self.cursors = 0

    def answer(self, sql):
        """Its rows, or its SQLSTATE."""
        try:
            self.cur.execute(sql)
        except psycopg2.Error as e:
            if e.pgcode is None or e.pgcode[:2] == "XX":
                raise
            return e.pgcode
        return self.cur.rowcount, sorted(self.cur.fetchall()) if self.cur.description else None


class Crowd:
    def __init__(self, args, seed):
        self.args = args
        self.r = random.Random(seed)
        self.done = []
        self.failed = 0
        self.node = Cluster(args.bindir)
        self.node.init(SETTINGS + "max_connections = %d\nzheap.update_indexed_in_place = %s\n" % (
            args.sessions + 10, self.r.choice(["on", "off"])) + args.settings.replace(";", "\n"))

    def make(self):
        self.node.start()
        self.rows = self.r.choice([6, 12, 20] if self.args.wide else [40, 150, 250])
        self.boss = Session(self.node, -1, 256)
        self.boss.cur.execute("CREATE EXTENSION zheap_am")
        for t, am in (("h", "heap"), ("z", "zheap")):
            self.boss.cur.execute(
                f"CREATE TABLE {t}(id int PRIMARY KEY, v int, k int, pad text) USING {am};"
                f"ALTER TABLE {t} ALTER pad SET STORAGE PLAIN; CREATE INDEX ON {t}(k);"
                f"INSERT INTO {t} SELECT g, 0, g % 7, '' FROM generate_series(1, {self.rows}) g")
            if self.args.wide:
                self.boss.cur.execute(f"UPDATE {t} SET pad = repeat('w', 100 + id * 1300 % 7800)")

    def both(self, s, sql):
        """sql of %T for heap, then for zheap; whether it went well."""
        if s.level:
            s.cur.execute("SAVEPOINT x")
        heap = s.answer(sql.replace("%T", "h"))
        if s.level and isinstance(heap, str):
            s.cur.execute("ROLLBACK TO x")
        zheap = s.answer(sql.replace("%T", "z"))
        self.done.append("%d: %s -> %s" % (s.number, sql, str(zheap)[:60]))
        if self.args.verbose:
            print(self.done[-1], flush=True)
        # FOR KEY SHARE of an older version: heap waits for who has locked a newer one
        if heap == "55P03" and "KEY SHARE" in sql:
            zheap = heap
        if heap != zheap:
            raise Difference("heap %s\nzheap %s" % (str(heap)[:1500], str(zheap)[:1500]))
        failed = isinstance(zheap, str)
        self.failed += failed
        if s.level and (failed or self.r.random() < .1):
            s.cur.execute("ROLLBACK TO x")
        elif s.level and self.r.random() < .5:
            s.cur.execute("RELEASE x")
        return not failed

    def pad(self):
        if self.args.wide and self.r.random() < .6:
            return "repeat('q', %d)" % self.r.choice(SIZES)
        return self.r.choice(["pad", "pad", "repeat('p', %d)" % self.r.randrange(9)])

    def end(self, s):
        x = self.r.random()
        if x < .9:
            s.cur.execute("COMMIT" if x < .5 else "ROLLBACK")
        else:
            s.cur.execute("PREPARE TRANSACTION 'g%d'" % len(self.done))
        s.level, s.savepoints, s.cursors = None, [], 0
        self.done.append("%d: end" % s.number)

    def savepoint(self, s):
        if s.savepoints and self.r.random() < .6:
            at = self.r.randrange(len(s.savepoints))
            s.cur.execute("ROLLBACK TO " + s.savepoints[at])
            del s.savepoints[at + 1:]
        else:
            s.savepoints.append("p%d" % len(s.savepoints))
            s.cur.execute("SAVEPOINT " + s.savepoints[-1])

    def change(self, s, i):
        r = self.r
        x = r.random()
        if x < .12:
            self.both(s, f"INSERT INTO %T VALUES ({i}, 0, {i % 7}, 'new') ON CONFLICT "
                      + r.choice(["DO NOTHING", "(id) DO UPDATE SET v = -1"]))
        elif x < .7:
            # who is in the way is found out first, so that nobody waits
            if self.both(s, f"SELECT id FROM %T WHERE id = {i} FOR NO KEY UPDATE NOWAIT"):
                self.both(s, f"UPDATE %T SET v = v + 1, pad = {self.pad()} WHERE id = {i} RETURNING *")
        elif self.both(s, f"SELECT id FROM %T WHERE id = {i} FOR UPDATE NOWAIT"):
            self.both(s, r.choice([
                f"UPDATE %T SET k = {r.randrange(7)}, v = v + 1 WHERE id = {i} RETURNING *",
                f"DELETE FROM %T WHERE id = {i} RETURNING *",
                f"UPDATE %T SET id = {self.rows + r.randrange(1000)} WHERE id = {i}"]))

    def step(self):
        r = self.r
        s = self.sessions[r.randrange(r.choice([len(self.sessions), min(len(self.sessions), 30)]))]
        if s.level is None:
            s.level = r.choice(["READ COMMITTED"] * 3 + ["REPEATABLE READ"])
            s.cur.execute("BEGIN ISOLATION LEVEL %s; SELECT 1" % s.level)
        i = r.randrange(1, r.choice([5, self.rows, self.rows]) + 1)
        x = r.random()
        if x < .06:
            self.end(s)
        elif x < .11:
            self.savepoint(s)
        elif x < .25 or s.level == "REPEATABLE READ":
            # of rows changed since, heap waits for more lockers
            self.both(s, "SELECT * FROM %T" + r.choice(["", " WHERE k = 3", " WHERE id < 100"]))
        elif x < .50:
            self.both(s, f"SELECT * FROM %T WHERE id BETWEEN {i} AND {i + r.choice([0, 0, 0, 20])} FOR "
                      + r.choice(MODES) + r.choice([" NOWAIT", " SKIP LOCKED"]))
        elif x < .55:
            s.cursors += 1
            name = "c%%T%d" % s.cursors
            mode = r.choice(MODES)
            if self.both(s, f"DECLARE {name} CURSOR FOR SELECT * FROM %T WHERE id BETWEEN {i} AND {i + 20}"
                         f" ORDER BY id FOR {mode} SKIP LOCKED"):
                while self.both(s, f"FETCH {r.randrange(1, 5)} FROM {name} -- {mode}") and r.random() < .5:
                    pass
        else:
            self.change(s, i)

    def locked(self):
        """What can be locked is the same, and what is read."""
        for mode in MODES:
            self.boss.cur.execute("BEGIN")
            self.both(self.boss, f"SELECT * FROM %T ORDER BY id FOR {mode} SKIP LOCKED")
            self.boss.cur.execute("ROLLBACK")
        self.both(self.boss, "SELECT * FROM %T")
        self.boss.cur.execute("SELECT * FROM zheap_check('z')")
        wrong = self.boss.cur.fetchall()
        if wrong:
            raise Difference("zheap_check: %s" % wrong[:4])

    def resolve(self, chance):
        self.boss.cur.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid")
        for (gid,) in self.boss.cur.fetchall():
            if self.r.random() < chance:
                self.boss.cur.execute("%s PREPARED '%s'" % (self.r.choice(["COMMIT", "ROLLBACK"]), gid))
                self.done.append("resolved " + gid)
                if chance == 1:
                    self.locked()

    def play(self):
        self.make()
        self.sessions = [Session(self.node, n, self.r.choice([0, 1, 256]))
                         for n in range(self.args.sessions)]
        for n in range(self.args.steps):
            self.step()
            if n % 100 == 99:
                self.resolve(.5)
            if n % 150 == 149:
                self.boss.cur.execute("VACUUM h")
                self.boss.cur.execute("VACUUM z")
        for s in self.sessions:
            if s.level:
                s.cur.execute(self.r.choice(["COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'e%d'" % s.number])
                              if s.number < 20 else "ROLLBACK")
        self.locked()
        self.node.kill()
        self.node.start()
        self.boss = Session(self.node, -1, 256)
        self.locked()
        self.resolve(1)
        self.locked()
        faults = self.node.log_faults()
        if faults:
            raise Difference("the log: %s" % faults[:5])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-3")
    ap.add_argument("--steps", type=int, default=3000)
    ap.add_argument("--sessions", type=int, default=270)
    ap.add_argument("--wide", action="store_true")
    ap.add_argument("--settings", default="")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)

    def play(seed):
        crowd = Crowd(args, seed)
        try:
            return play_history(crowd, seed, lambda: "%d statements, %d failed on both sides" % (
                len(crowd.done), crowd.failed), 40) and crowd.failed > 0
        finally:
            crowd.node.drop(args.keep)

    sys.exit(play_seeds(args.seeds, play))


if __name__ == "__main__":
    main()
