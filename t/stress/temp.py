#!/usr/bin/python3
"""Temporary and unlogged zheap tables against heap twins, in one session
each, with savepoints, exception loops and many aborts.

usage: temp.py --dsn ".." [--seconds 30] [--sessions 4]
"""
import argparse
import random
import sys
import threading
import time

import psycopg2

ap = argparse.ArgumentParser()
ap.add_argument("--dsn", required=True)
ap.add_argument("--seconds", type=int, default=30)
ap.add_argument("--sessions", type=int, default=4)
ap.add_argument("--seed", type=int, default=1)
args = ap.parse_args()
stop = time.time() + args.seconds
problems = []
counts = [0, 0]

def session(n):
    r = random.Random(args.seed * 100 + n)
    kind = "TEMP" if n % 2 == 0 else "UNLOGGED"
    c = psycopg2.connect(args.dsn)
    c.autocommit = True
    cur = c.cursor()

    done = []

    def run(sql):
        done.append(sql)
        cur.execute(sql)

    def both(sql):
        done.append(sql)
        cur.execute(sql.replace("@", f"z{n}"))
        cur.execute(sql.replace("@", f"h{n}"))

    def compare(where):
        for plan in ("on", "off"):
            cur.execute(f"SET enable_seqscan = {plan}")
            cur.execute(f"SELECT * FROM z{n} WHERE id > 0 ORDER BY id")
            z = cur.fetchall()
            cur.execute(f"SELECT * FROM h{n} WHERE id > 0 ORDER BY id")
            h = cur.fetchall()
            if z != h:
                problems.append((kind, n, where, sorted(set(h) - set(z))[:3],
                                 sorted(set(z) - set(h))[:3], done[-30:]))
        counts[0] += 1

    if kind == "UNLOGGED":
        cur.execute(f"DROP TABLE IF EXISTS z{n}, h{n}")
    cur.execute(f"CREATE {kind} TABLE z{n}(id int PRIMARY KEY, v int, t text) USING zheap")
    cur.execute(f"CREATE {kind} TABLE h{n}(id int PRIMARY KEY, v int, t text)")
    both("INSERT INTO @ SELECT g, 0, 'x' FROM generate_series(1, 300) g")
    cur.execute("SET zheap.rollback_foreground_size = %s" % r.choice([0, 256]))
    while time.time() < stop and not problems:
        run("BEGIN ISOLATION LEVEL " + r.choice(["READ COMMITTED", "REPEATABLE READ"]))
        depth = 0
        cursor = False
        for _ in range(r.choice([1, 3, 10])):
            x = r.random()
            if x < .3:
                depth += 1
                run(f"SAVEPOINT s{depth}")
            elif x < .5 and depth:
                d = r.randrange(1, depth + 1)
                run(f"ROLLBACK TO s{d}")
                depth = d
                cursor = False
            elif x < .6 and depth:
                run(f"RELEASE s{depth}")
                depth -= 1
            a = r.randrange(1, 330)
            b = a + r.choice([0, 0, 3, 300])
            x = r.random()
            if x < .4:
                both(f"UPDATE @ SET v = v + 1 WHERE id BETWEEN {a} AND {b}")
            elif x < .6:
                t = "q" * r.choice([0, 10, 500])
                both(f"UPDATE @ SET t = '{t}' WHERE id BETWEEN {a} AND {b}")
            elif x < .7:
                both(f"DELETE FROM @ WHERE id BETWEEN {a} AND {b}")
            elif x < .9:
                both(f"INSERT INTO @ SELECT g, 1, 'i' FROM generate_series({a}, {b}) g "
                     "ON CONFLICT (id) DO UPDATE SET v = @.v + 10")
            elif x < .95:
                # heap's CLUSTER loses a row that was inserted by the transaction
                # and updated in a savepoint gone since, if nobody has read it
                both("SELECT count(*) FROM @")
                both(r.choice(["CLUSTER @ USING @_pkey", "CLUSTER @ USING @_pkey",
                               "TRUNCATE @", "ALTER TABLE @ ALTER v TYPE int USING v + 1"]))
            else:
                both(f"""DO $$ BEGIN FOR i IN {a}..{a + 20} LOOP
 BEGIN UPDATE @ SET v = v + 1 WHERE id = i;
  IF i % 3 = 0 THEN PERFORM 1/0; END IF;
  EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$""")
            if r.random() < .2:
                compare("inside")
        run("ROLLBACK" if r.random() < .4 else "COMMIT")
        counts[1] += 1
        compare("after")
        if r.random() < .05:
            run(f"VACUUM z{n}")
            compare("after vacuum")
            cur.execute(f"SELECT * FROM zheap_check('z{n}')")
            bad = cur.fetchall()
            if bad:
                problems.append((n, bad[:3]))
    if kind == "UNLOGGED":
        cur.execute(f"DROP TABLE z{n}, h{n}")
    c.close()


c = psycopg2.connect(args.dsn)
c.autocommit = True
c.cursor().execute("CREATE EXTENSION IF NOT EXISTS zheap_am")


def guarded(n):
    try:
        session(n)
    except Exception as e:
        problems.append((n, repr(e)[:500]))


threads = [threading.Thread(target=guarded, args=(n,)) for n in range(args.sessions)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("compared", counts[0], "transactions", counts[1])
for p in problems:
    print("PROBLEM", p)
sys.exit(1 if problems else 0)
