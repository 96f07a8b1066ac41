#!/usr/bin/python3
"""Growth over rounds: does anything rise that should have a level?

Rounds of the same work on zheap tables and on their heap twins: keys that rise or
change at random, rows that become wider and narrower, documents beside a counter, a
queue, keys that are deleted and come again, transactions and savepoints that roll
back.  Short snapshots are always open, each until the next one is; at the end of a
round comes VACUUM.  Tables, each of their indexes, TOAST, undo, and the memory that a
session keeps must have a level: the last rounds may be little above the first ones.
In the end, nobody's snapshot being open, indexes are at most little larger than
heap's.

usage: growth.py --bindir DIR [--seeds FIRST-LAST] [--rounds N] [--steps N] [--verbose]

A seed draws a mixture of the works, with or without
zheap.update_indexed_in_place.  Exits non-zero if a seed failed.
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
shared_buffers = 64MB
zheap.discard_naptime = 20
"""
ROWS, DOCUMENTS = 1500, 40
SCHEMA = """
CREATE TABLE %(t)s (id int PRIMARY KEY, k int, r int, n int, s text) USING %(am)s;
CREATE INDEX %(t)s_k ON %(t)s (k);
CREATE INDEX %(t)s_r ON %(t)s (r);
CREATE INDEX %(t)s_n ON %(t)s (n);
INSERT INTO %(t)s SELECT g, g, g, 0, repeat('s', 60) FROM generate_series(1, %(rows)d) g;
CREATE TABLE %(t)s_queue (id int PRIMARY KEY, s text) USING %(am)s;
CREATE TABLE %(t)s_doc (id int PRIMARY KEY, n int, d text) USING %(am)s;
ALTER TABLE %(t)s_doc ALTER d SET STORAGE EXTERNAL;
INSERT INTO %(t)s_doc SELECT g, 0, repeat('d', 6000) FROM generate_series(1, %(documents)d) g;
VACUUM ANALYZE %(t)s, %(t)s_queue, %(t)s_doc"""
SIZES = """SELECT replace(c.relname, %s, ''), pg_relation_size(c.oid) / 8192 FROM pg_class c
	WHERE c.relname ~ ('^' || %s || '(_|$)') AND c.relkind IN ('r', 'i')
	UNION ALL SELECT replace(c.relname, %s, '') || x.what, pg_relation_size(x.oid) / 8192
	FROM pg_class c, LATERAL (SELECT reltoastrelid, ' toast' UNION ALL
		SELECT indexrelid, ' toast index' FROM pg_index WHERE indrelid = reltoastrelid) x (oid, what)
	WHERE c.relname ~ ('^' || %s || '(_|$)') AND c.relkind = 'r' AND reltoastrelid <> 0"""
UNDO = "SELECT coalesce(sum(used_blocks), 0)::int FROM pg_stat_zheap_undo"
MEMORY = "SELECT sum(used_bytes)::bigint / 8192 FROM pg_backend_memory_contexts"
# of a level, and pages besides
RISE, PAGES = 1.15, 12
BEYOND_HEAP, PAGES_BEYOND_HEAP = 1.25, 8


