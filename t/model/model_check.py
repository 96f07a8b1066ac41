#!/usr/bin/python3
"""Model checker: random histories of four sessions on a zheap table.

Four sessions (READ COMMITTED and REPEATABLE READ, with savepoints, cursors,
rollbacks, in-place updates, updates that move, deletes, row locks in all four
modes) work on a small zheap table while VACUUM, discard, delayed rollback and
crashes of the whole server come in between.  In every second history an old
snapshot stays open while rows come and go.  A list of versions per row, kept
here, says what every open snapshot must see; after each step every open
snapshot is asked, by a sequential, index or bitmap scan.  Row lock conflicts
are predicted too and probed with NOWAIT.

With --keyed the column that updates change is indexed and has few values; rows
that change it stay in place, come back to old keys, and are asked for through
the index: forward, backward, by single keys, by index-only and bitmap scans.

usage: model_check.py --bindir DIR [--seeds FIRST-LAST] [--steps N]
                      [--am heap] [--keyed] [--verbose] [--keep]
                      [--settings TEXT]

Starts a throw-away cluster (as an ordinary user when run by root) and exits
non-zero at the first difference, printing the seed and the last steps.
Needs python3-psycopg2 and an installed zheap_am.
"""
import argparse
import os
import random
import sys
import time

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "python"))
from throwaway import Cluster, become_ordinary  # noqa: E402

KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE = range(4)
MODE_SQL = ["FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE"]
# CONFLICTS[held] = modes that conflict with it
CONFLICTS = {
    KEY_SHARE: {UPDATE},
    SHARE: {NO_KEY_UPDATE, UPDATE},
    NO_KEY_UPDATE: {SHARE, NO_KEY_UPDATE, UPDATE},
    UPDATE: {KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE},
}
PADS = [0, 3, 40, 200, 700]
NSESSIONS = 4
KEYS = 7
SCANS = {
    "seq": "on,off,off",
    "index": "off,on,off",
    "bitmap": "off,off,on",
}


class Difference(Exception):
    """The table and the model disagree."""


class Xact:
    """A (sub)transaction of the model."""

    def __init__(self, parent=None):
        self.parent = parent
        self.top = parent.top if parent else self
        self.aborted = False
        self.commit_seq = None  # of a top transaction

    def is_aborted(self):
        x = self
        while x is not None:
            if x.aborted:
                return True
            x = x.parent
        return False

    def is_running(self):
        return not self.is_aborted() and self.top.commit_seq is None


class Entry:
    """One change of a row: value None means deleted."""

    def __init__(self, xact, cid, value, mode):
        self.xact, self.cid, self.value, self.mode = xact, cid, value, mode


class Snapshot:
    def __init__(self, seq, top, cid):
        self.seq, self.top, self.cid = seq, top, cid


class Session:
    def __init__(self, number):
        self.number = number
        self.conn = None
        self.stack = []  # Xacts, outermost first; names sp1.. for the others
        self.cid = 0
        self.snapshot = None  # of REPEATABLE READ
        self.repeatable = False
        self.cursors = {}

    def reset(self):
        self.stack, self.snapshot, self.cursors = [], None, {}
        self.repeatable = False


