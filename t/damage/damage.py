#!/usr/bin/python3
"""Damage: bytes of table and undo pages are changed at random.

A cluster without checksums has zheap tables in all states: rows updated in
place, moved, deleted, spilled, toasted, locked by a prepared transaction,
changed by aborted transactions that wait for the workers.  Of each copy a seed
changes bytes in pages of one table or of the undo logs, of a server that was
stopped or that was killed and has to redo.  Then everything is done to the
table: read by each kind of scan, changed, locked, vacuumed, rewritten, rolled
back, checked.  Each statement must end, with an answer or with an ERROR that
names what is damaged; no process may crash; tables nobody damaged can be read
and changed, and of those nobody touched no byte may change.

With --fields nothing is random but the place: each field of each kind of page in
turn gets each value that a seed's number stands for (fields.py): a pointer to
itself, a count of zero, a length one too large.  Then rows on other pages of the
table have to be right, too, at once and when the workers have rolled back what
they can: what isn't rolled back counts as that.  And when the field has its value
again, on a page that nobody has changed since, all rows have to be: what couldn't
be read isn't what was done.

usage: damage.py --bindir DIR [--seeds FIRST-LAST] [--keyed] [--shared] [--keep]
                 [--verbose] [--fields [PATTERN]] [--stop]

--keyed: keys of the table have changed in place.
--shared: its pages have shared xact slots, with lists.
--fields: of those whose "page kind: field: value" matches the pattern; without
seeds all of them, once.
--stop: with the first seed that fails.

As root it runs as postgres.  Exits non-zero if one seed failed.
"""
import argparse
import decimal
import glob
import os
import random
import re
import select
import shutil
import sys
import time
import traceback

import psycopg2
import psycopg2.extensions

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
import fields  # noqa: E402
import throwaway  # noqa: E402

PAGE = 8192
PATIENCE = 300
SETTINGS = """
fsync = off
autovacuum = off
shared_buffers = 2MB
full_page_writes = off
max_wal_size = 1GB
max_connections = 20
restart_after_crash = off
zheap.discard_naptime = 10ms
zheap.rollback_foreground_size = 0
zheap.debug_damage = on
"""
BASE = """
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE TABLE quiet (id int PRIMARY KEY, s text) USING zheap;
INSERT INTO quiet SELECT g, repeat('q', g % 200) FROM generate_series(1, 300) g;
CREATE TABLE good (id int PRIMARY KEY, s text) USING zheap;
INSERT INTO good SELECT g, 'good' FROM generate_series(1, 300) g;
CREATE TABLE plain (id int PRIMARY KEY, s text) USING heap;
INSERT INTO plain SELECT g, 'plain' FROM generate_series(1, 300) g;
CREATE TABLE t (id int PRIMARY KEY, k int, n numeric, s text, big text) USING zheap;
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE INDEX t_k ON t (k);
INSERT INTO t SELECT g, g % 17, g / 7.0, repeat('s', g % 120),
	CASE WHEN g % 50 = 0 THEN repeat(md5(g::text), 100) END FROM generate_series(1, 900) g;
VACUUM t, quiet, good;
VACUUM (FREEZE) plain"""
# what a statement may answer beside ERROR of corruption, and why
HARMLESS = {"55P03", "40001", "23505", "40P01", "21000", "23503", "23502"}
# user's bytes: a value may be anything
VALUES = {"22021", "22P02", "22003", "22P03", "54000", "22P05", "22008"}
NAMES = re.compile(r'(block|page) \d+|undo (log|record|file)|relation|index "|toast|'
                   r'compressed|memory alloc|numeric|control page|missing chunk|'
                   r'unexpected chunk|tuple already updated by self')  # one toasted value twice
