#!/usr/bin/python3
"""Crowds on three full pages, in pairs of sessions: one works on heap, its twin on zheap.

Each statement is sent to both sessions of a pair, and may wait: then other pairs go on.
It is settled when each side is done or waits for a lock.  The sides must agree: rows and
counts, or the SQLSTATE; who waits; with --locks, the locks on tuples and transactions that
either session holds or waits for, by pg_locks.  Row locks of all modes, NOWAIT, SKIP
LOCKED, changes that stay in place, move, delete, insert, below savepoints that are rolled
back to or released; transactions are prepared and resolved later; who waits for long (a
deadlock, too) is cancelled, sessions are terminated.  In the end the server is killed, and
what prepared transactions have locked is compared as they are resolved.

usage: crowd_pairs.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--sessions N]
                      [--lengths L,..] [--locks [--owners]] [--am heap]
                      [--settings "a = b; .."] [--keep] [--verbose]
A seed takes one of the lengths, in bytes of a zheap row.  --owners: for whom a session
waits must be the same, too; of several lockers heap waits for them in another order.
--am heap tests the test.  Starts a throw-away cluster for each seed (as an ordinary user
when run by root); exits non-zero if a seed failed.
"""
import argparse
import os
import random
import select
import sys
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, Difference, become_ordinary, play_history, play_seeds  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
shared_buffers = 32MB
deadlock_timeout = 1h
max_prepared_transactions = 1000
log_min_messages = warning
log_min_error_statement = panic
"""
NODE_ONLY_ZHEAP = "zheap.discard_naptime = 20\n"
MODES = ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE")
PAGE = 8152             # for rows and their line pointers, about
ROW = 17                # header of a zheap row and three integers
PATIENCE = 25           # steps of others that a session waits
SETTLE_SECONDS = 60
LOCKS = """SELECT l.pid, l.virtualtransaction, l.locktype, l.mode, l.granted, l.transactionid::text
    FROM pg_locks l WHERE NOT l.granted OR l.locktype IN ('tuple', 'transactionid')"""


class Side:
    """One session; a statement of it runs or not."""

    def __init__(self, node, table):
        self.table = table
        self.conn = psycopg2.connect(node.dsn(), async_=True)
        self.busy = True
        while not self.poll():
            time.sleep(.001)
        self.cur = self.conn.cursor()
        self.pid = self.conn.get_backend_pid()

    def poll(self):
        state = self.conn.poll()
        if state == psycopg2.extensions.POLL_WRITE:
            select.select([], [self.conn.fileno()], [], 1)
        self.busy = state != psycopg2.extensions.POLL_OK
        return not self.busy

    def send(self, sql):
        self.answer = None
        self.busy = True
        self.cur.execute(sql.replace("%T", self.table))

    def look(self):
        """Has the statement ended?  Then its rows, or SQLSTATE, are in answer."""
        if not self.busy:
            return True
        try:
            if self.poll():
                self.answer = (self.cur.rowcount, sorted(self.cur.fetchall())
                               if self.cur.description else None)
        except psycopg2.Error as e:
            self.busy = False
            if e.pgcode is None or e.pgcode[:2] == "XX":
                raise
            self.answer = e.pgcode
        return not self.busy


class Pair:
    def __init__(self, node, number):
        self.number = number
        self.sides = [Side(node, "h"), Side(node, "z")]
        self.waits = 0          # steps, since a statement was sent
        self.open = False
        self.broken = False     # by an error
        self.savepoints = 0
        self.sql = self.asked = ""
        self.row = 0            # that the statement may wait for
        self.changed = set()    # rows, by this transaction
        self.met = []           # those that it has asked for
        self.has_waited = False  # this transaction

    def done(self):
        return [s.look() for s in self.sides]


class Crowd:
    def __init__(self, args, seed):
        self.args = args
        self.r = random.Random(seed)
        self.length = self.r.choice([int(x) for x in args.lengths.split(",")])
        self.rows = max(PAGE // (self.length + 4), 1) * 3
        self.ids = list(range(1, self.rows + 1))
        self.done, self.failed, self.waited, self.queued, self.prepared = [], 0, 0, 0, []
        self.node = Cluster(args.bindir)
        self.node.init(SETTINGS + (NODE_ONLY_ZHEAP if args.am == "zheap" else "")
                       + "max_connections = %d\n" % (2 * args.sessions + 20)
                       + args.settings.replace(";", "\n"))

    def note(self, text):
        self.done.append(text)
        if self.args.verbose:
            print(text, flush=True)

    def connect(self):
        self.boss = psycopg2.connect(self.node.dsn())
        self.boss.autocommit = True
        self.cur = self.boss.cursor()

    def make(self):
        self.node.start()
        self.connect()
        if self.args.am == "zheap":
            self.cur.execute("CREATE EXTENSION zheap_am")
        pad = self.length - ROW - (1 if self.length - ROW < 127 else 4)
        self.pad_length = pad
        for t, am in (("h", "heap"), ("z", self.args.am)):
            self.cur.execute(
                f"CREATE TABLE {t}(id int PRIMARY KEY, v int, k int, pad text) USING {am};"
                f"ALTER TABLE {t} ALTER pad SET STORAGE PLAIN; CREATE INDEX ON {t}(k);"
                f"INSERT INTO {t} SELECT g, 0, g, repeat('x', {pad})"
                f" FROM generate_series(1, {self.rows}) g")

    # ---------------------------------------------------------------
    #	both sides settle, and are compared
    # ---------------------------------------------------------------

    def pg_locks(self):
        self.cur.execute(LOCKS)
        return self.cur.fetchall()

    def settle(self):
        """Until each session is done, or waits for a lock; its pg_locks then."""
        give_up = time.time() + SETTLE_SECONDS
        while True:
            busy = [s for p in self.pairs for s in p.sides if not s.look()]
            locks = self.pg_locks()
            waiting = {pid for pid, _, _, _, granted, _ in locks if not granted}
            running = [s for s in busy if s.pid not in waiting and not s.look()]
            if not running:
                if all(not s.look() for s in busy):
                    return locks
                continue
            if time.time() > give_up:
                self.cur.execute("SELECT state, wait_event_type, wait_event, query FROM"
                                 " pg_stat_activity WHERE pid = %s", (running[0].pid,))
                raise Difference("session %d of %s neither ends nor waits for a lock: %s" % (
                    running[0].pid, running[0].table, self.cur.fetchall()))
            time.sleep(.0005)

    def compare(self):
        locks = self.settle()
        # first who may rightly differ: others wait, or don't, for that
        for p in sorted(self.pairs, key=lambda p: not self.is_key_share(p)):
            heap, zheap = (s.look() for s in p.sides)
            if not heap and zheap and (self.is_key_share(p) or self.only_queued(p)):
                self.cancel(p, rollback=True)
                return self.compare()
            if heap != zheap:
                raise Difference("%d: %s\n%s waits, %s doesn't: %s\n%s" % (
                    p.number, p.sql, *(("heap", "zheap") if zheap else ("zheap", "heap")),
                    [str(s.answer)[:200] for s in p.sides if not s.busy],
                    [x for x in locks if x[0] in [s.pid for s in p.sides]]))
            p.has_waited |= not heap
            if heap and p.sql and not self.compare_answers(p):
                return self.compare()
        if self.args.locks:
            self.compare_locks(locks)

    def compare_answers(self, p):
        """False: they differ, rightly, and the transaction was given up."""
        heap, zheap = (s.answer for s in p.sides)
        self.note("%d: -> %s" % (p.number, str(zheap)[:60]))
        if heap != zheap and self.only_queued(p):
            self.cancel(p, rollback=True)
            return False
        if heap != zheap:
            raise Difference("%d: %s\nheap %s\nzheap %s" % (
                p.number, p.sql, str(heap)[:1500], str(zheap)[:1500]))
        if isinstance(heap, str):
            self.failed += 1
            p.broken = p.open
        elif p.sql.startswith(("UPDATE", "INSERT")) and heap[0] > 0:
            p.changed.add(p.row)
        p.sql, p.waits = "", 0
        return True

    def is_key_share(self, p):
        """Of an older version heap waits for who has locked a newer one, too."""
        return "FOR KEY SHARE" in p.sql

    def only_queued(self, p):
        """Did heap keep p from rows only because others wait for them?  It looks at the
        queue wherever a row's bits tell of a locker that excludes p, and bits outlive
        those who rolled back.  So when nobody waits it must let p through."""
        heap, zheap = (s.answer for s in p.sides)
        if " FOR " not in p.sql or isinstance(zheap, str) or isinstance(heap, str) and heap != "55P03":
            return False
        if all(not q.sql or q is p for q in self.pairs):
            return False
        more = {x[0] for x in zheap[1]}
        if isinstance(heap, tuple):
            more -= {x[0] for x in heap[1]}
            if {x[0] for x in heap[1]} - {x[0] for x in zheap[1]}:
                return False
        # first who waits for this row: another one's end could let them have it
        for q in sorted(self.pairs, key=lambda q: q.row != p.row):
            if q.sql and not q.sides[0].look():
                self.cancel(q)
        # its own locks are in nobody's way now
        self.cancel(p, rollback=True)
        sql = p.asked.replace("%T", "h").replace(" NOWAIT", "").replace(" SKIP LOCKED", "")
        self.cur.execute("SELECT id FROM h")
        seen = {x[0] for x in self.cur.fetchall()}
        try:
            self.cur.execute("BEGIN; SET LOCAL lock_timeout = '1s'; " + sql + " SKIP LOCKED")
            got = {x[0] for x in self.cur.fetchall()}
        except psycopg2.Error as e:
            if e.pgcode != "55P03" or not sql.endswith("FOR KEY SHARE"):
                raise
            got = more              # see is_key_share()
        self.cur.execute("ROLLBACK")
        self.note("%d: heap refused because of those who waited: %s" % (p.number, more & seen <= got))
        self.queued += 1
        return more & seen <= got

    def is_behind(self, p):
        """Waits another one for its row, too?  When the row gets another TID, heap's
        queue is lost: who comes first then is chance."""
        return p.sql and any(q.sql and q is not p and q.row == p.row for q in self.pairs)

    def forgive(self, p, heap, zheap):
        """Take away locks that are rightly on one side only."""
        xid, queue = ("transactionid", "ExclusiveLock", True), ("tuple", "AccessShareLock", True)
        # who has changed a row need not lock it nor get a subtransaction's id for that; on
        # heap who has waited gets one to lock newer versions, too, and keeps it
        least = 1 if p.changed and not p.sql else 0
        while (p.changed or p.has_waited) and heap.count(xid) > max(zheap.count(xid), least):
            heap.remove(xid)
        # a lock that isn't remembered is recorded again, by a subtransaction
        while p.savepoints and zheap.count(xid) > max(heap.count(xid), 1):
            zheap.remove(xid)
        # who has changed a row need not queue for it; on heap it is another one
        if p.row in p.changed and not [x for x in zheap if x[0] == "tuple"]:
            heap[:] = [x for x in heap if x[0] != "tuple"]
        # heap waits for a newer version's locker without
        if self.is_key_share(p) and queue in zheap and queue not in heap:
            zheap.remove(queue)

    def compare_locks(self, locks):
        owner = {}              # of transactions: pair, or its prepared name
        pair_of = {s.pid: (p.number, s.table) for p in self.pairs for s in p.sides}
        for pid, _, kind, mode, granted, xid in locks:
            if kind == "transactionid" and mode == "ExclusiveLock" and granted:
                owner[xid] = pair_of[pid][0] if pid in pair_of else "prepared"
        sides = {"h": {}, "z": {}}
        for pid, _, kind, mode, granted, xid in locks:
            if pid not in pair_of:
                if kind == "tuple":
                    raise Difference("a prepared transaction has a tuple's lock")
                continue
            number, table = pair_of[pid]
            what = (kind, mode, granted)
            if self.args.owners and kind == "transactionid":
                what += (owner.get(xid),)
            sides[table].setdefault(number, []).append(what)
        for p in self.pairs:
            if self.is_behind(p):
                continue
            heap, zheap = (sorted(sides[t].get(p.number, []), key=str) for t in "hz")
            self.forgive(p, heap, zheap)
            if heap != zheap:
                raise Difference("pg_locks of %d differ after %s\nheap %s\nzheap %s" % (
                    p.number, self.done[-1], heap, zheap))

    def send(self, p, sql):
        assert not any(s.busy for s in p.sides)
        self.note("%d: %s" % (p.number, sql))
        p.sql, p.asked, p.waits = sql, sql, 0
        for s in p.sides:
            s.send(sql)

    def quick(self, p, sql):
        """A statement that waits for nobody and doesn't fail."""
        self.send(p, sql)
        self.compare()
        if p.sql or p.broken:
            raise Difference("%s waits or failed" % sql)

    # ---------------------------------------------------------------
    #	steps
    # ---------------------------------------------------------------

    def cancel(self, p, rollback=False):
        """Who waits is cancelled on both sides."""
        self.note("%d: cancelled" % p.number)
        for s in p.sides:
            while not s.look():
                self.cur.execute("SELECT pg_cancel_backend(%s)", (s.pid,))
                for _ in range(100):
                    if s.look():
                        break
                    time.sleep(.001)
        if rollback:
            for s in p.sides:
                s.send("ROLLBACK")
            p.sql, p.open, p.broken, p.savepoints = "", False, False, 0
            self.settle()

    def terminate(self, p):
        self.note("%d: terminated" % p.number)
        for s in p.sides:
            self.cur.execute("SELECT pg_terminate_backend(%s, 10000)", (s.pid,))
            s.conn.close()
        self.pairs.remove(p)
        self.pairs.append(Pair(self.node, p.number))

    def end(self, p):
        x = self.r.random()
        if p.broken or x < .4:
            self.send(p, "ROLLBACK")
        elif x < .85 or len(self.prepared) > 50:
            self.send(p, "COMMIT")
        else:
            name = "%d" % len(self.done)
            self.prepared.append(name)
            self.send(p, "PREPARE TRANSACTION '%%T%s'" % name)
        p.open, p.broken, p.savepoints = False, False, 0

    def resolve(self, name):
        how = self.r.choice(["COMMIT", "ROLLBACK"])
        self.prepared.remove(name)
        self.note("%s PREPARED %s" % (how, name))
        for t in "hz":
            self.cur.execute("%s PREPARED '%s%s'" % (how, t, name))

    def savepoint(self, p):
        x = self.r.random()
        if p.savepoints and x < .5:
            at = self.r.randrange(p.savepoints)
            self.send(p, "ROLLBACK TO p%d" % at)
            p.savepoints, p.broken = at + 1, False
        elif p.savepoints and x < .6 and not p.broken:
            p.savepoints = self.r.randrange(p.savepoints)
            self.send(p, "RELEASE p%d" % p.savepoints)
        elif not p.broken:
            self.send(p, "SAVEPOINT p%d" % p.savepoints)
            p.savepoints += 1

    def statement(self, p):
        r = self.r
        i = self.ids[r.randrange(min(len(self.ids), r.choice([3, 20, 1000])))]
        if p.met and r.random() < .3:
            i = r.choice(p.met)
        p.row = i
        p.met.append(i)
        x = r.random()
        show = "id, v, k, md5(pad)"
        if x < .55:
            how = r.choice(["", "", " NOWAIT", " NOWAIT", " SKIP LOCKED"])
            last = i + (r.choice([0, 0, 9]) if how else 0)
            return (f"SELECT {show} FROM %T WHERE id BETWEEN {i} AND {last} ORDER BY id"
                    f" FOR {r.choice(MODES)}{how}")
        if x < .70:
            return f"UPDATE %T SET v = v + 1 WHERE id = {i} RETURNING {show}"
        if x < .78:
            return f"UPDATE %T SET k = k + 1 WHERE id = {i} RETURNING {show}"
        if x < .83:
            return (f"UPDATE %T SET pad = repeat('y', {r.randrange(self.pad_length + 1)})"
                    f" WHERE id = {i} RETURNING {show}")
        if x < .89:
            return f"DELETE FROM %T WHERE id = {i} RETURNING {show}"
        if x < .94:
            # of a new key: who waits for a key's end may wake up before others do
            i = p.row = self.rows + len(self.done)
            self.ids[r.randrange(len(self.ids))] = i
            return f"INSERT INTO %T VALUES ({i}, -1, {i}, repeat('n', {self.pad_length}))"
        return f"SELECT {show} FROM %T ORDER BY id"

    def step(self):
        r = self.r
        for p in self.pairs:
            p.waits += p.sql != ""
            if p.waits > PATIENCE:
                self.cancel(p)
                return self.compare()
        idle = [p for p in self.pairs if not p.sql]
        x = r.random()
        if x < .004 and idle:
            return self.terminate(r.choice(self.pairs))
        if x < .03 and self.prepared or not idle and self.prepared:
            self.resolve(r.choice(self.prepared))
        elif not idle:
            self.cancel(r.choice(self.pairs))
        else:
            p = r.choice(idle)
            if p.open and (p.broken and not p.savepoints or r.random() < .15):
                self.end(p)
            elif p.open and (p.broken or r.random() < .12):
                self.savepoint(p)
            else:
                if not p.open:
                    p.open, p.changed, p.met, p.has_waited = True, set(), [], False
                    self.quick(p, "BEGIN")
                self.send(p, self.statement(p))
                self.compare()
                self.waited += p.sql != ""
                if self.is_behind(p):
                    self.cancel(p)
        self.compare()

    def rows_of(self, t, where, what):
        """None: it waits for a lock."""
        rows = None
        self.cur.execute("BEGIN; SET LOCAL lock_timeout = '300ms'")
        try:
            self.cur.execute(f"SELECT id, v, k, md5(pad) FROM {t} {where} ORDER BY id {what}")
            rows = self.cur.fetchall()
        except psycopg2.errors.LockNotAvailable:
            pass
        self.cur.execute("ROLLBACK")
        return rows

    def locked(self):
        """What can be locked, and read, is the same; tables are sound."""
        for what in [f"FOR {mode} SKIP LOCKED" for mode in MODES] + [""]:
            answers, unknown = [], set()
            for t in "hz":
                rows = self.rows_of(t, "", what)
                if rows is None and t == "h" and "KEY SHARE" in what:
                    rows = []		# see is_key_share()
                    for i in [row[0] for row in self.rows_of(t, "", "")]:
                        row = self.rows_of(t, f"WHERE id = {i}", what)
                        rows += row or []
                        if row is None:
                            unknown.add(i)
                answers.append(rows)
            if answers[1] is None:
                raise Difference("%s: zheap waits" % what)
            answers[1] = [row for row in answers[1] if row[0] not in unknown]
            if answers[0] != answers[1]:
                raise Difference("%s: heap %s\nzheap %s" % (what, *(str(a)[:700] for a in answers)))
        if self.args.am == "zheap":
            self.cur.execute("SELECT * FROM zheap_check('z')")
            wrong = self.cur.fetchall()
            if wrong:
                raise Difference("zheap_check: %s" % wrong[:4])

    def play(self):
        self.make()
        self.pairs = [Pair(self.node, n) for n in range(self.args.sessions)]
        for n in range(self.args.steps):
            self.step()
            if n % 200 == 199:
                for t in "hz":
                    self.cur.execute("VACUUM " + t)
        for p in self.pairs:
            if p.sql:
                self.cancel(p, rollback=True)
        self.pairs = [p for p in self.pairs if not p.sql]
        for p in self.pairs:
            if p.open:
                self.end(p)
                self.compare()
        self.locked()
        self.node.kill()
        self.node.start()
        self.connect()
        self.locked()
        while self.prepared:
            self.resolve(self.prepared[0])
            self.locked()
        faults = self.node.log_faults()
        if faults:
            raise Difference("the log: %s" % faults[:5])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-3")
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--sessions", type=int, default=30)
    ap.add_argument("--lengths", default="24,79,3000,7900,8140")
    ap.add_argument("--locks", action="store_true")
    ap.add_argument("--owners", action="store_true")
    ap.add_argument("--am", default="zheap", choices=("heap", "zheap"))
    ap.add_argument("--settings", default="")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)

    def play(seed):
        crowd = Crowd(args, seed)
        try:
            return play_history(crowd, seed, lambda: "%d bytes, %d steps, %d failed on both sides, %d waited, %d were queued by heap alone" % (
                crowd.length, len(crowd.done), crowd.failed, crowd.waited, crowd.queued), 40) and crowd.failed > 0
        finally:
            crowd.node.drop(args.keep)

    sys.exit(play_seeds(args.seeds, play))


if __name__ == "__main__":
    main()
