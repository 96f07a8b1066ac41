#!/usr/bin/python3
"""Differential test of large values: the same changes to a zheap table and to
a heap table, in the same transactions.

Values from 1 byte to 3 MB, compressible and not, of text, bytea, jsonb, arrays
and composites.  Four sessions insert, change values and other columns, delete,
in savepoints, transactions that commit and abort; three hold old snapshots and
cursors.  Both tables must have the same rows, the same slices of values and
the same sizes for big ones, at any time; through VACUUM, VACUUM FULL,
CLUSTER, REINDEX, ALTER TABLE and crashes of the server.  At the end
zheap_check and amcheck of the tables and their toast tables.

usage: values.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--am heap]

--am heap compares heap with heap: that tests the test.
"""
import argparse
import os
import random
import shutil
import sys
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, become_ordinary, play_seeds  # noqa: E402

WRITERS = 4
READERS = 3
KEYS = 40

SCHEMA = """
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE FUNCTION easy(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(repeat(md5(seed::text) || 'and so on, and so on, ', n / 50 + 1), n) $$;
"""
TABLE = """
CREATE TABLE %(t)s (id int PRIMARY KEY, n int, t text, b bytea, j jsonb,
	a text[], p pair, m text) USING %(am)s;
ALTER TABLE %(t)s ALTER m SET STORAGE MAIN;
"""
# rows, values, slices without the rest; sizes, but not where a value may be in
# the row for one access method and out of line, less its header, for the other:
# with a large toast_tuple_target short ones stay in the row, and a rewrite leaves
# them there if an old snapshot may need the version
VIEW = """
SELECT id, n, length(t), md5(t), md5(b), md5(j::text), md5(a::text),
	md5((p).b), md5(m), md5(substr(t, %(at)d, 2100)), md5(substr(b, %(at)d, 10)),
	md5(left(j ->> 'k', 30)), length(a[1]),
	CASE WHEN pg_column_size(t) > %(out)d THEN pg_column_size(t) END,
	CASE WHEN pg_column_size(b) > %(out)d THEN pg_column_size(b) END,
	CASE WHEN pg_column_size(m) > 8300 THEN pg_column_size(m) END
	FROM %(t)s %(where)s ORDER BY id"""
CHECKS = """
SELECT t.oid::regclass::text, c::text FROM pg_class t
	JOIN pg_am a ON a.oid = t.relam, LATERAL zheap_check(t.oid) c
	WHERE a.amname = 'zheap' AND t.relkind IN ('r', 't') LIMIT 10"""
INDEX_CHECKS = """
SELECT bt_index_check(i.indexrelid, true) FROM pg_index i
	WHERE indrelid IN ('z'::regclass, (SELECT reltoastrelid FROM pg_class WHERE oid = 'z'::regclass))"""


class Difference(Exception):
    pass


class Session:
    """A connection; each statement goes to both tables."""

    def __init__(self, arena, name):
        self.conn = psycopg2.connect(arena.cluster.dsn())
        self.conn.autocommit = True
        self.cur = self.conn.cursor()
        self.name = name
        self.open = False			# a transaction
        self.snapshot = False
        self.savepoints = 0
        self.cursor = False
        self.touched = False

    def run(self, sql):
        self.cur.execute(sql)
        return self.cur.fetchall() if self.cur.description else None

    def both(self, sql):
        got = []
        for t in "zh":
            self.cur.execute(sql.replace("@", t))
            got.append(self.cur.fetchall() if self.cur.description
                       else self.cur.rowcount)
        if got[0] != got[1]:
            for x, y in zip(*got) if isinstance(got[0], list) else [got]:
                if x != y:
                    raise Difference("%s: %s\nzheap %s\nheap  %s" % (
                        self.name, sql, x, y))
            raise Difference("%s: %s: %s rows, %s" % (
                self.name, sql, len(got[0]), len(got[1])))
        return got[0]


class Arena:
    def __init__(self, bindir, am):
        self.cluster = Cluster(bindir)
        self.am = am
        self.cluster.init("fsync = off\nautovacuum = off\n"
                          "shared_buffers = 16MB\nzheap.discard_naptime = 20\n"
                          "wal_consistency_checking = 'zheap'\n")
        self.cluster.start()
        self.admin("CREATE EXTENSION zheap_am; CREATE EXTENSION amcheck")
        self.admin(SCHEMA)

    def admin(self, sql):
        conn = self.cluster.wait_ready()
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute(sql)
        rows = cur.fetchall() if cur.description else None
        conn.close()
        return rows