STATEMENTS = [
    "SELECT count(*), sum(k), sum(length(s)) FROM t",
    "SET enable_seqscan = off; SET enable_bitmapscan = off; "
    "SELECT count(*), sum(length(s)) FROM t WHERE id > 0",
    "SET enable_seqscan = off; SET enable_bitmapscan = on; SET enable_indexscan = off;"
    "SELECT count(*), sum(length(s)) FROM t WHERE k > 3",
    "RESET ALL; SET statement_timeout = '8s'; SET lock_timeout = '100ms'",
    "SELECT sum(length(big)) FROM t", "SELECT sum(n) FROM t",
    "SELECT count(*) FROM t TABLESAMPLE BERNOULLI (30)",
    "SELECT count(*) FROM t WHERE ctid > '(2,3)'",
    "SELECT * FROM zheap_check('t')",
    "SELECT count(*) FROM generate_series(0, pg_relation_size('t') / 8192 - 1) b, "
    "zheap_page_items('t', b)",
    "SELECT count(*) FROM generate_series(0, pg_relation_size('t') / 8192 - 1) b, "
    "zheap_page_slots('t', b)",
    "SELECT count(*) FROM generate_series(0, pg_relation_size('t') / 8192 - 1) b, "
    "zheap_page_slots('t', b) p, zheap_undo_records('t', b, p.id)",
    "UPDATE t SET s = s || 'u' WHERE id % 7 = 1", "UPDATE t SET k = k + 1 WHERE id % 5 = 2",
    "DELETE FROM t WHERE id % 11 = 3", "SELECT id FROM t WHERE id % 3 = 0 FOR UPDATE",
    "SELECT id FROM t WHERE id % 4 = 0 FOR KEY SHARE",
    "INSERT INTO t SELECT g, 1, 1, repeat('i', 90) FROM generate_series(2000, 2300) g "
    "ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (5, 1) ON CONFLICT (id) DO UPDATE SET s = 'again'",
    "BEGIN; UPDATE t SET s = left(s, 3) WHERE id < 300; ROLLBACK",
    "UPDATE t SET big = repeat('b', 4000) WHERE id % 90 = 0",
    "ANALYZE t", "VACUUM t", "COMMIT PREPARED 'p'", "ROLLBACK PREPARED 'q'",
    "SELECT pg_zheap_drain_undo('300 ms')", "SELECT * FROM pg_stat_zheap_undo",
    "SELECT * FROM pg_stat_zheap_undo_holders", "SELECT * FROM zheap_horizons()",
    "REINDEX TABLE t", "VACUUM (FREEZE) t", "SELECT bt_index_check('t_pkey', true)",
    "VACUUM FULL t", "CLUSTER t USING t_pkey", "SELECT count(*) FROM t", "TRUNCATE t"]


def read_page(node, path, block):
    with open(os.path.join(node.data, path), "rb") as f:
        f.seek(block * PAGE)
        return f.read(PAGE)


# Nothing else says what these say: where one is damaged rows may be others.  A
# page with checksums is refused before.
ALONE = re.compile(r"""table:\ |undo:\ (run\ |entry\ |relation|database|base_fxid|max_fxid
    |old\ |diff|jump|below|list\ entry|new\ |body|entry|range|ranges|insert\ flags|cid|record\ (flags|kind|block|offset)
    |missing|undo\ page\ flags)|global:\ (U|H):""", re.X)
# for --fields: histories that stay after a restart, for the first one here goes on
STORIES = """
BEGIN; INSERT INTO held VALUES (1); PREPARE TRANSACTION 'hold'
BEGIN; UPDATE t SET s = s || 'a' WHERE id % 8 = 1 AND free(id); SAVEPOINT a;
    UPDATE t SET s = s || 'b' WHERE id % 8 IN (1, 2) AND free(id);
    SAVEPOINT b; DELETE FROM t WHERE id % 24 = 1 AND free(id); ROLLBACK TO a; SAVEPOINT c;
    UPDATE t SET n = n + 1 WHERE id % 8 = 1 AND free(id); RELEASE c; PREPARE TRANSACTION 'r'
BEGIN; UPDATE t SET s = left(s, 5) WHERE id % 8 = 3 AND free(id);
    UPDATE t SET s = s || 'aborted' WHERE id % 8 IN (3, 4) AND free(id);
    SAVEPOINT a; UPDATE t SET s = 'aborted', k = k + 1 WHERE id % 16 IN (3, 4) AND free(id);
    DELETE FROM t WHERE id % 32 = 4 AND free(id);
    INSERT INTO t SELECT g, 0, 0, 'aborted' FROM generate_series(5000, 5100) g; ROLLBACK
"""
# for --shared: lockers beside each other, ends, savepoints that were rolled back
SHARED = [
    "SELECT id FROM t WHERE id % 7 = 3 AND id > 500 FOR KEY SHARE",
    "SELECT id FROM t WHERE id % 14 = 3 AND id > 500 FOR KEY SHARE; SAVEPOINT a; "
    "SELECT id FROM t WHERE id % 14 = 10 AND id > 500 FOR KEY SHARE; ROLLBACK TO a",
    "SELECT id FROM t WHERE id % 7 = 3 FOR KEY SHARE; "
    "SELECT id FROM t WHERE id % 47 = 1 AND id % 31 <> 5 FOR SHARE SKIP LOCKED",
    "DELETE FROM t WHERE id % 13 = 9 AND id % 8 > 4 AND id % 7 <> 3 "
    "AND id % 31 <> 5 AND id % 41 <> 5 AND id % 47 <> 1"]