class History:
    def __init__(self, node, seed, args):
        self.node, self.args, self.r = node, args, random.Random(seed)
        self.done = []
        self.next = 0           # number of the queue's newest entry
        self.levels = {}        # of what, a size for each round
        works = [self.rising, self.random_key, self.counter, self.width, self.document, self.queue,
                 self.again, self.back, self.savepoint]
        self.works = self.r.sample(works, self.r.randint(2, len(works)))

    def connect(self):
        conn = psycopg2.connect(self.node.dsn("growth"))
        conn.autocommit = True
        return conn.cursor()

    def open(self):
        admin = psycopg2.connect(self.node.dsn())
        admin.autocommit = True
        cur = admin.cursor()
        cur.execute("DROP DATABASE IF EXISTS growth WITH (FORCE)")
        cur.execute("CREATE DATABASE growth")
        self.keyed = self.r.random() < 0.5
        if self.keyed:
            cur.execute("ALTER DATABASE growth SET zheap.update_indexed_in_place = on")
        admin.close()
        self.cur = self.connect()
        self.cur.execute("CREATE EXTENSION zheap_am")
        for t, am in (("z", "zheap"), ("h", "heap")):
            for sql in (SCHEMA % {"t": t, "am": am, "rows": ROWS, "documents": DOCUMENTS}).split(";"):
                self.cur.execute(sql)
        self.holders = [self.connect(), self.connect()]

    # ---- works: each a transaction, for both tables

    def one(self):
        return self.r.randint(1, ROWS)

    def rising(self):
        return "UPDATE {t} SET k = %d WHERE id = %d" % (ROWS + len(self.done), self.one())

    def random_key(self):
        return "UPDATE {t} SET r = %d WHERE id = %d" % (self.r.randint(1, 1000000), self.one())

    def counter(self):
        return "UPDATE {t} SET s = s || '' WHERE id BETWEEN %d AND %d" % ((self.one(),) * 2)

    def width(self):
        return "UPDATE {t} SET s = repeat('w', %d) WHERE id = %d" % (self.r.randint(0, 120), self.one())

    def document(self):
        i = self.r.randint(1, DOCUMENTS)
        if self.r.random() < 0.5:
            return "UPDATE {t}_doc SET n = n + 1 WHERE id = %d" % i
        return "UPDATE {t}_doc SET d = repeat(chr(97 + n %% 20), %d) WHERE id = %d" % (4000 + 50 * i, i)

    def queue(self):
        self.next += 10
        return ("INSERT INTO {t}_queue SELECT g, repeat('q', 50) FROM generate_series(%d, %d) g;"
                "DELETE FROM {t}_queue WHERE id <= %d" % (self.next - 9, self.next, self.next - 200))

    def again(self):
        i = self.one()
        return ("DELETE FROM {t} WHERE id = %d; INSERT INTO {t} VALUES (%d, %d, %d, 0, repeat('a', 60))"
                % (i, i, i, i))

    def back(self):
        return "BEGIN; %s; ROLLBACK" % self.r.choice([w for w in self.works if w not in (self.back, self.savepoint)]
                                                    or [self.counter])()

    def savepoint(self):
        return "BEGIN; SAVEPOINT a; %s; ROLLBACK TO a; %s; COMMIT" % (self.random_key(), self.counter())

    # ---- rounds

    def measure(self):
        sizes = {}
        for t in "zh":
            self.cur.execute(SIZES, (t, t, t, t))
            sizes.update({(t, name or "table"): pages for name, pages in self.cur.fetchall()})
        self.cur.execute(UNDO)
        sizes["z", "undo"] = self.cur.fetchone()[0]
        self.cur.execute(MEMORY)
        sizes["z", "memory"] = self.cur.fetchone()[0]
        return sizes

    def vacuum(self):
        for t in "zh":
            self.cur.execute("VACUUM %s, %s_queue, %s_doc" % (t, t, t))

    def snapshot(self, n):
        """Another one is opened before the old one goes."""
        new, old = self.holders[n % 2], self.holders[(n + 1) % 2]
        new.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z")
        old.execute("ROLLBACK")

    def play(self):
        self.open()
        for n in range(self.args.rounds):
            for step in range(self.args.steps):
                if step % (self.args.steps // 4) == 0:
                    self.snapshot(4 * n + step * 4 // self.args.steps)
                sql = self.r.choice(self.works)()
                self.done.append(sql)
                for t in "zh":
                    self.cur.execute(sql.format(t=t))
            self.vacuum()
            sizes = self.measure()
            for what, pages in sizes.items():
                self.levels.setdefault(what, []).append(int(pages))
        for what, level in self.levels.items():
            if self.args.verbose:
                print(*what, level)
            if what[0] == "z":
                self.judge(what[1], level)
        self.compare()

    def judge(self, name, level):
        """The last quarter against the second one; heap's may rise as well."""
        quarter = len(level) // 4
        before, now = max(level[quarter:2 * quarter]), min(level[-quarter:])
        heap = self.levels.get(("h", name), [0] * len(level))
        heap_rise = max(heap[-quarter:]) - min(heap[quarter:2 * quarter])
        if now > before * RISE + PAGES + BEYOND_HEAP * max(heap_rise, 0):
            raise Difference("%s rises: %s (heap %s)" % (name, level, self.levels.get(("h", name))))

    def compare(self):
        for holder in self.holders:
            holder.execute("ROLLBACK")
        self.cur.execute("SELECT pg_zheap_drain_undo('5 s')")
        self.vacuum()
        self.vacuum()
        sizes = self.measure()
        for (t, name), pages in sizes.items():
            heap = sizes.get(("h", name))
            if t == "z" and heap is not None and pages > heap * BEYOND_HEAP + PAGES_BEYOND_HEAP:
                raise Difference("%s has %d pages in the end, heap's %d: %s" % (
                    name, pages, heap, self.levels[t, name]))
        for what in ("", "_queue", "_doc"):
            rows = []
            for t in "zh":
                self.cur.execute("SELECT count(*), sum(hashtext(x::text)) FROM %s%s x" % (t, what))
                rows.append(self.cur.fetchone())
            if rows[0] != rows[1]:
                raise Difference("rows%s: zheap %s heap %s" % (what, *rows))
        self.cur.execute("SELECT * FROM zheap_check('z')")
        wrong = self.cur.fetchall() + self.node.log_faults()
        if wrong:
            raise Difference("%s" % wrong[:4])

    def sum_up(self):
        return "%s, %s; pages %s" % (
            "keyed" if self.keyed else "not keyed", " ".join(sorted(w.__name__ for w in self.works)),
            " ".join("%s %d" % (name, level[-1]) for (t, name), level in sorted(self.levels.items()) if t == "z"))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-5")
    ap.add_argument("--rounds", type=int, default=16)
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)
    node = Cluster(args.bindir)
    node.init(SETTINGS)
    node.start()

    def play(seed):
        history = History(node, seed, args)
        try:
            return play_history(history, seed, history.sum_up, 5)
        finally:
            for cur in [history.cur] + history.holders:
                cur.connection.close()

    try:
        sys.exit(play_seeds(args.seeds, play))
    finally:
        node.drop()


if __name__ == "__main__":
    main()
