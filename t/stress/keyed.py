#!/usr/bin/python3
"""Stress of updates of indexed columns in place.

Writers toggle and randomise indexed columns, walk up an index while they
change it (Halloween), roll back to savepoints and as a whole, delete, insert,
delete and insert again.  Readers compare, within one REPEATABLE READ snapshot
early and late, what index scans (forward, backward, index-only, by single
keys) and bitmap scans (AND, OR too) show with a sequential scan.  VACUUM,
REINDEX and amcheck go on all along; at the end zheap_check and one entry per
row.

usage: keyed.py --dsn "host=.. port=.. dbname=.." [--seconds 60] [--seed 1]
Exit status 0: no difference was found.  The server log is the caller's to look
at (TRAP, PANIC, corrupt).
"""
import argparse
import os
import random
import sys
import threading
import time

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "python"))
from findings import count, problem, problems, stats  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument("--dsn", required=True)
ap.add_argument("--seconds", type=int, default=60)
ap.add_argument("--rows", type=int, default=400)
ap.add_argument("--keys", type=int, default=12)
ap.add_argument("--writers", type=int, default=3)
ap.add_argument("--readers", type=int, default=2)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--setting", default="on")
args = ap.parse_args()
deadline = time.time() + args.seconds
# the last four are soft but for a column that never changes; m has equal values
INDEXES = {"k_a": "(a)", "k_b": "(b, a)", "k_t": "(t) WITH (deduplicate_items = off)",
           "k_m": "(m)", "k_p": "(a, m) WHERE id % 2 = 0", "k_j": "(b) INCLUDE (id)",
           "k_y": "((id % 3), a)"}
AMOUNTS = ["0", "0.0", "1", "1.0", "1.00", "-2", "-2.0"]
EXPECTED = {"40001", "40P01", "23505", "55P03"}


def connect():
    c = psycopg2.connect(args.dsn)
    c.autocommit = True
    cur = c.cursor()
    cur.execute("SET zheap.update_indexed_in_place = %s" % args.setting)
    return cur


def setup():
    cur = connect()
    cur.execute("CREATE EXTENSION IF NOT EXISTS zheap_am")
    cur.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    cur.execute("DROP TABLE IF EXISTS k")
    cur.execute("CREATE TABLE k (id int PRIMARY KEY, a int, b int, t text, n int, "
                "m numeric DEFAULT 1) USING zheap")
    for name, columns in INDEXES.items():
        cur.execute("CREATE INDEX %s ON k %s" % (name, columns))
    cur.execute("INSERT INTO k SELECT i, i %% %d, i, 'x' || i %% 5, 0 "
                "FROM generate_series(1, %d) i" % (args.keys, args.rows))
    while args.setting == "on":  # until scans of before are gone
        cur.execute("UPDATE k SET a = a + 1 WHERE id = 1")
        cur.execute("SELECT 'keys_allowed' = ANY (zheap_page_flags('k', 0))")
        if cur.fetchone()[0]:
            break
        time.sleep(0.01)
    cur.execute("VACUUM k")


def change(cur, r):
    row = r.randrange(args.rows) + 1
    x = r.random()
    if r.random() < 0.15:
        cur.execute("UPDATE k SET m = %s WHERE id = %d" % (r.choice(AMOUNTS), row))
    elif x < 0.35:
        cur.execute("UPDATE k SET a = %d, n = n + 1 WHERE id = %d" % (r.randrange(args.keys), row))
    elif x < 0.5:
        cur.execute("UPDATE k SET b = CASE WHEN b > 0 THEN -b ELSE -b END WHERE id = %d" % row)
    elif x < 0.6:
        cur.execute("UPDATE k SET t = 'x' || %d, a = a + 1 WHERE id = %d" % (r.randrange(5), row))
    elif x < 0.7:
        cur.execute("UPDATE k SET a = a + 1 WHERE a > %d AND a < %d"
                    % (args.keys - 3, args.keys + 2))
    elif x < 0.78:
        cur.execute("UPDATE k SET n = n + 1 WHERE a = %d" % r.randrange(args.keys))
    elif x < 0.84:
        cur.execute("UPDATE k SET a = %d WHERE a = %d" % (r.randrange(args.keys), args.keys + 1))
    elif x < 0.9:
        cur.execute("DELETE FROM k WHERE id = %d" % row)
    elif x < 0.97:
        cur.execute("INSERT INTO k VALUES (%d, %d, %d, 'x', 0) ON CONFLICT (id) DO UPDATE SET a = k.a + 1"
                    % (row, r.randrange(args.keys), row))
    else:
        cur.execute("SELECT 1 FROM k WHERE id = %d FOR UPDATE" % row)


