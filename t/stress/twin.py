#!/usr/bin/python3
"""Stress of zheap tables against heap twins.

Each zheap table z<i> has a heap twin h<i>, written by an AFTER ROW trigger in
the same transaction, so in any snapshot both hold the same rows.  Writers
update in place and moving, toast, delete, insert, lock, roll back to
savepoints, loop through exceptions, prepare, leave rollbacks to workers;
others vacuum, build indexes, race DDL, cancel and terminate.  Checkers
compare twins in REPEATABLE READ snapshots, by three plans, early and late.

usage: twin.py --dsn "host=.. port=.. dbname=.." [--seconds 60] [--sessions 10]
               [--seed 1] [--kill] [--ddl] [--crashes]
The database must be given; the extension and tables are created in it.
Exit status 0: no difference was found.  The server log is the caller's to
look at (TRAP, PANIC, corrupt).
"""
import argparse
import os
import random
import sys
import threading
import time
import traceback

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "python"))
from findings import count, problem, problems, stats  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument("--dsn", required=True)
ap.add_argument("--seconds", type=int, default=60)
ap.add_argument("--sessions", type=int, default=10)
ap.add_argument("--rows", type=int, default=150)
ap.add_argument("--tables", type=int, default=2)
ap.add_argument("--seed", type=int, default=None)
ap.add_argument("--kill", action="store_true", help="cancel/terminate")
ap.add_argument("--ddl", action="store_true")
ap.add_argument("--keep", action="store_true", help="tables exist: go on")
ap.add_argument("--crashes", action="store_true",
                help="lost connections are expected")
args = ap.parse_args()
SEED = args.seed if args.seed is not None else int(time.time())
stop = threading.Event()
deadline = time.time() + args.seconds

OK_CODES = {
    "40001", "40P01", "57014", "57P01", "23505", "23503", "55P03", "25P02",
    "42P01", "P0001", "22012", "57P02", "57P03", "08006", "08003", "53300",
    "23514", "55000", "42P07", "42710", "42704", "0A000", "40003", "55006"}


def connect():
    while True:
        try:
            c = psycopg2.connect(args.dsn)
            return c
        except psycopg2.OperationalError:
            if stop.is_set() and time.time() > deadline + 60:
                raise
            time.sleep(0.2)


def setup():
    c = connect()
    c.autocommit = True
    cur = c.cursor()
    cur.execute("CREATE EXTENSION IF NOT EXISTS zheap_am")
    cur.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    cur.execute("""CREATE OR REPLACE FUNCTION mirror() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE n int; h text := 'h' || substr(TG_TABLE_NAME, 2);
BEGIN
  IF TG_OP = 'INSERT' THEN
    EXECUTE format('INSERT INTO %I SELECT ($1).*', h) USING NEW;
  ELSIF TG_OP = 'DELETE' THEN
    EXECUTE format('DELETE FROM %I AS twin WHERE id = $1.id AND twin::text = $1::text', h) USING OLD;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> 1 THEN RAISE EXCEPTION 'MIRROR delete % %', n, OLD.id USING ERRCODE = 'XX999'; END IF;
  ELSE
    EXECUTE format('UPDATE %I AS twin SET id = $2.id, v = $2.v, k = $2.k, t = $2.t WHERE id = $1.id AND twin::text = $1::text', h) USING OLD, NEW;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> 1 THEN RAISE EXCEPTION 'MIRROR update % % % %', n, OLD.id, OLD.v, OLD.k USING ERRCODE = 'XX999'; END IF;
  END IF;
  RETURN NULL;
END $$""")
    for i in range(args.tables):
        cur.execute(f"""
DROP TABLE IF EXISTS z{i}, h{i}, c{i} CASCADE;
CREATE TABLE z{i}(id int PRIMARY KEY, v int NOT NULL, k int, t text) USING zheap;
CREATE INDEX ON z{i}(k);
CREATE TABLE c{i}(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pid int NOT NULL REFERENCES z{i}(id), w int) USING zheap;
CREATE INDEX ON c{i}(pid);
CREATE TABLE h{i}(id int PRIMARY KEY, v int NOT NULL, k int, t text)
 WITH (fillfactor = 50);
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON z{i}
 FOR EACH ROW EXECUTE FUNCTION mirror();
INSERT INTO z{i} SELECT g, 0, g % 10, repeat('x', g % 40)
 FROM generate_series(1, {args.rows}) g;
""")
    c.close()