class Checker:
    def __init__(self, cluster, seed, verbose, keyed=False):
        self.cluster, self.seed, self.verbose = cluster, seed, verbose
        self.keyed = keyed
        self.zheap = cluster.am == "zheap"
        self.random = random.Random(seed)
        self.seq = 1
        self.rows = {}  # id -> [Entry]
        self.locks = {}  # id -> [(Xact, mode)]
        self.next_id = 1
        self.history = []
        self.sessions = [Session(i) for i in range(NSESSIONS)]
        self.monitor = None
        self.compared = 0
        self.refused = 0
        self.spilled = 0
        self.stale = 0
        # in these histories an old snapshot is open most of the time, and rows
        # come and go, so that writers spill
        self.churn = seed % 2 == 1

    # ---- plumbing

    def connect(self):
        conn = psycopg2.connect(self.cluster.dsn())
        conn.autocommit = True
        with conn.cursor() as cur:
            cur.execute("SET statement_timeout = '20s'; SET lock_timeout = '10s'")
        return conn

    def connect_all(self):
        for s in self.sessions:
            s.conn = self.connect()
            s.reset()
            lazy = self.random.choice(["0", "256kB", "256kB"])
            if self.zheap:
                self.run(s, "SET zheap.rollback_foreground_size = '%s'" % lazy)
        self.monitor = self.connect()

    def log(self, text):
        self.history.append(text)
        if self.verbose:
            print(text, flush=True)

    def run(self, s, sql, quiet=False):
        conn = s.conn if isinstance(s, Session) else s
        if not quiet:
            self.log("s%s: %s" % (s.number if isinstance(s, Session) else "m", sql))
        with conn.cursor() as cur:
            cur.execute(sql)
            self.rowcount = cur.rowcount
            return cur.fetchall() if cur.description else None

    def expect_error(self, s, sql, code):
        """Run sql inside a savepoint of its own; it must fail with code."""
        self.run(s, "SAVEPOINT probe", quiet=True)
        try:
            got = self.run(s, sql)
        except psycopg2.Error as e:
            if e.pgcode != code:
                raise Difference("expected SQLSTATE %s, got %s: %s" % (code, e.pgcode, e))
        else:
            raise Difference("expected SQLSTATE %s, got success: %s" % (code, got))
        self.run(s, "ROLLBACK TO probe", quiet=True)
        self.run(s, "RELEASE probe", quiet=True)
        self.refused += 1

    # ---- the model

    def visible_entry(self, row, snap):
        for e in reversed(self.rows[row]):
            if e.xact.is_aborted():
                continue
            if e.xact.top is snap.top:
                if e.cid >= snap.cid:
                    continue
            elif e.xact.top.commit_seq is None or e.xact.top.commit_seq > snap.seq:
                continue
            return e
        return None

    def view(self, snap):
        out = {}
        for row in self.rows:
            e = self.visible_entry(row, snap)
            if e is not None and e.value is not None:
                out[row] = e.value
        return out

    def top_entry(self, row):
        for e in reversed(self.rows[row]):
            if not e.xact.is_aborted():
                return e
        return None

    def fresh(self, s=None):
        top = s.stack[0] if s is not None and s.stack else None
        return Snapshot(self.seq, top, s.cid if s is not None else 0)

    def statement_snapshot(self, s):
        if s.repeatable:
            if s.snapshot is None:
                s.snapshot = self.fresh(s)
            s.snapshot.cid = s.cid
            return s.snapshot
        return self.fresh(s)

    def holders(self, row, s):
        """modes held on a row by other running top transactions"""
        me = s.stack[0]
        held = {m for x, m in self.locks.get(row, [])
                if x.is_running() and x.top is not me}
        held |= {e.mode for e in self.rows[row]
                 if e.xact.is_running() and e.xact.top is not me}
        return held

    # ---- steps

    def pick(self, s):
        """a row that the statement's snapshot sees, and what can be done"""
        snap = self.statement_snapshot(s)
        seen = sorted(self.view(snap))
        if not seen:
            return None
        return self.random.choice(seen)

    def refuses(self, s, row, mode):
        """None, or the SQLSTATE that a NOWAIT attempt in this mode must meet"""
        if any(mode in CONFLICTS[h] for h in self.holders(row, s)):
            return "55P03"
        snap = self.statement_snapshot(s)
        top = self.top_entry(row)
        seen = self.visible_entry(row, snap)
        if top is not seen and not (
            top.xact.is_running() and top.xact.top is not s.stack[0]
        ):
            # the key that FOR KEY SHARE guards is the same in every version
            newer = [e for e in self.rows[row][self.rows[row].index(seen) + 1:]
                     if not e.xact.is_aborted()]
            if mode == KEY_SHARE and all(e.mode == NO_KEY_UPDATE for e in newer):
                return None
            # heap answers TM_Ok to who held a lock before the other's update
            mine = any(x.is_running() and x.top is s.stack[0]
                       for x, _ in self.locks.get(row, []))
            return "40001" if s.repeatable and not mine else "skip"
        return None

    def probe(self, s, row, mode):
        """True if a change or lock in this mode may go on"""
        code = self.refuses(s, row, mode)
        if code is None:
            return True
        if code == "55P03":
            snap = self.statement_snapshot(s)
            top, seen = self.top_entry(row), self.visible_entry(row, snap)
            if s.repeatable and top is not seen and self.random.random() < 0.5:
                return False
            committed_past = any(
                e.xact.top.commit_seq is not None and not e.xact.is_aborted()
                and e.xact.top.commit_seq > snap.seq for e in self.rows[row])
            if committed_past:
                return False
            self.expect_error(
                s, "SELECT v FROM m WHERE id = %d %s NOWAIT" % (row, MODE_SQL[mode]), code)
        elif code == "40001":
            self.expect_error(
                s, "SELECT v FROM m WHERE id = %d %s NOWAIT" % (row, MODE_SQL[mode]), code)
        return False

    def begin(self, s):
        s.repeatable = self.random.random() < 0.5
        level = "REPEATABLE READ" if s.repeatable else "READ COMMITTED"
        self.run(s, "BEGIN ISOLATION LEVEL " + level)
        s.stack = [Xact()]
        s.cid = 1
        s.snapshot = None
        s.cursors = {}
        if s.repeatable and self.random.random() < 0.7:
            self.run(s, "SELECT 1 FROM m LIMIT 1", quiet=True)
            s.snapshot = self.fresh(s)

    def end(self, s, commit):
        self.run(s, "COMMIT" if commit else "ROLLBACK")
        if commit:
            self.seq += 1
            s.stack[0].commit_seq = self.seq
        else:
            s.stack[0].aborted = True
        s.reset()

    def value(self):
        return self.random.randrange(KEYS if self.keyed else 10**6)

    def insert(self, s):
        n = self.random.choice([3, 5, 8] if self.churn else [1, 1, 1, 2, 5])
        ids = []
        values = []
        for _ in range(n):
            row, self.next_id = self.next_id, self.next_id + 1
            value = (self.value(),
                     self.random.choice(PADS[2:] if self.churn else PADS))
            ids.append((row, value))
            values.append("(%d, %d, repeat('x', %d))" % (row, value[0], value[1]))
        self.statement_snapshot(s)
        self.run(s, "INSERT INTO m VALUES " + ", ".join(values))
        for row, value in ids:
            self.rows[row] = [Entry(s.stack[-1], s.cid, value, UPDATE)]
        s.cid += 1

    def changed_one(self):
        if self.rowcount != 1:
            raise Difference("statement changed %d rows instead of 1" % self.rowcount)

    def update(self, s):
        row = self.pick(s)
        if row is None or not self.probe(s, row, NO_KEY_UPDATE):
            return
        old = self.visible_entry(row, self.statement_snapshot(s)).value
        value = (self.value(),
                 old[1] if self.random.random() < 0.6 else self.random.choice(PADS))
        if value[1] == old[1]:
            self.run(s, "UPDATE m SET v = %d WHERE id = %d" % (value[0], row))
        else:
            self.run(s, "UPDATE m SET v = %d, pad = repeat('x', %d) WHERE id = %d"
                     % (value[0], value[1], row))
        self.changed_one()
        self.rows[row].append(Entry(s.stack[-1], s.cid, value, NO_KEY_UPDATE))
        s.cid += 1

    def update_key(self, s):
        row = self.pick(s)
        if row is None or not self.probe(s, row, UPDATE):
            return
        new, self.next_id = self.next_id, self.next_id + 1
        value = self.visible_entry(row, self.statement_snapshot(s)).value
        self.run(s, "UPDATE m SET id = %d WHERE id = %d" % (new, row))
        self.changed_one()
        self.rows[row].append(Entry(s.stack[-1], s.cid, None, UPDATE))
        self.rows[new] = [Entry(s.stack[-1], s.cid, value, UPDATE)]
        s.cid += 1

    def delete(self, s):
        row = self.pick(s)
        if row is None or not self.probe(s, row, UPDATE):
            return
        self.run(s, "DELETE FROM m WHERE id = %d" % row)
        self.changed_one()
        self.rows[row].append(Entry(s.stack[-1], s.cid, None, UPDATE))
        s.cid += 1

    def lock(self, s):
        row = self.pick(s)
        mode = self.random.randrange(4)
        if row is None or not self.probe(s, row, mode):
            return
        want = self.visible_entry(row, self.statement_snapshot(s)).value
        got = self.run(s, "SELECT v, length(pad) FROM m WHERE id = %d %s NOWAIT"
                       % (row, MODE_SQL[mode]))
        if got != [want]:
            raise Difference("locked row %d: got %s, model %s" % (row, got, want))
        self.locks.setdefault(row, []).append((s.stack[-1], mode))
        s.cid += 1

    def savepoint(self, s):
        if len(s.stack) < 4:
            self.run(s, "SAVEPOINT sp%d" % len(s.stack))
            s.stack.append(Xact(s.stack[-1]))

    def release(self, s):
        if len(s.stack) > 1:
            s.stack.pop()
            self.run(s, "RELEASE sp%d" % len(s.stack))
            # cursors made inside go on; the model keeps their snapshots

    def rollback_to(self, s):
        if len(s.stack) > 1:
            depth = len(s.stack) - 1
            s.stack.pop().aborted = True
            self.run(s, "ROLLBACK TO sp%d" % depth)
            self.run(s, "RELEASE sp%d" % depth, quiet=True)
            s.cursors = {n: c for n, c in s.cursors.items() if c[1] <= depth}

    def open_cursor(self, s):
        if len(s.cursors) < 2:
            name = "c%d" % self.random.randrange(10**6)
            self.run(s, "DECLARE %s NO SCROLL CURSOR FOR SELECT id, v, length(pad) FROM m"
                     % name)
            snap = self.statement_snapshot(s)
            s.cursors[name] = (Snapshot(snap.seq, snap.top, s.cid), len(s.stack))

    def drain_cursor(self, s):
        if s.cursors:
            name = self.random.choice(sorted(s.cursors))
            snap, _ = s.cursors.pop(name)
            got = self.run(s, "FETCH ALL FROM %s" % name)
            self.compare("cursor %s of s%d" % (name, s.number), got, self.view(snap))
            self.run(s, "CLOSE %s" % name, quiet=True)

    def vacuum(self):
        # a truncation would wait 5 s for sessions that have the table open
        idle = not any(s.stack for s in self.sessions)
        self.run(self.monitor, "VACUUM (TRUNCATE %s) m" % ("on" if idle else "off"))

    def pause(self):
        value = self.random.choice(["on", "off", "off"])
        if not self.zheap:
            return
        self.run(self.monitor, "ALTER SYSTEM SET zheap.rollback_paused = %s" % value)
        self.run(self.monitor, "SELECT pg_reload_conf()", quiet=True)

    def crash(self):
        self.log("-- crash")
        for s in self.sessions:
            if s.stack:
                s.stack[0].aborted = True
            s.conn.close()
        self.monitor.close()
        self.cluster.crash()
        self.connect_all()

    def prune_model(self):
        """forget rows that nobody can ever see again"""
        for row in list(self.rows):
            entries = [e for e in self.rows[row] if not e.xact.is_aborted()]
            if not entries or (
                entries[-1].value is None and entries[-1].xact.top.commit_seq is not None
                and not any(s.stack for s in self.sessions)
            ):
                del self.rows[row]
                self.locks.pop(row, None)
            else:
                self.rows[row] = entries

    def step(self):
        r = self.random.random()
        s = self.random.choice(self.sessions)
        if r < 0.004:
            self.crash()
        elif r < 0.03:
            self.vacuum()
        elif r < 0.035:
            self.pause()
        elif not s.stack:
            self.begin(s)
        elif self.churn and s is self.sessions[-1]:
            if s.repeatable and r < 0.9:
                self.open_cursor(s)
                self.drain_cursor(s)
            else:
                self.end(s, True)
        else:
            churn = self.churn
            op = self.random.choices(
                [self.insert, self.update, self.update_key, self.delete, self.lock,
                 self.savepoint, self.release, self.rollback_to, self.open_cursor,
                 self.drain_cursor, lambda x: self.end(x, True),
                 lambda x: self.end(x, False)],
                [30, 15, 12, 24, 6, 8, 4, 5, 2, 3, 16, 4] if churn else
                [14, 28, 4, 7, 12, 8, 4, 5, 2, 3, 8, 5])[0]
            op(s)

    # ---- comparing

    def compare(self, who, got, want):
        self.compared += 1
        found = {}
        for row, v, n in got:
            if row in found:
                raise Difference("%s: row %s twice: %s" % (who, row, got))
            found[row] = (v, n)
        if found != want:
            diff = {r: ("got", found.get(r), "model", want.get(r))
                    for r in sorted(set(found) | set(want)) if found.get(r) != want.get(r)}
            raise Difference("%s: %s" % (who, diff))

    def check(self):
        query = "SELECT id, v, length(pad) FROM m WHERE id > 0"
        for s in self.sessions:
            if not s.stack:
                continue
            kind = self.random.choice(sorted(SCANS))
            flags = SCANS[kind].split(",")
            self.run(s, "SELECT set_config('enable_seqscan', '%s', false), "
                     "set_config('enable_indexscan', '%s', false), "
                     "set_config('enable_bitmapscan', '%s', false)" % tuple(flags), quiet=True)
            if s.repeatable and s.snapshot is None:
                s.snapshot = self.fresh(s)
            snap = self.statement_snapshot(s)
            who = "s%d (%s, %s scan)" % (s.number, "RR" if s.repeatable else "RC", kind)
            self.compare(who, self.run(s, query, quiet=True), self.view(snap))
            if self.keyed:
                self.check_keys(who, s, self.view(snap))
        self.compare("new snapshot", self.run(self.monitor, query, quiet=True),
                     self.view(self.fresh()))
        if self.keyed:
            self.check_keys("new snapshot", self.monitor, self.view(self.fresh()))

    def check_keys(self, who, s, view):
        """The same rows, in order, through the index over what is updated."""
        kind = self.random.choice(["forward", "backward", "bitmap", "only", "key"])
        self.run(s, "SELECT set_config('enable_seqscan', 'off', false), "
                 "set_config('enable_sort', 'off', false), "
                 "set_config('enable_indexscan', '%s', false), "
                 "set_config('enable_bitmapscan', '%s', false)"
                 % (("off", "on") if kind == "bitmap" else ("on", "off")), quiet=True)
        who = "%s, keys %s" % (who, kind)
        if kind == "only":
            got = [v for v, in self.run(s, "SELECT v FROM m WHERE v >= 0 ORDER BY v", quiet=True)]
            if got != sorted(v for v, _ in view.values()):
                raise Difference("%s: got %s, model %s" % (who, got, view))
            self.compared += 1
            return
        if kind == "key":
            key = self.random.randrange(KEYS)
            got = self.run(s, "SELECT id, v, length(pad) FROM m WHERE v = %d" % key, quiet=True)
            self.compare(who, got, {r: x for r, x in view.items() if x[0] == key})
            return
        order = {"forward": " ORDER BY v", "backward": " ORDER BY v DESC", "bitmap": ""}[kind]
        got = self.run(s, "SELECT id, v, length(pad) FROM m WHERE v BETWEEN 0 AND 1000" + order,
                       quiet=True)
        self.compare(who, got, view)
        keys = [v for _, v, _ in got]
        if order and keys != sorted(keys, reverse=kind == "backward"):
            raise Difference("%s: not in order: %s" % (who, got))

    def check_storage(self):
        if self.zheap:
            got = self.run(self.monitor, "SELECT * FROM zheap_check('m')", quiet=True)
            if got:
                raise Difference("zheap_check: %s" % got)
            self.spilled += self.run(
                self.monitor, "SELECT count(*) FROM generate_series(0, pg_relation_size('m')"
                " / 8192 - 1) b, zheap_page_items('m', b) WHERE state = 'spilled'", quiet=True)[0][0]
        if self.keyed and self.zheap:
            self.stale += self.run(
                self.monitor, "SELECT count(*) FROM generate_series(0, pg_relation_size('m')"
                " / 8192 - 1) b, zheap_page_items('m', b) WHERE 'stale' = ANY (flags)",
                quiet=True)[0][0]
        for index in ("m_pkey", "m_pad") + (("m_v", "m_v_id") if self.keyed else ()):
            self.run(self.monitor, "SELECT bt_index_check('%s', true)" % index, quiet=True)

    def history_of(self, steps):
        self.monitor = self.connect()
        self.run(self.monitor, "DROP TABLE IF EXISTS m")
        self.run(self.monitor, "CREATE TABLE m (id int PRIMARY KEY, v int, pad text) USING "
                 + self.cluster.am)
        # in half of the histories a new pad changes an indexed column: the row moves
        column = self.random.choice(["length(pad)", "-id"])
        self.run(self.monitor, "CREATE INDEX m_pad ON m ((%s))" % column)
        if self.keyed:
            self.run(self.monitor, "CREATE INDEX m_v ON m (v)")
            self.run(self.monitor, "CREATE INDEX m_v_id ON m (v, pad)")
        self.monitor.close()
        self.connect_all()
        for n in range(steps):
            self.step()
            self.check()
            if n % 50 == 49:
                self.prune_model()
                self.check_storage()
        for s in self.sessions:
            if s.stack:
                self.end(s, self.random.random() < 0.5)
        self.check()
        self.vacuum()
        self.check_storage()
        for s in self.sessions:
            s.conn.close()
        self.monitor.close()