def writer(seed):
    r = random.Random(seed)
    cur = connect()
    while time.time() < deadline and not problems:
        try:
            cur.execute("BEGIN")
            cur.execute("SET LOCAL enable_seqscan = off")
            if r.random() < 0.5:
                cur.execute("SET LOCAL enable_bitmapscan = off")
            for _ in range(r.choice([1, 1, 1, 2, 5])):
                if r.random() < 0.3:
                    cur.execute("SAVEPOINT s")
                    change(cur, r)
                    if r.random() < 0.5:
                        cur.execute("ROLLBACK TO s")
                    cur.execute("RELEASE s")
                else:
                    change(cur, r)
            cur.execute("COMMIT" if r.random() < 0.75 else "ROLLBACK")
            count("transactions")
        except psycopg2.Error as e:
            if e.pgcode not in EXPECTED:
                problem("writer: %s %s" % (e.pgcode, e))
            count("refused")
            cur.execute("ROLLBACK")


PLANS = {"seq": "on,off,off", "index": "off,on,off", "bitmap": "off,off,on"}


def ask(cur, plan, sql):
    cur.execute("SELECT set_config('enable_seqscan', %s, true), set_config('enable_indexscan', %s, true),"
                "set_config('enable_bitmapscan', %s, true), set_config('enable_sort', 'off', true)",
                PLANS[plan].split(","))
    cur.execute(sql)
    count("queries")
    return cur.fetchall()


def compare(cur, r, rows):
    def differs(what, got, want):
        if got != want:
            g, w = sorted(got), sorted(want)
            problem("%s: too much %s, too little %s" % (
                what, [x for x in g if g.count(x) != w.count(x)][:5],
                [x for x in w if g.count(x) != w.count(x)][:5]))

    all_rows = "SELECT id, a, b, t, n, m::text FROM k WHERE "
    got = ask(cur, "index", all_rows + "a > -1000 ORDER BY a")
    differs("forward", sorted(got), rows)
    if [x[1] for x in got] != sorted(x[1] for x in got):
        problem("forward: not in order")
    got = ask(cur, "index", all_rows + "a > -1000 ORDER BY a DESC")
    differs("backward", sorted(got), rows)
    if [x[1] for x in got] != sorted((x[1] for x in got), reverse=True):
        problem("backward: not in order")
    differs("only", ask(cur, "index", "SELECT b, a FROM k WHERE b > -100000 ORDER BY b, a"),
            sorted((x[2], x[1]) for x in rows))
    differs("only a", ask(cur, "index", "SELECT a FROM k WHERE a > -1000 ORDER BY a"),
            sorted((x[1],) for x in rows))
    differs("bitmap", sorted(ask(cur, "bitmap", all_rows + "a > -1000")), rows)
    key, text = r.randrange(args.keys), "x%d" % r.randrange(5)
    for plan in "index", "bitmap":
        differs("%s a = %d" % (plan, key), sorted(ask(cur, plan, all_rows + "a = %d" % key)),
                [x for x in rows if x[1] == key])
        differs("%s t = %s" % (plan, text), sorted(ask(cur, plan, all_rows + "t = '%s'" % text)),
                [x for x in rows if x[3] == text])
        amount = r.choice(AMOUNTS)
        differs("%s m = %s" % (plan, amount),
                sorted(ask(cur, plan, all_rows + "m = %s" % amount)),
                [x for x in rows if float(x[5]) == float(amount)])
        differs("%s even" % plan, sorted(ask(cur, plan, all_rows + "a = %d AND id %% 2 = 0" % key)),
                [x for x in rows if x[1] == key and x[0] % 2 == 0])
        differs("%s third" % plan, sorted(ask(cur, plan, all_rows + "a > %d AND id %% 3 = 1" % key)),
                [x for x in rows if x[1] > key and x[0] % 3 == 1])
        differs("%s count" % plan, ask(cur, plan, "SELECT count(*) FROM k WHERE a = %d" % key),
                [(len([x for x in rows if x[1] == key]),)])
    differs("only m", sorted(ask(cur, "index", "SELECT m::text FROM k WHERE m > -1000")),
            sorted((x[5],) for x in rows))
    differs("included", sorted(ask(cur, "index", "SELECT b, id FROM k WHERE b > 0")),
            sorted((x[2], x[0]) for x in rows if x[2] > 0))
    differs("and", sorted(ask(cur, "bitmap", all_rows + "a IN (1, 2, %d) AND b > 0" % key)),
            [x for x in rows if x[1] in (1, 2, key) and x[2] > 0])
    differs("or", sorted(ask(cur, "bitmap", all_rows + "a = %d OR t = '%s'" % (key, text))),
            [x for x in rows if x[1] == key or x[3] == text])


