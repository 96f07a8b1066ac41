#!/usr/bin/python3
"""Tables that are rewritten under old snapshots: a zheap table and its heap
twin get the same changes, VACUUM FULL, CLUSTER and ALTER TABLE, also inside
transactions with changes of their own; readers with snapshots of all ages
compare the two after each step, by all access paths.  Deterministic.

usage: rewrite.py --dsn ".." [--seed 1] [--steps 400] [--readers 4] [--verbose]
"""
import argparse
import random
import sys

import psycopg2

ap = argparse.ArgumentParser()
ap.add_argument("--dsn", required=True)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--steps", type=int, default=400)
ap.add_argument("--readers", type=int, default=4)
ap.add_argument("--verbose", action="store_true")
args = ap.parse_args()
r = random.Random(args.seed)


def connect():
    c = psycopg2.connect(args.dsn)
    c.autocommit = True
    return c.cursor()


def say(*what):
    if args.verbose:
        print(*what, flush=True)


def both(cur, sql):
    """The same for both tables; errors must be the same, too."""
    say("   ", sql[:150])
    codes = []
    for t in ("h", "z"):
        cur.execute("SAVEPOINT pair" if in_xact[cur] else "SELECT 1")
        try:
            cur.execute(sql.replace("@", t))
            codes.append(cur.rowcount)
        except psycopg2.Error as e:
            codes.append(e.pgcode)
            if in_xact[cur]:
                cur.execute("ROLLBACK TO pair")
    if codes[0] != codes[1]:
        sys.exit(f"seed {args.seed}: {sql[:200]}: heap {codes[0]}, zheap {codes[1]}")


PATHS = ("", "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; ",
         "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; "
         "SET LOCAL enable_indexonlyscan = off; ")


def compare(cur, who):
    """In a transaction; leaves no lock behind."""
    cur.execute("SAVEPOINT looking")
    for path in PATHS:
        cond = r.choice(["k >= 0", "id > 0"])
        rows = []
        for t in ("h", "z"):
            cur.execute(path + f"SELECT * FROM {t} WHERE {cond} ORDER BY id, k")
            rows.append(cur.fetchall())
        if rows[0] != rows[1]:
            a, b = (set(map(repr, x)) for x in rows)
            print(f"seed {args.seed}: {who} {path}{cond}")
            for x in sorted(a - b)[:5]:
                print("   only heap: ", x[:150])
            for x in sorted(b - a)[:5]:
                print("   only zheap:", x[:150])
            sys.exit(1)
    cur.execute("ROLLBACK TO looking")
    cur.execute("RELEASE looking")


def check(cur):
    cur.execute("SELECT * FROM zheap_check('z')")
    bad = cur.fetchall()
    if bad:
        sys.exit(f"seed {args.seed}: zheap_check: {bad[:3]}")
    for i in ("z_id", "z_k"):
        cur.execute(f"SELECT bt_index_check('{i}', true)")


def value():
    x = r.random()
    if x < .1:
        return "NULL"
    if x < .25:
        return f"repeat('{r.choice('abc')}', {r.randrange(3000, 9000)})"
    return f"repeat('{r.choice('xyz')}', {r.randrange(0, 60)})"


def change():
    a = r.randrange(1, 70)
    b = a + r.choice([0, 0, 0, 2, 10, 70])
    x = r.random()
    if x < .3:
        return f"UPDATE @ SET v = {value()} WHERE id BETWEEN {a} AND {b}"
    if x < .45:
        return f"UPDATE @ SET n = n + 1 WHERE id BETWEEN {a} AND {b}"
    if x < .6:
        return f"UPDATE @ SET k = (k * 7 + {a}) % 100 WHERE id BETWEEN {a} AND {b}"
    if x < .75:
        return f"DELETE FROM @ WHERE id BETWEEN {a} AND {a + r.choice([0, 3])}"
    if x < .8:
        return f"UPDATE @ SET id = id + 100 - 200 * (id > 100)::int WHERE id = {a}"
    return (f"INSERT INTO @ (id, k, n, v) SELECT g, (g * 31) % 100, 0, {value()} FROM "
            f"generate_series({a}, {b}) g WHERE NOT EXISTS (SELECT FROM @ o WHERE o.id = g)")