def text(r):
    x = r.random()
    if x < 0.5:
        return "".join(r.choice("abcdef") for _ in range(r.randrange(0, 60)))
    if x < 0.8:
        return "y" * r.randrange(0, 400)
    if x < 0.97:
        return "".join(chr(r.randrange(97, 123))
                       for _ in range(r.randrange(300, 1800)))
    return "".join(chr(r.randrange(33, 126))
                   for _ in range(r.randrange(2000, 12000)))


def op(r, cur):
    i = r.randrange(args.tables)
    z = f"z{i}"
    id_ = min(r.randrange(1, args.rows + 1), r.randrange(1, args.rows + 1))
    x = r.random()
    if x < 0.25:
        cur.execute(f"UPDATE {z} SET v = v + 1 WHERE id = %s", (id_,))
    elif x < 0.33:
        cur.execute(f"UPDATE {z} SET t = %s WHERE id = %s", (text(r), id_))
    elif x < 0.38:
        cur.execute(f"UPDATE {z} SET k = %s, v = v + 1 WHERE id = %s",
                    (r.randrange(12), id_))
    elif x < 0.43:
        cur.execute(f"UPDATE {z} SET k = %s WHERE k = %s AND id BETWEEN %s AND %s",
                    (r.randrange(12), r.randrange(12), id_, id_ + 30))
    elif x < 0.52:
        cur.execute(f"DELETE FROM {z} WHERE id = %s", (id_,))
    elif x < 0.66:
        cur.execute(f"INSERT INTO {z} VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (id) DO UPDATE SET v = excluded.v, t = excluded.t",
                    (id_, r.randrange(100), r.randrange(12), text(r)))
    elif x < 0.70:
        cur.execute(f"INSERT INTO {z} SELECT g, 0, g %% 12, 'again' FROM "
                    "generate_series(%s, %s) g ON CONFLICT DO NOTHING",
                    (id_, id_ + 15))
    elif x < 0.74:
        cur.execute(f"SELECT * FROM {z} WHERE id = %s FOR " +
                    r.choice(["UPDATE", "SHARE", "KEY SHARE",
                              "NO KEY UPDATE", "UPDATE SKIP LOCKED"]), (id_,))
        cur.fetchall()
    elif x < 0.80:
        cur.execute(f"INSERT INTO c{i}(pid, w) VALUES (%s, 1)", (id_,))
    elif x < 0.84:
        cur.execute(f"DELETE FROM c{i} WHERE pid = %s", (id_,))
    elif x < 0.86:
        cur.execute(f"UPDATE c{i} SET w = w + 1, pid = %s WHERE pid = %s",
                    (r.randrange(1, args.rows + 1), id_))
    elif x < 0.90:
        cur.execute(f"""DO $$ BEGIN FOR i IN {id_}..{id_ + 8} LOOP
 BEGIN UPDATE {z} SET v = v + 1, t = t || 'q' WHERE id = i;
  IF i % 3 = 0 THEN PERFORM 1/0; END IF;
  EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$""")
    elif x < 0.93:
        cur.execute(f"UPDATE {z} SET v = v + 1")
    elif x < 0.95:
        cur.execute(f"UPDATE {z} SET id = %s WHERE id = %s",
                    (r.randrange(1, args.rows + 30), id_))
    elif x < 0.97:
        cur.execute(f"UPDATE {z} SET t = left(t, 5) WHERE id BETWEEN %s AND %s",
                    (id_, id_ + 20))
    elif x < 0.985:
        cur.execute(f"SELECT 1/0 FROM {z} WHERE id = %s", (id_,))
    else:
        cur.execute(f"DELETE FROM {z} WHERE id BETWEEN %s AND %s",
                    (id_, id_ + 40))
    count("op")


def note_error(e, where):
    code = getattr(e, "pgcode", None)
    if code is None or code in OK_CODES:
        count("err " + str(code))
        return
    problem(f"{where}: {code} {str(e).strip()[:600]}")