def reader(seed):
    r = random.Random(seed)
    cur = connect()
    while time.time() < deadline and not problems:
        try:
            cur.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            rows = sorted(ask(cur, "seq", "SELECT id, a, b, t, n, m::text FROM k"))
            cur.execute("DECLARE c CURSOR FOR SELECT id, a, b, t, n, m::text FROM k WHERE a > -1000 ORDER BY a")
            for _ in range(r.choice([1, 2, 4])):
                compare(cur, r, rows)
                time.sleep(r.choice([0, 0, 0.1, 0.5]))
            cur.execute("FETCH ALL FROM c")
            got = sorted(cur.fetchall())
            if got != rows:
                problem("cursor: %d rows instead of %d" % (len(got), len(rows)))
            cur.execute("COMMIT")
        except psycopg2.Error as e:
            problem("reader: %s %s" % (e.pgcode, e))
            return


def keeper(seed):
    r = random.Random(seed)
    cur = connect()
    cur.execute("SET lock_timeout = '2s'")
    while time.time() < deadline and not problems:
        try:
            x = r.random()
            if x < 0.5:
                cur.execute("VACUUM (TRUNCATE off%s) k" % r.choice(["", ", PARALLEL 2"]))
                count("vacuums")
            elif x < 0.6:
                cur.execute("REINDEX INDEX %s" % r.choice(list(INDEXES)))
                count("reindexes")
            elif x < 0.65:
                cur.execute("REINDEX INDEX CONCURRENTLY %s" % r.choice(list(INDEXES)))
            else:
                for index in INDEXES:
                    cur.execute("SELECT bt_index_check('%s', true)" % index)
                count("amchecks")
        except psycopg2.Error as e:
            if e.pgcode not in EXPECTED:
                problem("keeper: %s %s" % (e.pgcode, e))
        time.sleep(r.choice([0, 0.05, 0.3]))


def main():
    setup()
    threads = [threading.Thread(target=writer, args=(args.seed * 100 + i,))
               for i in range(args.writers)]
    threads += [threading.Thread(target=reader, args=(args.seed * 100 + 50 + i,))
                for i in range(args.readers)]
    threads.append(threading.Thread(target=keeper, args=(args.seed,)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    cur = connect()
    cur.execute("SELECT * FROM zheap_check('k', true) LIMIT 5")
    found = cur.fetchall()
    if found:
        problem("zheap_check: %s" % found)
    for index in INDEXES:
        cur.execute("SELECT bt_index_parent_check('%s', true)" % index)
    print(stats, "%d problems" % len(problems))
    sys.exit(1 if problems else 0)


main()