added = []


def rewrite(cur):
    """Statements for a rewrite; the last one is not for transactions."""
    x = r.random()
    if x < .3:
        return ["VACUUM FULL @"]
    if x < .5:
        return ["SET enable_seqscan = off", "CLUSTER @ USING @_k", "RESET enable_seqscan"]
    if x < .7:
        return ["SET enable_indexscan = off", "CLUSTER @ USING @_k", "RESET enable_indexscan"]
    if x < .8:
        return ["CLUSTER @ USING @_id"]
    if x < .9 and len(added) < 12:
        added.append(f"c{len(added)}")
        d = r.choice(["'some default'", "repeat('d', 300)", "NULL"])
        return [f"ALTER TABLE @ ADD {added[-1]} text DEFAULT {d}"]
    if x < .95:
        live = [c for c in added if c is not None]
        if live:
            c = r.choice(live)
            added[added.index(c)] = None
            return [f"ALTER TABLE @ DROP {c}"]
    if x < .97:
        return ["ALTER TABLE @ ALTER n TYPE " + r.choice(["bigint", "int"])]
    return ["REINDEX TABLE @"]


in_xact = {}
w = connect()
in_xact[w] = False
w.execute("DROP TABLE IF EXISTS h, z, clock; CREATE TABLE clock (i int)")
w.execute("CREATE EXTENSION IF NOT EXISTS amcheck; CREATE EXTENSION IF NOT EXISTS zheap_am")
for t, am in (("h", "heap"), ("z", "zheap")):
    w.execute(f"CREATE TABLE {t} (id int, k int, n int, v text) USING {am} WITH (autovacuum_enabled = off)")
    w.execute(f"ALTER TABLE {t} ALTER v SET STORAGE {r.choice(['external', 'extended'])}")
    w.execute(f"CREATE UNIQUE INDEX {t}_id ON {t} (id); CREATE INDEX {t}_k ON {t} (k)")
both(w, "INSERT INTO @ SELECT g, (g * 37) % 100, 0, 'v' || g FROM generate_series(1, 60) g")
readers = []
for n in range(args.readers):
    cur = connect()
    in_xact[cur] = False
    readers.append(cur)
other = connect()               # long xids that keep the horizon back
rewrites = 0

for step in range(args.steps):
    say("step", step)
    x = r.random()
    if x < .25:
        cur = r.choice(readers)
        if in_xact[cur]:
            cur.execute(r.choice(["COMMIT", "ROLLBACK"]))
        else:
            cur.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM clock")
        in_xact[cur] = not in_xact[cur]
    elif x < .6:
        w.execute("SET zheap.rollback_foreground_size = %s" % r.choice([0, 256]))
        w.execute("BEGIN")
        in_xact[w] = True
        for _ in range(r.randrange(1, 5)):
            both(w, change())
        if r.random() < .25:
            for sql in rewrite(w):
                if "VACUUM" not in sql:
                    both(w, sql)
                    rewrites += 1
            compare(w, "the rewriter itself")
            w.execute("SAVEPOINT sub")
            for _ in range(r.randrange(0, 3)):
                both(w, change())
            if r.random() < .3:
                both(w, "CLUSTER @ USING @_k")
            w.execute(r.choice(["ROLLBACK TO sub", "RELEASE sub"]))
            both(w, change())
            compare(w, "the rewriter after that")
            # what was added or dropped may be undone: keep it simple
            w.execute("COMMIT")
        else:
            w.execute(r.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        in_xact[w] = False
    elif x < .8:
        for sql in rewrite(w):
            both(w, sql)
        rewrites += 1
        check(w)
    elif x < .9:
        both(w, "VACUUM @")
    else:
        w.execute("SELECT pg_sleep(0.05)")
    for n, cur in enumerate(readers):
        if in_xact[cur]:
            compare(cur, f"reader {n}, step {step}")
    w.execute("BEGIN")
    compare(w, f"newest, step {step}")
    w.execute("COMMIT")
check(w)
print(f"seed {args.seed}: {args.steps} steps, {rewrites} rewrites, no difference")