class History:
    def __init__(self, arena, seed):
        self.arena = arena
        self.r = random.Random(seed)
        self.steps = []
        self.out = 2100				# longer values are out of line
        self.restored = False		# storage went back to EXTENDED
        for t, am in (("z", arena.am), ("h", "heap")):
            arena.admin("DROP TABLE IF EXISTS %s" % t)
            arena.admin(TABLE % {"t": t, "am": am})
        self.connect()

    def connect(self):
        self.writers = [Session(self.arena, "w%d" % i) for i in range(WRITERS)]
        self.readers = [Session(self.arena, "r%d" % i) for i in range(READERS)]
        self.admin = Session(self.arena, "admin")

    def close(self):
        for s in self.writers + self.readers + [self.admin]:
            s.conn.close()

    # -- values

    def size(self):
        r = self.r
        if r.random() < 0.5:
            edge = r.choice([1, 2, 126, 127, 1995, 1996, 1997, 2000, 2032,
                             3992, 3993, 7984, 7985, 8160, 9980])
            return max(1, edge + r.choice([-1, 0, 0, 1]))
        return int(2 ** r.uniform(0, 14 if r.random() < 0.97 else 21.5))

    def text(self):
        return "%s(%d, %d)" % (self.r.choice(["val", "val", "easy"]),
                               self.r.randrange(1000), self.size())

    def value(self, column):
        if self.r.random() < 0.07:
            return "NULL"
        return {
            "t": lambda: self.text(),
            "m": lambda: self.text(),
            "b": lambda: "convert_to(%s, 'UTF8')" % self.text(),
            "j": lambda: "jsonb_build_object('k', %s, 'n', %d)" % (
                self.text(), self.r.randrange(9)),
            "a": lambda: "ARRAY[%s, %s]" % (self.text(), self.text()),
            "p": lambda: "ROW(%d, %s)::pair" % (self.r.randrange(9), self.text()),
        }[column]()

    def change(self, column):
        r = self.r
        more = {
            "t": ["t || 'x'", "overlay(t PLACING 'yy' FROM 5)", "left(t, 3000)", "t || t"],
            "m": ["m || 'x'", "left(m, -1)"],
            "b": ["b || '\\x00'::bytea", "substr(b, 2)"],
            "j": ["j || '{\"n\": %d}'" % r.randrange(9), "j - 'n'"],
            "a": ["a || 'more'::text", "a[1:1]"],
            "p": ["ROW((p).a, (p).b || 'x')::pair"],
        }[column]
        # what grows by doubling stops growing
        if r.random() < 0.4:
            e = r.choice(more)
            if e == "t || t":
                e = "CASE WHEN length(t) < 100000 THEN t || t ELSE t END"
            return "%s = %s" % (column, e)
        return "%s = %s" % (column, self.value(column))

    # -- steps

    def step(self):
        r = self.r
        kind = r.random()
        if kind < 0.70:
            self.write(r.randrange(WRITERS))
        elif kind < 0.86:
            self.read(r.choice(self.readers))
        elif kind < 0.92:
            self.look(r.choice(self.writers + self.readers + [self.admin]))
        elif kind < 0.985:
            self.maintain()
        else:
            self.crash()

    def note(self, who, what):
        self.steps.append("%s: %s" % (who, what))

    def write(self, i):
        r = self.r
        s = self.writers[i]
        if not s.open and r.random() < 0.4:
            s.run("BEGIN ISOLATION LEVEL %s" % r.choice(
                ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"]))
            s.open, s.savepoints = True, 0
        elif s.open and r.random() < 0.3:
            x = r.random()
            if x < 0.3:
                s.savepoints += 1
                s.run("SAVEPOINT s%d" % s.savepoints)
                self.note(s.name, "SAVEPOINT")
            elif x < 0.6 and s.savepoints:
                s.run("ROLLBACK TO s%d" % s.savepoints)
                self.note(s.name, "ROLLBACK TO")
            else:
                end = r.choice(["COMMIT", "COMMIT", "ROLLBACK"])
                s.run(end)
                s.open = False
                self.note(s.name, end)
            return
        # each writer has keys of its own, so nobody waits
        key = i + WRITERS * r.randrange(KEYS // WRITERS)
        columns = r.sample("tbjapm", r.choice([1, 1, 1, 2, 6]))
        x = r.random()
        if x < 0.35:
            sql = "INSERT INTO @ (id, n, %s) VALUES (%d, %d, %s) ON CONFLICT (id) DO " % (
                ", ".join(columns), key, r.randrange(9),
                ", ".join(self.value(c) for c in columns))
            sql += "NOTHING" if r.random() < 0.3 else "UPDATE SET " + ", ".join(
                "%s = excluded.%s" % (c, c) for c in columns)
        elif x < 0.75:
            sql = "UPDATE @ SET %s WHERE id = %d" % (
                ", ".join(self.change(c) for c in columns), key)
        elif x < 0.9:
            sql = "UPDATE @ SET n = n + 1 WHERE id %% %d = %d" % (WRITERS, i)
        else:
            sql = "DELETE FROM @ WHERE id = %d" % key
        self.note(s.name, sql)
        s.both(sql)
        s.touched = s.open

    def view(self, s, where=""):
        # heap's rewrites compress anew what old snapshots need, too
        out = 10 ** 9 if self.restored and s in self.readers else self.out
        s.both(VIEW % {"t": "@", "at": self.r.choice([1, 1990, 5000]),
                       "out": out, "where": where})

    def look(self, s):
        self.note(s.name, "look")
        self.view(s)
        s.touched = s.open

    def read(self, s):
        """Old snapshots, some of which take no lock before they read; cursors."""
        r = self.r
        if not s.open:
            s.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            s.open, s.cursor, s.touched = True, False, False
            self.note(s.name, "BEGIN")
            if r.random() < 0.4:
                for t in "zh":
                    s.run("DECLARE c%s CURSOR FOR SELECT id, md5(t), md5(b), md5(m), md5((p).b) FROM %s ORDER BY id" % (t, t))
                s.cursor = s.touched = True
        elif s.cursor and r.random() < 0.5:
            self.note(s.name, "FETCH")
            s.both("FETCH %d FROM c@" % r.choice([1, 5, 100]))
        elif r.random() < 0.75:
            self.note(s.name, "read")
            self.view(s)
            s.touched = True
        else:
            s.run("COMMIT")
            s.open = False
            self.note(s.name, "COMMIT")

    def maintain(self):
        r = self.r
        sql = r.choice(["VACUUM @", "VACUUM @", "VACUUM (PROCESS_TOAST false) @",
                        "VACUUM FULL @", "CLUSTER @ USING @_pkey", "REINDEX TABLE @",
                        "ALTER TABLE @ ALTER t SET STORAGE EXTERNAL",
                        "ALTER TABLE @ ALTER t SET STORAGE EXTENDED",
                        "ALTER TABLE @ ALTER b SET STORAGE EXTERNAL",
                        "ALTER TABLE @ SET (toast_tuple_target = %d)" % r.choice([128, 2032, 8000]),
                        "CHECKPOINT"])
        if sql.endswith("= 8000)"):
            self.out = 8300
        self.restored |= sql.endswith("EXTENDED")
        if sql == "CHECKPOINT":
            self.admin.run(sql)
        elif sql.startswith("VACUUM @") or sql.startswith("VACUUM ("):
            self.admin.both(sql)
        else:
            # wants the table for itself; snapshots that haven't locked it stay
            for s in self.writers:
                if s.open:
                    s.run("COMMIT")
                    s.open = False
            for s in self.readers:
                if s.open and s.touched:
                    s.run("COMMIT")
                    s.open = False
            self.admin.both(sql)
        self.note("admin", sql)

    def crash(self):
        self.note("all", "kill -9")
        self.arena.cluster.kill()
        self.arena.cluster.start()
        self.close()
        self.connect()
        self.look(self.admin)

    def finish(self):
        for s in self.writers + self.readers:
            if s.open:
                s.run("COMMIT")
        self.look(self.admin)
        for sql in (CHECKS,):
            found = self.admin.run(sql)
            if found:
                raise Difference("zheap_check: %s" % found)
        self.admin.run(INDEX_CHECKS)
        faults = self.arena.cluster.log_faults()
        if faults:
            raise Difference("log: %s" % "\n".join(faults[:5]))
        self.close()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-10")
    ap.add_argument("--steps", type=int, default=250)
    ap.add_argument("--am", default="zheap", help="heap: tests the test itself")
    ap.add_argument("--keep", action="store_true", help="keep the cluster after a failure")
    args = ap.parse_args()
    become_ordinary(__file__)
    arena = None

    def play(seed):
        nonlocal arena
        begin = time.time()
        history = None
        try:
            arena = arena or Arena(args.bindir, args.am)
            history = History(arena, seed)
            for _ in range(args.steps):
                history.step()
            history.finish()
        except Exception as e:  # every failure ends this history, is reported
            print("seed %d FAILED: %s: %s" % (seed, type(e).__name__, e))
            if history is not None:
                print("after %d steps:\n%s" % (
                    len(history.steps), "\n".join(x[:300] for x in history.steps[-40:])))
            if arena is not None:
                print("\n".join(arena.cluster.log_faults()[:10]))
                print(arena.cluster.log_tail(8))
                arena.cluster.drop(args.keep)
            arena = None
            return False
        print("seed %d ok: %d steps, %.1f s" % (
            seed, len(history.steps), time.time() - begin))
        return True

    status = play_seeds(args.seeds, play)
    if arena is not None:
        arena.cluster.drop()
        shutil.rmtree(arena.cluster.root, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