def writer(n):
    r = random.Random(SEED * 1000 + n)
    conn = None
    while not stop.is_set():
        try:
            if conn is None or conn.closed:
                conn = connect()
                cur = conn.cursor()
                cur.execute("SET lock_timeout = '3s'")
                if r.random() < 0.5:
                    cur.execute("SET zheap.rollback_foreground_size = 0")
                if r.random() < 0.3:
                    cur.execute("SET zheap.rollback_foreground_size = 4")
                conn.commit()
            iso = r.choice(["READ COMMITTED"] * 4 + ["REPEATABLE READ",
                                                    "SERIALIZABLE"])
            cur = conn.cursor()
            cur.execute("SET TRANSACTION ISOLATION LEVEL " + iso)
            if r.random() < 0.05:
                cur.execute("SET LOCAL statement_timeout = %s",
                            (r.randrange(1, 30),))
            depth = 0
            for _ in range(r.choice([1, 1, 2, 4, 10])):
                x = r.random()
                if x < 0.25 and depth < 4:
                    depth += 1
                    cur.execute(f"SAVEPOINT s{depth}")
                elif x < 0.40 and depth > 0:
                    d = r.randrange(1, depth + 1)
                    cur.execute(f"ROLLBACK TO s{d}")
                    depth = d
                elif x < 0.48 and depth > 0:
                    cur.execute(f"RELEASE s{depth}")
                    depth -= 1
                try:
                    op(r, cur)
                except psycopg2.Error as e:
                    note_error(e, f"writer {n}")
                    if depth == 0 or conn.closed:
                        raise
                    cur.execute(f"ROLLBACK TO s{depth}")
            x = r.random()
            if x < 0.25:
                conn.rollback()
                count("rollback")
            elif x < 0.30:
                gid = f"g{SEED}_{n}_{r.randrange(1 << 30)}"
                cur.execute(f"PREPARE TRANSACTION '{gid}'")
                conn.commit()
                time.sleep(r.random() * 0.05)
                conn.autocommit = True
                try:
                    cur.execute((("COMMIT" if r.random() < .5 else "ROLLBACK") +
                                 f" PREPARED '{gid}'"))
                finally:
                    if not conn.closed:
                        conn.autocommit = False
                count("2pc")
            else:
                conn.commit()
                count("commit")
        except psycopg2.Error as e:
            note_error(e, f"writer {n}")
            try:
                conn.rollback()
            except psycopg2.Error:
                conn = None
        except Exception:
            problem("writer: " + traceback.format_exc())
            conn = None


PLANS = {
    "seq": "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;"
           "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on",
    "idx": "SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = off;"
           "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = off",
    "ios": "SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = off;"
           "SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_seqscan = off",
    "bmp": "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;"
           "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = off"}


def compare(cur, where):
    for i in range(args.tables):
        cur.execute(PLANS["seq"])
        cur.execute(f"SELECT id, v, k, t FROM h{i} ORDER BY id, v")
        want = cur.fetchall()
        for plan, sets in PLANS.items():
            cur.execute(sets)
            cur.execute(f"SELECT id, v, k, t FROM z{i} WHERE id > -5 ORDER BY id, v")
            got = cur.fetchall()
            if got != want:
                w, g = set(want), set(got)
                problem(f"{where}: z{i} <> h{i} by {plan}: missing "
                        f"{sorted(w - g)[:4]} extra {sorted(g - w)[:4]} "
                        f"counts {len(want)} {len(got)}"[:900])
            cur.execute(f"SELECT id, k FROM z{i} WHERE k >= 0 ORDER BY id, k")
            got = cur.fetchall()
            if got != [(a[0], a[2]) for a in want]:
                problem(f"{where}: z{i} <> h{i} by k, {plan}")
            if plan == "ios":
                cur.execute(f"SELECT id FROM z{i} WHERE id > -5 ORDER BY id")
                if [a[0] for a in cur.fetchall()] != [a[0] for a in want]:
                    problem(f"{where}: z{i} <> h{i} by index-only")
        cur.execute(PLANS["seq"])
        cur.execute(f"""SELECT c.id, c.pid FROM c{i} c
          WHERE NOT EXISTS (SELECT FROM h{i} h WHERE h.id = c.pid)""")
        orphans = cur.fetchall()
        if orphans:
            problem(f"{where}: orphans in c{i}: {orphans[:5]}")
        cur.execute(f"SELECT id, pid, w FROM c{i} ORDER BY id")
        a = cur.fetchall()
        cur.execute(PLANS["idx"])
        cur.execute(f"SELECT id, pid, w FROM c{i} WHERE pid > -1 ORDER BY id")
        if a != cur.fetchall():
            problem(f"{where}: c{i}: seq <> index scan")
    count("compare")