class ModelCluster(Cluster):
    """One server, of the access method that is checked."""

    def __init__(self, bindir, am, keyed=False):
        super().__init__(bindir)
        self.am = am
        self.keyed = keyed
        self.drawn = ""		# settings of chaos

    def create(self):
        settings = """
autovacuum = off
restart_after_crash = on
shared_buffers = 16MB
fsync = off
"""
        if self.am == "zheap":
            settings += "zheap.discard_naptime = 20\nzheap.jump_interval = 2\n"
            if self.keyed:
                settings += "zheap.update_indexed_in_place = on\n"
        else:
            settings += "shared_preload_libraries = ''\n"
        self.init(settings + self.drawn)
        self.start()
        conn = psycopg2.connect(self.dsn())
        conn.autocommit = True
        with conn.cursor() as cur:
            cur.execute("CREATE EXTENSION amcheck")
            if self.am == "zheap":
                cur.execute("CREATE EXTENSION zheap_am")
        conn.close()

    def crash(self):
        self.kill()
        self.start()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-20")
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--am", default="zheap", help="heap: tests the checker itself")
    ap.add_argument("--keyed", action="store_true", help="updates change an indexed column")
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--keep", action="store_true", help="keep the cluster after a failure")
    ap.add_argument("--settings", default="", help="of the server; ; between them")
    args = ap.parse_args()
    become_ordinary(__file__)
    first, _, last = args.seeds.partition("-")
    passed = failed = spilled = stale = 0
    for seed in range(int(first), int(last or first) + 1):
        cluster = ModelCluster(args.bindir, args.am, args.keyed)
        cluster.drawn = args.settings.replace(";", "\n") + "\n"
        checker = Checker(cluster, seed, args.verbose, args.keyed)
        start = time.time()
        try:
            cluster.create()
            checker.history_of(args.steps)
        except Exception as e:  # every failure ends this history and is reported
            failed += 1
            print("seed %d FAILED at step %d: %s: %s" % (
                seed, len(checker.history), type(e).__name__, e))
            print("\n".join(checker.history[-40:]))
            print("\n".join(cluster.log_faults()[-5:]))
            cluster.drop(args.keep)
        else:
            passed += 1
            spilled += checker.spilled
            stale += checker.stale
            print("seed %d ok: %d comparisons, %d refusals as predicted, %d spilled rows, %.0f s" % (
                seed, checker.compared, checker.refused, checker.spilled, time.time() - start),
                flush=True)
            cluster.drop(False)
    if args.am == "zheap" and passed >= 6 and spilled == 0:
        print("no history spilled a row: the checker doesn't test what it should")
        failed += 1
    if args.am == "zheap" and args.keyed and passed > 0 and stale == 0:
        print("no row changed its key in place: the checker doesn't test what it should")
        failed += 1
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