class Wrong(Exception):
    pass


def wait(conn):
    """Where psycopg2 waits for the server: who serves no timeout is told, too."""
    end = time.time() + PATIENCE
    while True:
        state = conn.poll()
        if state == psycopg2.extensions.POLL_OK:
            return
        if time.time() > end:
            raise Wrong("no end in %d s, whatever statement_timeout is" % PATIENCE)
        fds = [conn.fileno()]
        select.select(fds, fds if state == psycopg2.extensions.POLL_WRITE else [], [], 1)


class CoreFailed(Exception):
    """An assertion of core's about an index that contradicts the damage."""


class Damage:
    def __init__(self, bindir, verbose, keyed, shared, pattern):
        self.bindir, self.verbose, self.keyed, self.shared = bindir, verbose, keyed, shared
        self.pattern = pattern  # None: random bytes
        self.bases = {}

    # ---- clusters to be damaged

    def make_base(self, killed):
        base = throwaway.Cluster(self.bindir, "base%d" % killed)
        # they are the default since 18
        has = "--no-data-checksums" in base.tool("initdb", "--help")
        base.tool("initdb", "-D", base.data, "-U", "tester", "-A", "trust", "-N",
                  "--wal-segsize", "1", *(["--no-data-checksums"] if has else []))
        base.configure("postgresql.conf", "listen_addresses = ''\nport = 5432\n"
                       "shared_preload_libraries = 'zheap_am'\n"
                       "log_line_prefix = '%m [%p] %e '\n"
                       "max_prepared_transactions = 10\n" + SETTINGS +
                       ("zheap.debug_set = 'shared-slot=2,list-after=3'\n" if self.shared else "") +
                       ("zheap.update_indexed_in_place = on\n" if self.keyed else ""))
        base.start()

        def conn():
            c = psycopg2.connect(base.dsn())
            c.autocommit = True
            c.cursor().execute("SET lock_timeout = '5s'")
            return c.cursor()
        cur = conn()
        for sql in BASE.split(";"):
            cur.execute(sql)
        while self.keyed:  # until scans of before are gone
            cur.execute("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; ROLLBACK")
            cur.execute("SELECT 'keys_allowed' = ANY (zheap_page_flags('t', 0))")
            if cur.fetchone()[0]:
                break
            time.sleep(0.02)
        cur.execute("ALTER SYSTEM SET zheap.rollback_paused = on")
        cur.execute("SELECT pg_reload_conf()")
        time.sleep(0.3)
        cur.execute("CHECKPOINT")
        old = conn()
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
        stories = STORIES.strip().replace("\n   ", "").split("\n")
        if self.pattern is not None:
            cur.execute("CREATE TABLE held (a int) USING heap")
            # rows that no other prepared transaction has
            cur.execute("CREATE FUNCTION free(int) RETURNS bool IMMUTABLE LANGUAGE sql AS "
                        "'SELECT $1 % 31 <> 5 AND $1 % 41 <> 5'")
            cur.execute(stories[0])
        for i in range(4):
            cur.execute("UPDATE t SET s = s || 'x' WHERE id %% 6 = %d" % i)
            cur.execute("UPDATE t SET k = k + 1 WHERE id %% 13 = %d" % i)
            cur.execute("BEGIN; UPDATE t SET s = 'aborted', n = n + 1 WHERE id %% 9 = %d; "
                        "INSERT INTO t SELECT g FROM generate_series(%d, %d) g; ROLLBACK"
                        % (i, 3000 + 20 * i, 3010 + 20 * i))
        cur.execute("DELETE FROM t WHERE id BETWEEN 300 AND 420")
        cur.execute("INSERT INTO t SELECT g, 2, 2, repeat('n', 100) FROM "
                    "generate_series(4000, 4100) g")
        cur.execute("UPDATE t SET big = repeat('c', 5000) WHERE id % 70 = 0")
        for name, sql in (("p", "UPDATE t SET s = 'prepared' WHERE id % 31 = 5"),
                          ("q", "SELECT id FROM t WHERE id % 41 = 5 AND id % 31 <> 5 "
                           "FOR SHARE")):
            cur.execute("BEGIN; %s; PREPARE TRANSACTION '%s'" % (sql, name))
        if self.pattern is not None:
            for sql in stories[1:]:
                cur.execute(sql)
        for i, sql in enumerate(SHARED if self.shared else []):
            cur.execute("BEGIN; %s; %s" % (SHARED[3], "ROLLBACK"))
            cur.execute("BEGIN; %s; PREPARE TRANSACTION 's%d'" % (sql, i))
        cur.execute("SELECT pg_relation_filepath('t'), pg_relation_filepath('quiet'), "
                    "pg_relation_filepath('quiet_pkey')")
        base.t, base.quiet, base.quiet_index = cur.fetchone()
        with open(os.path.join(base.data, "postgresql.auto.conf"), "a") as f:
            f.write("zheap.rollback_paused = off\n")
        if self.pattern is not None:
            base.rows = self.rows_by_block(cur, None)
        old.connection.close()
        cur.connection.close()
        if killed:
            base.kill()
        else:
            base.stop()
        for junk in ("postmaster.pid", "postmaster.opts"):
            path = os.path.join(base.data, junk)
            if os.path.exists(path):
                os.unlink(path)
        return base

    def base(self, killed):
        if killed not in self.bases:
            self.bases[killed] = self.make_base(killed)
        return self.bases[killed]

    # ---- one copy

    def change_bytes(self, node, base, r):
        """Changes bytes; returns what was done."""
        undo = [os.path.relpath(x, node.data) for x in glob.glob(node.data + "/base/9/*")
                if os.path.getsize(x) > 0]
        files = [base.t] * 3 + [x for x in undo]
        path = r.choice(files)
        if r.random() < 0.35:
            path = base.t
        full = os.path.join(node.data, path)
        pages = os.path.getsize(full) // PAGE
        done = []
        with open(full, "r+b") as f:
            for _ in range(r.choice([1, 1, 2, 5])):
                page = r.randrange(pages)
                if path != base.t and r.random() < 0.3:
                    page = 0
                f.seek(page * PAGE)
                old = f.read(PAGE)
                lower = int.from_bytes(old[12:14], "little")
                upper = int.from_bytes(old[14:16], "little")
                special = int.from_bytes(old[16:18], "little")
                place = r.choice([(0, 24), (24, max(lower, 25)), (upper, special),
                                  (special, PAGE), (0, PAGE)])
                if place[0] >= place[1] or place[1] > PAGE:
                    place = (0, PAGE)
                at = r.randrange(*place)
                n = min(r.choice([1, 1, 2, 4, 16, 300]), PAGE - at)
                what = r.choice(["random", "zero", "ff", "bit"])
                if what == "bit":
                    new = bytes([old[at] ^ (1 << r.randrange(8))])
                else:
                    new = {"zero": bytes(n), "ff": b"\xff" * n}.get(
                        what, bytes(r.randrange(256) for _ in range(n)))
                f.seek(page * PAGE + at)
                f.write(new)
                done.append("%s page %d, %d bytes at %d: %s" % (
                    path, page, len(new), at, what))
        return done

    # ---- fields in turn

    def places(self, base):
        """{"page kind: field: value": [(path, page, field, value)]} of a base."""
        if hasattr(base, "places"):
            return base.places
        base.places = {}
        names = [os.path.relpath(x, base.data) for x in glob.glob(base.data + "/base/9/*")
                 if re.search(r"/(1|10\d)$", x)]
        for path in [base.t] + sorted(names):
            with open(os.path.join(base.data, path), "rb") as f:
                data = f.read()
            pages = len(data) // PAGE
            log = max(int(os.path.basename(path)) - 100, 0) if path != base.t else 0
            for block in range(pages):
                page = data[block * PAGE:(block + 1) * PAGE]
                kind = fields.kind_of(page)
                for field in fields.fields_of(page, log, block):
                    for name, value in fields.values(field, block, pages):
                        key = "%s: %s: %s" % (kind, field.name, name)
                        if field.encode(page, value) is not None and re.search(self.pattern, key):
                            base.places.setdefault(key, []).append((path, block, field, value))
        return base.places

    def change_field(self, node, base, number, r):
        """Gives the field that the number stands for another value."""
        places = self.places(base)
        keys = sorted(places)
        random.Random(1).shuffle(keys)  # a few seeds are a bit of everything
        node.what = keys[number % len(keys)]
        path, block, field, value = r.choice(places[node.what])
        page = read_page(node, path, block)
        new = field.encode(page, value)
        with open(os.path.join(node.data, path), "r+b") as f:
            f.seek(block * PAGE + field.at)
            f.write(new)
        node.damaged = block if path == base.t else None
        node.change = path, block, page, page[:field.at] + new + page[field.end:]
        return ["%s page %d, bytes %d to %d, %s, was %d, is %d" % (
            path, block, field.at, field.end, node.what, field.value, value)]

    def rows_by_block(self, cur, expected):
        """{block: rows, or None if there is an error} of the table."""
        if expected is None:
            cur.execute("SELECT pg_relation_size('t') / 8192")
            blocks = range(cur.fetchone()[0])
        else:
            blocks = sorted(expected)
        found = {}
        for block in blocks:
            try:
                cur.execute("SELECT ctid::text, id, k, n::text, md5(s), length(s), md5(big) FROM t "
                            "WHERE ctid >= '(%d,0)' AND ctid < '(%d,0)' ORDER BY ctid" % (block, block + 1))
                found[block] = cur.fetchall()
            except psycopg2.Error as e:
                if expected is None or e.pgcode is None:
                    raise Wrong("connection lost by reading block %d" % block)
                if e.pgcode == "57014":
                    raise Wrong("no end of reading block %d" % block)
                if e.pgcode[:3] != "XX0" and e.pgcode not in VALUES | {"58P01", "55000"}:
                    raise Wrong("reading block %d answers %s %s" % (block, e.pgcode, e))
                if e.pgcode[:3] == "XX0" and not NAMES.search(str(e)):
                    raise Wrong("reading block %d names nothing: %s" % (block, e))
                found[block] = None
        return found

    def rows_are_right(self, node, base, when):
        """Those that can be read, and that the damage can't have changed; what was read."""
        conn = self.connect(node)
        cur = conn.cursor()
        cur.execute("SET statement_timeout = '60s'")
        found = self.rows_by_block(cur, base.rows)
        conn.close()
        if ALONE.match(node.what) and node.damaged is None:
            return found
        for block, rows in found.items():
            if rows is not None and rows != base.rows[block] and block != node.damaged:
                raise Wrong("%s rows of block %d are others: %s" % (
                    when, block, sorted(set(rows) ^ set(base.rows[block]))[:6]))
        return found

    def mended(self, node, base):
        """A copy of the cluster in which all transactions end, the horizons move on
        beside the damage, and then the page is as it was: all rows are right."""
        path, block, page, damaged = node.change
        copy = throwaway.Cluster(self.bindir, "mended", root=node.root)
        node.stop()
        shutil.copytree(node.data, copy.data)
        node.start()
        try:
            copy.start()
            conn = None
            for gid in ["hold", "p", "q", "r"] + ["s%d" % i for i in range(len(SHARED))]:
                conn = self.ask(copy, conn, "ROLLBACK PREPARED '%s'" % gid)
            for _ in range(3):
                conn = self.ask(copy, conn, "SELECT pg_zheap_drain_undo('700 ms')")
                conn = self.ask(copy, conn, "INSERT INTO held VALUES (2)")
            copy.stop()
            if read_page(copy, path, block) != damaged:
                return		# somebody could work with it
            with open(os.path.join(copy.data, path), "r+b") as f:
                f.seek(block * PAGE)
                f.write(page)
            copy.start()
            conn = self.ask(copy, None, "SELECT pg_zheap_drain_undo('5 s')")
            conn.close()
            conn = self.connect(copy)
            found = self.rows_by_block(conn.cursor(), base.rows)
            for b, rows in found.items():
                if rows != base.rows[b]:
                    raise Wrong("when the page is as it was rows of block %d are others: %s" % (
                        b, rows and sorted(set(rows) ^ set(base.rows[b]))[:6]))
        finally:
            copy.drop()

    def examine_fields(self, node, base, r):
        before = self.rows_are_right(node, base, "at once")
        conn = self.ask(node, None, "SELECT pg_zheap_drain_undo('1500 ms')")
        conn = self.ask(node, conn, "SELECT pg_zheap_drain_undo('1 ms')")
        after = self.rows_are_right(node, base, "after the rollbacks")
        if node.damaged is not None and before[node.damaged] is None and after[node.damaged] is None:
            self.mended(node, base)
        rest = ["VACUUM (TRUNCATE off) t" if x == "VACUUM t" else x for x in STATEMENTS]
        return r.sample(rest[:3], 1) + rest[3:5] + rest[8:12] + r.sample(rest[12:-6], 9) + rest[-5:]

    def one(self, seed, keep):
        r = random.Random(seed)
        killed = r.random() < 0.4
        base = self.base(killed)
        node = throwaway.Cluster(self.bindir, "copy")
        shutil.copytree(base.data, node.data)
        os.chmod(node.data, 0o700)
        done = self.change_bytes(node, base, r) if self.pattern is None else \
            self.change_field(node, base, seed, r)
        if self.verbose:
            print(seed, done, flush=True)
        try:
            self.examine(node, base, killed, r)
            return None
        except CoreFailed:
            return None
        except Wrong as e:
            return "%s; %s%s\n%s" % (e, "; ".join(done), "; killed" if killed else "",
                                    "\n".join(x for x in node.log_tail(300).splitlines()
                                              if re.search("TRAP|PANIC|signal", x)))
        finally:
            node.drop(keep)

    def examine(self, node, base, killed, r):
        try:
            node.start()
        except RuntimeError as e:
            text = node.log_tail(60)
            if "terminated by signal" in text and "PANIC" not in text:
                raise Wrong("crash at the start")
            if not re.search("(PANIC|FATAL): .*(block|page|relation|undo|WAL|zheap)", text):
                raise Wrong("start failed: %s" % e)
            return		# refused, with a reason
        conn = None
        if self.pattern is None:
            statements = STATEMENTS[:12] + r.sample(STATEMENTS[12:-6], 14) + STATEMENTS[-6:]
        else:
            statements = self.examine_fields(node, base, r)
        for sql in statements:
            conn = self.ask(node, conn, sql)
        self.rest_works(node, conn)
        node.stop()
        for name in (base.quiet, base.quiet_index):
            with open(os.path.join(base.data, name), "rb") as a, \
                    open(os.path.join(node.data, name), "rb") as b:
                if a.read() != b.read():
                    raise Wrong("bytes of a table that nobody touched have changed")
        if re.search("TRAP|terminated by signal|PANIC", node.log_tail(2000)):
            raise Wrong("crash")

    def connect(self, node):
        for _ in range(20):
            try:
                conn = psycopg2.connect(node.dsn())
                conn.autocommit = True
                conn.cursor().execute("SET statement_timeout = '180s'; "
                                      "SET lock_timeout = '100ms'")
                return conn
            except psycopg2.OperationalError:
                if node.process.poll() is not None:
                    raise Wrong("the server is gone")
                time.sleep(0.1)
        raise Wrong("no connection")

    def ask(self, node, conn, sql):
        if conn is None or conn.closed:
            conn = self.connect(node)
        begin = time.time()
        try:
            cur = conn.cursor()
            cur.execute(sql)
            if cur.description:
                cur.fetchall()
        except decimal.InvalidOperation:
            pass			# a value may be anything
        except psycopg2.Error as e:
            text = str(e).strip().split("\n")[0]
            if self.verbose:
                print("   ", sql[:60], "->", e.pgcode, text, flush=True)
            if e.pgcode is None:
                time.sleep(0.3)
                if 'File: "nbt' in node.log_tail(300):
                    raise CoreFailed()
                raise Wrong("connection lost by: %s" % sql)
            if e.pgcode == "57014":
                raise Wrong("no end in 180 s: %s" % sql)
            if e.pgcode[:3] != "XX0" and e.pgcode not in HARMLESS | VALUES \
                    and e.pgcode not in ("42704", "53400", "58P01", "55000"):
                raise Wrong("%s answers %s %s" % (sql, e.pgcode, text))
            if e.pgcode[:3] == "XX0" and not NAMES.search(str(e)):
                raise Wrong("%s names nothing: %s %s" % (sql, e.pgcode, text))
            if not conn.closed:
                conn.cursor().execute("ROLLBACK")
        if time.time() - begin > 240:
            raise Wrong("took %d s: %s" % (time.time() - begin, sql))
        return conn

    def rest_works(self, node, conn):
        """Tables that nobody damaged: heap at once, ours when logs that are
        damaged have been given up."""
        conn = self.connect(node)
        cur = conn.cursor()
        cur.execute("SET statement_timeout = '180s'")
        try:
            cur.execute("SELECT count(*), min(s) FROM plain")
            cur.execute("UPDATE plain SET s = 'changed'")
            for _ in range(12):
                try:
                    cur.execute("BEGIN; UPDATE good SET s = 'changed'; COMMIT")
                    break
                except psycopg2.Error as e:
                    last = e
                    if conn.closed:
                        conn = self.connect(node)
                        cur = conn.cursor()
                    else:
                        cur.execute("ROLLBACK")
            else:
                # nobody can write undo without that page
                if re.search("control page|base/9/1|more undo logs|"
                             "undo belongs to transactions", str(last)):
                    return
                raise Wrong("no other zheap table can be changed: %s" % last)
            cur.execute("SELECT count(*), min(s), max(s) FROM good")
            row = cur.fetchone()
            if row != (300, "changed", "changed"):
                raise Wrong("rows of another table: %s" % (row,))
        except psycopg2.Error as e:
            raise Wrong("the rest of the server: %s" % e)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds")
    ap.add_argument("--fields", nargs="?", const=".", metavar="PATTERN")
    ap.add_argument("--keyed", action="store_true", help="keys have changed in place")
    ap.add_argument("--shared", action="store_true", help="shared xact slots")
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--stop", action="store_true", help="with the first seed that fails")
    args = ap.parse_args()
    throwaway.become_ordinary(__file__)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    psycopg2.extensions.set_wait_callback(wait)
    damage = Damage(args.bindir, args.verbose, args.keyed, args.shared, args.fields)
    seeds = args.seeds or "1-30"
    if args.fields is not None and args.seeds is None:
        seeds = "1-%d" % len(damage.places(damage.base(False)))
    first, _, last = seeds.partition("-")
    passed = failed = 0
    begin = time.time()
    for seed in range(int(first), int(last or first) + 1):
        try:
            text = damage.one(seed, args.keep)
        except Exception:  # the harness itself
            text = traceback.format_exc()
        if text is None:
            passed += 1
        else:
            failed += 1
            print("seed %d FAILED: %s" % (seed, text), flush=True)
            if args.stop:
                break
    for base in damage.bases.values():
        base.drop()
    print("%d passed, %d failed, %.1f s" % (passed, failed, time.time() - begin))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