def checker(n):
    r = random.Random(SEED * 1000 + 500 + n)
    conn = None
    while not stop.is_set():
        try:
            if conn is None or conn.closed:
                conn = connect()
            cur = conn.cursor()
            cur.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            compare(cur, f"checker {n} early")
            if r.random() < 0.7:
                time.sleep(r.random() * r.choice([0.1, 1, 5]))
                compare(cur, f"checker {n} late")
            conn.commit()
        except psycopg2.Error as e:
            note_error(e, f"checker {n}")
            try:
                conn.rollback()
            except psycopg2.Error:
                conn = None
        except Exception:
            problem("checker: " + traceback.format_exc())
            conn = None


def auto(n, what):
    r = random.Random(SEED * 1000 + 700 + n)
    conn = None
    while not stop.is_set():
        try:
            if conn is None or conn.closed:
                conn = connect()
                conn.autocommit = True
                cur = conn.cursor()
            what(r, cur)
        except psycopg2.Error as e:
            note_error(e, what.__name__)
            if conn is not None and conn.closed:
                conn = None
            elif conn is not None:
                try:
                    cur.execute("ROLLBACK")
                except psycopg2.Error:
                    conn = None
        except Exception:
            problem(what.__name__ + ": " + traceback.format_exc())
            conn = None


def vacuum(r, cur):
    t = r.choice("zc") + str(r.randrange(args.tables))
    cur.execute(r.choice(["VACUUM", "VACUUM (FREEZE)", "VACUUM (INDEX_CLEANUP OFF)",
                          "VACUUM (DISABLE_PAGE_SKIPPING)", "ANALYZE"]) + " " + t)
    count("vacuum")
    time.sleep(r.random() * 0.1)


def page_check(r, cur):
    t = r.choice("zc") + str(r.randrange(args.tables))
    cur.execute("SELECT * FROM zheap_check(%s)", (t,))
    bad = cur.fetchall()
    if bad:
        problem(f"zheap_check({t}): {bad[:4]}")
    count("zheap_check")
    time.sleep(0.2)


def indexes(r, cur):
    i = r.randrange(args.tables)
    x = r.random()
    if x < 0.4:
        cur.execute("SET lock_timeout = '2s'")
        cur.execute(f"CREATE INDEX CONCURRENTLY zi{i} ON z{i}(v)")
    elif x < 0.6:
        cur.execute("SET lock_timeout = '500ms'")
        cur.execute(f"REINDEX TABLE z{i}")
    elif x < 0.7:
        cur.execute(f"REINDEX INDEX CONCURRENTLY z{i}_pkey")
    elif x < 0.85:
        cur.execute(f"DROP INDEX IF EXISTS zi{i}")
    elif x < 0.9:
        cur.execute("SET lock_timeout = '500ms'")
        cur.execute(f"VACUUM FULL c{i}")
    else:
        cur.execute(f"CREATE INDEX zi{i} ON z{i}(v)")
    count("index")
    time.sleep(r.random())


def ddl(r, cur):
    n = r.randrange(3)
    x = r.random()
    cur.execute("SET lock_timeout = '2s'")
    cur.execute("SET zheap.rollback_foreground_size = %s", (r.choice([0, 256]),))
    cur.execute(f"CREATE TABLE IF NOT EXISTS d{n}(a int, b text) USING "
                + r.choice(["zheap"] * 3 + ["heap"]))
    cur.execute("BEGIN")
    if r.random() < 0.5:
        cur.execute("SAVEPOINT a")
    cur.execute(f"INSERT INTO d{n} SELECT g, repeat('z', 300) "
                "FROM generate_series(1, %s) g", (r.choice([3, 3000]),))
    if x < 0.2:
        cur.execute(f"TRUNCATE d{n}")
        cur.execute(f"INSERT INTO d{n} VALUES (1, 'x')")
    elif x < 0.3:
        cur.execute(f"ALTER TABLE d{n} ADD COLUMN IF NOT EXISTS c int DEFAULT 7")
    elif x < 0.4:
        cur.execute(f"ALTER TABLE d{n} ALTER b TYPE varchar")
    elif x < 0.5:
        cur.execute(f"CREATE TABLE e{n} USING zheap AS SELECT * FROM d{n}")
    cur.execute("ROLLBACK" if r.random() < 0.7 else "COMMIT")
    if r.random() < 0.3:
        cur.execute(f"SELECT count(*) FROM d{n} WHERE b IS NULL OR a > 0")
    y = r.random()
    if y < 0.3:
        cur.execute(f"DROP TABLE IF EXISTS d{n}, e{n}")
    elif y < 0.5:
        cur.execute(f"TRUNCATE d{n}")
    elif y < 0.6:
        cur.execute(f"VACUUM FULL d{n}")
    elif y < 0.7:
        cur.execute(f"ALTER TABLE d{n} SET ACCESS METHOD " + r.choice(["heap", "zheap"]))
    elif y < 0.8:
        cur.execute(f"ALTER TABLE d{n} SET " + r.choice(["UNLOGGED", "LOGGED"]))
    count("ddl")


