#!/usr/bin/python3
"""A few rows that everybody updates, in a zheap table and in its heap twin:
savepoints, rollbacks left to others, locks, rows deleted and inserted again,
and jumps in the histories as often as can be.  Readers in snapshots of all ages
compare the twins, early and late.

usage: hot.py --dsn "host=.. port=.. dbname=.." [--seconds 60] [--seed 1]
The database must be given, its extension too; the tables are created in it.
Exit status 0: no difference was found.
"""
import argparse
import random
import sys
import threading
import time

import psycopg2

ap = argparse.ArgumentParser()
ap.add_argument("--dsn", required=True)
ap.add_argument("--seconds", type=int, default=60)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--writers", type=int, default=4)
ap.add_argument("--readers", type=int, default=5)
args = ap.parse_args()
TWINS = ("hot_h", "hot_z")			# heap first: it decides who goes on
CHANGES = ("n = n + 1", "n = n + 7, t = repeat('y', n % 9)",
           "t = CASE WHEN n % 3 > 0 THEN 'x' || n END, n = n + 1",
           "t = repeat(chr(65 + n % 26), n % 150), n = n + 1")
EXPECTED = ("40P01", "40001", "23505")
found = []
done = {"transactions": 0, "comparisons": 0}


class GiveUp(Exception):
    """READ COMMITTED: the twins' statements met different rows."""


def connect():
    c = psycopg2.connect(args.dsn)
    c.autocommit = True
    return c.cursor()


def both(cur, statement):
    counts = set()
    for table in TWINS:
        cur.execute(statement.format(table))
        counts.add(cur.rowcount)
    if counts != {1}:
        raise GiveUp


def change(cur, r, savepoints):
    row = r.choice((1, 1, 1, 2, 3))
    what = r.random()
    if what < .15:
        savepoints.append("s%d" % len(savepoints))
        cur.execute("SAVEPOINT " + savepoints[-1])
    elif what < .25 and savepoints:
        del savepoints[r.randint(1, len(savepoints)):]
        cur.execute("ROLLBACK TO " + savepoints[-1])
    elif what < .30 and savepoints:
        cur.execute("RELEASE " + savepoints.pop())
    elif what < .40:
        cur.execute("SELECT 1 FROM hot_z WHERE id = %d FOR %s"
                    % (row, r.choice(("UPDATE", "NO KEY UPDATE"))))
    elif what < .43:
        both(cur, "DELETE FROM {} WHERE id = %d" % row)
        both(cur, "INSERT INTO {} VALUES (%d, %d, 'new')"
             % (row, r.randint(0, 99)))
    else:
        both(cur, "UPDATE {} SET %s WHERE id = %d" % (r.choice(CHANGES), row))


def write(r, stop):
    cur = connect()
    cur.execute("SET deadlock_timeout = '5ms'")
    while time.time() < stop and not found:
        cur.execute("SET zheap.jump_interval = %d" % r.choice((1, 2, 3, 5)))
        cur.execute("SET zheap.rollback_foreground_size = %d"
                    % r.choice((0, 256)))
        try:
            savepoints = []
            cur.execute("BEGIN")
            for _ in range(r.randint(1, 12)):
                change(cur, r, savepoints)
            cur.execute(r.choice(["COMMIT"] * 5 + ["ROLLBACK"]))
            done["transactions"] += 1
        except GiveUp:
            cur.execute("ROLLBACK")
        except psycopg2.Error as e:
            if e.pgcode not in EXPECTED:
                found.append(str(e))
            cur.execute("ROLLBACK")


def read(r, stop):
    cur = connect()
    while time.time() < stop and not found:
        cur.execute("BEGIN ISOLATION LEVEL " + r.choice(
            ("REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")))
        try:
            first = None
            for _ in range(r.randint(1, 15)):
                cur.execute("SET LOCAL enable_seqscan = %s"
                            % r.choice(("on", "off")))
                seen = []
                for table in TWINS:
                    cur.execute("SELECT * FROM %s WHERE id > 0 ORDER BY id"
                                % table)
                    seen.append(cur.fetchall())
                first = first or seen[0]
                if seen != [first, first]:
                    found.append("first %s, later %s" % (first, seen))
                done["comparisons"] += 1
                time.sleep(r.choice((0, .01, .2)))
        except psycopg2.Error as e:
            if e.pgcode not in EXPECTED:
                found.append(str(e))
        cur.execute("ROLLBACK")


def main():
    cur = connect()
    for table, am in zip(TWINS, ("heap", "zheap")):
        cur.execute("DROP TABLE IF EXISTS " + table)
        cur.execute("CREATE TABLE %s (id int PRIMARY KEY, n int, t text) "
                    "USING %s" % (table, am))
        cur.execute("INSERT INTO %s SELECT g, 0, 'start' "
                    "FROM generate_series(1, 3) g" % table)
    stop = time.time() + args.seconds
    threads = [threading.Thread(target=f, args=(random.Random(
        args.seed * 1000 + i), stop)) for i, f in enumerate(
            [write] * args.writers + [read] * args.readers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    cur.execute("SELECT c::text FROM zheap_check('hot_z') c")
    found.extend(row[0] for row in cur.fetchall())
    for what in found:
        print(what)
    print("seed %d: %s, %d differences" % (args.seed, done, len(found)))
    sys.exit(1 if found else 0)


main()
