#!/usr/bin/python3
"""Logical replication under kill -9: a publisher under pgbench and random transactions
that update, move, delete and insert rows of zheap and of heap tables, some of them in
savepoints that are rolled back, prepared, or larger than logical_decoding_work_mem;
a subscriber whose tables are zheap where those are heap, and the other way round.
Either server is killed at random and started again; writers wait when the
subscriber is far behind.  At the end all tables are equal.

A publisher of 18 tells the subscriber to abort subtransactions that it never
streamed: those of an aborted transaction that it met with more changes in memory
than logical_decoding_work_mem.  That is core's own fault (18.6), of heap tables
and without this library, whatever the subscription's streaming: t/README.md has
the recipe.  With assertions the publisher dies (decoding.py, CORES_OWN:
rbtxn_is_streamed); without, the subscriber's apply worker, of signal 11.  So
there are no savepoints on 18, and nothing is forgiven, unless --savepoints asks
for them: then deaths of apply workers by signal 11 are counted, and there is no
answer if the subscriber doesn't come past them.

usage: replication.py --bindir DIR [--subscriber DIR] [--seconds N] [--seed N]
                      [--savepoints] [--keep]

--subscriber: programs of the subscriber's server, which may be of a later major.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import threading
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, become_ordinary  # noqa: E402

SETTINGS = """
wal_level = logical
fsync = off
autovacuum_naptime = 1
logical_decoding_work_mem = '64kB'
wal_receiver_timeout = 20s
wal_retrieve_retry_interval = 200ms
max_logical_replication_workers = 10
max_worker_processes = 20
log_min_messages = warning
"""
TABLES = ("d", "f")
MOST_BEHIND = 16 * 1024 * 1024	# then writers wait for the subscriber
BENCH = ("accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
         "branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
         "tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84))",
         "history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))")


def writer(cluster, number, seed, stop, wait, counts, savepoints):
    r = random.Random("%d %d" % (seed, number))
    conn = None
    while not stop.is_set():
        if wait.is_set():
            time.sleep(0.1)
            continue
        try:
            if conn is None:
                conn = psycopg2.connect(cluster.dsn())
            cur = conn.cursor()
            for _ in range(r.randint(1, 6)):
                i = r.randrange(100) * 4 + number
                x = "repeat(md5('%d'), %d)" % (r.randrange(10 ** 6), r.choice([1, 1, 3, 90, 400]))
                t = "%s.%s" % (r.choice("hz"), r.choice(TABLES))
                statements = [
                    "UPDATE %s SET v = v + 1 WHERE id = %d" % (t, i),
                    "UPDATE %s SET x = %s WHERE id = %d" % (t, x, i),
                    "UPDATE %s SET k = k + 1 WHERE id BETWEEN %d AND %d AND id %% 4 = %d" % (t, i, i + 40, number),
                    "DELETE FROM %s WHERE id = %d" % (t, i),
                    "INSERT INTO %s SELECT %d, 1, 1, %s WHERE NOT EXISTS (SELECT FROM %s WHERE id = %d)" % (t, i, x, t, i),
                    "INSERT INTO %s SELECT g * 4 + %d, 0, 0, 'b' FROM generate_series(1000, 1300) g WHERE NOT EXISTS (SELECT FROM %s WHERE id = 4000 + %d)" % (t, number, t, number),
                    "DELETE FROM %s WHERE id >= 4000 AND id %% 4 = %d" % (t, number),
                    "UPDATE %s SET id = id + 1000000 WHERE id = %d AND NOT EXISTS (SELECT FROM %s WHERE id = %d + 1000000)" % (t, i, t, i),
                    "INSERT INTO h.d VALUES (%d, 2, 2, %s) ON CONFLICT (id) DO UPDATE SET v = h.d.v + 1" % (i, x),
                    "INSERT INTO z.d VALUES (%d, 2, 2, %s) ON CONFLICT (id) DO UPDATE SET x = EXCLUDED.x" % (i, x),
                    "INSERT INTO z.d VALUES (%d, 2, 2, %s) ON CONFLICT DO NOTHING" % (i, x),
                    "UPDATE %s.p SET k = (k + 1) %% 3 WHERE id = %d" % (r.choice("hz"), i),
                    "INSERT INTO %s.p VALUES (%d, %d) ON CONFLICT DO NOTHING" % (r.choice("hz"), i, r.randrange(3))]
                if savepoints:
                    statements.append("SAVEPOINT s; UPDATE %s SET v = -1 WHERE id %% 4 = %d AND id < 200; ROLLBACK TO s" % (t, number))
                cur.execute(r.choice(statements))
            if r.random() < 0.1:
                conn.rollback()
            elif r.random() < 0.03:
                # 15 sends the COMMIT PREPARED of a transaction that changed nothing,
                # but not its PREPARE; so it is after heap's SELECT .. FOR UPDATE
                cur.execute("INSERT INTO h.f VALUES (%d, 3, 3, 'prepared')" % (2000000 + number))
                cur.execute("DELETE FROM h.f WHERE id = %d" % (2000000 + number))
                cur.execute("PREPARE TRANSACTION 'w%d'" % number)
                conn.autocommit = True
                cur.execute("COMMIT PREPARED 'w%d'" % number)
                conn.autocommit = False
            else:
                conn.commit()
            counts[number] += 1
        except psycopg2.Error:
            try:
                conn.close()
            except (psycopg2.Error, AttributeError):
                pass
            conn = None
            time.sleep(0.05)
            finish_prepared(cluster, number)


def finish_prepared(cluster, number):
    """What a lost connection has left prepared holds rows."""
    try:
        conn = psycopg2.connect(cluster.dsn())
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("SELECT 1 FROM pg_prepared_xacts WHERE gid = 'w%d'" % number)
        if cur.fetchone():
            cur.execute("COMMIT PREPARED 'w%d'" % number)
        conn.close()
    except psycopg2.Error:
        pass


def bench(cluster, stop, wait, counts):
    """pgbench, again after each kill."""
    while not stop.is_set():
        if wait.is_set():
            time.sleep(0.1)
            continue
        done = subprocess.run(
            [os.path.join(cluster.bindir, "pgbench"), "-n", "-c", "2", "-T", "3", "-h", cluster.socket,
             "-p", str(cluster.port), "-U", cluster.user, "postgres"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        for line in done.stdout.decode(errors="replace").splitlines():
            if line.startswith("number of transactions actually processed: "):
                counts[4] += int(line.split(":")[1].split("/")[0])
        time.sleep(0.1)


def behind(cluster):
    """Bytes of WAL that the subscriber hasn't confirmed."""
    try:
        conn = psycopg2.connect(cluster.dsn())
        cur = conn.cursor()
        cur.execute("SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots"
                    " WHERE slot_name = 's'")
        result = cur.fetchone()
        conn.close()
        return result[0] if result else 0
    except psycopg2.Error:
        return 0