def createdb(r, cur):
    me = f"cdb{SEED}"
    cur.execute(f"DROP DATABASE IF EXISTS {me}")
    cur.execute(f"CREATE DATABASE {me}" + r.choice(["", " STRATEGY file_copy"]))
    count("createdb")
    time.sleep(1)


def janitor(r, cur):
    """prepared transactions whose session was lost"""
    time.sleep(0.5)
    cur.execute("SELECT gid FROM pg_prepared_xacts WHERE database = "
                "current_database() AND prepared < now() - interval '1 s'")
    for (gid,) in cur.fetchall():
        cur.execute(("COMMIT" if r.random() < 0.5 else "ROLLBACK") +
                    f" PREPARED '{gid}'")


def killer(r, cur):
    time.sleep(r.random() * 0.3)
    cur.execute("SELECT pid, backend_type FROM pg_stat_activity WHERE pid <> "
                "pg_backend_pid() AND datname = current_database()")
    rows = cur.fetchall()
    if rows:
        pid, kind = r.choice(rows)
        f = r.choice(["pg_cancel_backend"] * 3 + ["pg_terminate_backend"])
        cur.execute(f"SELECT {f}(%s)", (pid,))
        count(f)


def final():
    conn = connect()
    conn.autocommit = True
    cur = conn.cursor()
    cur.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    for (g,) in cur.fetchall():
        cur.execute(f"ROLLBACK PREPARED '{g}'")
    cur.execute("SET lock_timeout = '20s'")
    conn.autocommit = False
    compare(cur, "final")
    conn.commit()
    conn.autocommit = True
    for i in range(args.tables):
        for t in ("z", "c"):
            cur.execute(f"VACUUM {t}{i}")
            cur.execute(f"SELECT * FROM zheap_check('{t}{i}')")
            bad = cur.fetchall()
            if bad:
                problem(f"final zheap_check {t}{i}: {bad[:4]}")
            cur.execute(f"""SELECT indexrelid::regclass FROM pg_index
                WHERE indrelid = '{t}{i}'::regclass AND indisvalid""")
            for (ix,) in cur.fetchall():
                try:
                    cur.execute("SELECT bt_index_check(%s, true)", (ix,))
                except psycopg2.Error as e:
                    problem(f"amcheck {ix}: {e}")
    conn.autocommit = False
    compare(cur, "final after vacuum")
    conn.commit()
    conn.autocommit = True
    size = None
    for _ in range(60):
        cur.execute("SELECT pg_zheap_undo_size()")
        size = cur.fetchone()[0]
        if size <= 64 * 8192 * 2:
            break
        time.sleep(0.5)
    else:
        problem(f"undo doesn't drain: {size} bytes after 30 s")
    print("undo at the end", size)
    conn.close()


if not args.keep:
    setup()
threads = [threading.Thread(target=writer, args=(n,), daemon=True)
           for n in range(args.sessions)]
threads += [threading.Thread(target=checker, args=(n,), daemon=True) for n in range(2)]
jobs = [vacuum, page_check, indexes, janitor]
if args.ddl:
    jobs += [ddl, ddl, createdb]
if args.kill:
    jobs += [killer]
threads += [threading.Thread(target=auto, args=(n, w), daemon=True)
            for n, w in enumerate(jobs)]
for t in threads:
    t.start()
time.sleep(args.seconds)
stop.set()
end = time.time() + 60
for t in threads:
    t.join(max(0.1, end - time.time()))
stuck = [t for t in threads if t.is_alive()]
if stuck:
    problem(f"{len(stuck)} sessions are stuck")
else:
    final()
print(f"seed {SEED}", dict(sorted(stats.items())))
print("PROBLEMS" if problems else "ok", len(problems))
sys.exit(1 if problems else 0)