APPLY_DIED = re.compile(r'background worker "logical replication apply worker" .* was terminated by signal 11')


def died_of_cores_own(cluster):
    with open(cluster.logfile, errors="replace") as f:
        return any('failed Assert("rbtxn_is_streamed(toptxn)")' in line for line in f)


def wait_for_copies(cluster, cur):
    """Tables still being copied catch up from slots of their own."""
    conn = psycopg2.connect(cluster.dsn())
    conn.autocommit = True
    sub = conn.cursor()
    end = time.time() + 600
    while time.time() < end:
        sub.execute("SELECT srrelid::regclass::text, srsubstate FROM pg_subscription_rel WHERE srsubstate <> 'r'")
        left = sub.fetchall()
        if not left:
            break
        # the last step is made when the subscriber hears of a transaction
        cur.execute("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1")
        time.sleep(0.2)
    conn.close()
    return left


def tables_of(cur):
    cur.execute("SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                " WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname IN ('h', 'z', 'public') ORDER BY 1")
    return [t for t, in cur.fetchall()]


def digest(cluster, table):
    conn = psycopg2.connect(cluster.dsn())
    cur = conn.cursor()
    cur.execute("SELECT count(*), md5(string_agg(r::text, ',' ORDER BY r::text)) FROM %s r" % table)
    result = cur.fetchone()
    conn.close()
    return result


def checks(cluster):
    """What zheap_check() finds."""
    conn = psycopg2.connect(cluster.dsn())
    cur = conn.cursor()
    cur.execute("SELECT t.oid::regclass::text, c::text FROM pg_class t JOIN pg_am a ON a.oid = relam,"
                " LATERAL zheap_check(t.oid) c WHERE amname = 'zheap' AND relkind IN ('r', 't') LIMIT 10")
    found = ["zheap_check of %s: %s" % row for row in cur.fetchall()]
    conn.close()
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bindir", required=True)
    p.add_argument("--seconds", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--subscriber", help="folder of programs of the subscriber's server")
    p.add_argument("--savepoints", action="store_true", help="also where the publisher is 18")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    r = random.Random(args.seed)
    pub = Cluster(args.bindir, "pub", port=5441)
    sub = Cluster(args.subscriber or args.bindir, "sub", port=5442)
    for c, side in ((pub, 0), (sub, 1)):
        c.init(SETTINGS)
        c.start()
        conn = psycopg2.connect(c.dsn())
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("CREATE EXTENSION zheap_am")
        for schema in "hz":
            am = "heap" if (schema == "h") == (side == 0) else "zheap"
            cur.execute("""CREATE SCHEMA {0}; SET default_table_access_method = {1};
CREATE TABLE {0}.d (id int PRIMARY KEY, k int, v int, x text); CREATE INDEX ON {0}.d (k);
CREATE TABLE {0}.f (id int, k int, v int, x text); ALTER TABLE {0}.f REPLICA IDENTITY FULL; CREATE INDEX ON {0}.f (id);
CREATE TABLE {0}.p (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE {0}.p0 PARTITION OF {0}.p FOR VALUES IN (0); CREATE TABLE {0}.p1 PARTITION OF {0}.p FOR VALUES IN (1, 2)""".format(schema, am))
        for table in BENCH:
            cur.execute("SET default_table_access_method = %s" % ("heap" if side else "zheap"))
            cur.execute("CREATE TABLE pgbench_" + table)
        if side == 0:
            pub_major = conn.server_version // 10000
            c.tool("pgbench", "-i", "-I", "g", "-s", "1", "-h", c.socket, "-p", str(c.port), "-U", c.user, "postgres")
            cur.execute("CREATE PUBLICATION p FOR ALL TABLES")
        else:
            major = conn.server_version // 10000
            cur.execute("CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p WITH (streaming = %s%s)"
                        % (pub.dsn(), "parallel" if major >= 16 and pub_major >= 16 else "on",
                           ", two_phase" if args.seed % 2 else ""))
        conn.close()
    stop, wait = threading.Event(), threading.Event()
    counts = [0] * 5
    savepoints = args.savepoints or pub_major < 18
    excused = savepoints and pub_major >= 18
    threads = [threading.Thread(target=writer, args=(pub, i, args.seed, stop, wait, counts, savepoints)) for i in range(4)]
    threads.append(threading.Thread(target=bench, args=(pub, stop, wait, counts)))
    for t in threads:
        t.start()
    end = time.time() + args.seconds
    kills = 0
    while time.time() < end:
        pause = time.time() + r.uniform(3, 12)
        while time.time() < pause:
            time.sleep(0.2)
            if behind(pub) > MOST_BEHIND:
                wait.set()
            else:
                wait.clear()
        if died_of_cores_own(pub):
            break
        c = r.choice([pub, sub])
        c.kill()
        c.start()
        kills += 1
    stop.set()
    for t in threads:
        t.join()
    if died_of_cores_own(pub):
        print("no answer: the publisher dies of an assertion of core's own")
        pub.drop(args.keep)
        sub.drop(args.keep)
        return 2
    for i in range(4):
        finish_prepared(pub, i)
    conn = psycopg2.connect(pub.dsn())
    conn.autocommit = True
    cur = conn.cursor()
    left = wait_for_copies(sub, cur)
    if left:
        print("FAILED: not copied: %s\n%s" % (left, sub.log_tail(30)))
        return 1
    cur.execute("SELECT pg_current_wal_lsn()")
    lsn = cur.fetchone()[0]
    begin = last = time.time()
    at = None
    while True:
        cur.execute("SELECT confirmed_flush_lsn, confirmed_flush_lsn >= %s FROM pg_replication_slots"
                    " WHERE slot_name = 's'", (lsn,))
        now, done = cur.fetchone()
        if done:
            break
        if now != at:
            at, last = now, time.time()
        if time.time() - last > 300 and excused and any(APPLY_DIED.search(x) for x in sub.log_faults()):
            print("no answer: the apply worker dies at %s, as it does of heap tables" % at)
            pub.drop(args.keep)
            sub.drop(args.keep)
            return 2
        if time.time() - last > 300:
            print("FAILED: the subscriber stands still at %s, behind %s\n%s" % (at, lsn, sub.log_tail(30)))
            return 1
        time.sleep(0.2)
    print("caught up after %.0f s" % (time.time() - begin))
    bad = 0
    for table in tables_of(cur):
        answers = [digest(c, table) for c in (pub, sub)]
        print(table, answers[0], "equal" if answers[0] == answers[1] else "DIFFERENT %s" % (answers[1],))
        bad += answers[0] != answers[1]
    conn.close()
    faults = pub.log_faults() + sub.log_faults() + checks(pub) + checks(sub)
    if excused:
        cores_own = [x for x in faults if APPLY_DIED.search(x)]
        faults = [x for x in faults if x not in cores_own]
        print("died as they do of heap tables: %d apply workers" % len(cores_own))
    print("\n".join(faults[:10]))
    print("%d random transactions, %d of pgbench, %d kills: %s" % (
        sum(counts[:4]), counts[4], kills, "FAILED" if bad or faults else "passed"))
    pub.drop(args.keep and (bad or faults))
    sub.drop(args.keep and (bad or faults))
    return 1 if bad or faults else 0


if __name__ == "__main__":
    become_ordinary(__file__)
    sys.exit(main())
