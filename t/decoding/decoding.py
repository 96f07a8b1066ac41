#!/usr/bin/python3
"""Logical decoding, by seed: every statement of random transactions is done to a
heap table and to its zheap twin, in the same transaction, and what is decoded
of the one must be what is decoded of the other, change by change.

Schemas h and z have the same tables: all replica identities, columns of all
kinds of alignment, values out of line, partitions, tables without a key.  Three
sessions: savepoints, prepared transactions, errors caught in blocks, COPY,
ON CONFLICT, row movement, TRUNCATE, columns added and dropped, rewrites,
messages, an origin.  logical_decoding_work_mem is 64kB, so that transactions
are spilled and streamed; kill -9 of the server now and then, walsenders are
terminated while they send.

Readers: test_decoding by function, pgoutput by function (versions of the
protocol, streaming, two_phase, row filters, column lists), both again by a
walsender that is cut off and starts again.

usage: decoding.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--am heap]
                   [--verbose] [--keep]

--am heap compares heap with heap: that tests the test.
"""
import argparse
import os
import random
import re
import struct
import sys
import time

import psycopg2
import psycopg2.extras

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, become_ordinary, play_seeds  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
wal_level = logical
logical_decoding_work_mem = '64kB'
max_replication_slots = 20
max_wal_senders = 20
wal_sender_timeout = 0
zheap.discard_naptime = 20
log_min_messages = warning
log_min_error_statement = panic
wal_consistency_checking = 'zheap'
"""
SIDES = ("h", "z")
NSESSIONS = 3
ROWS = 30
OPTIONS = "'include-xids', '0', 'skip-empty-xacts', '1'"


# Assertions of core's that fail with heap tables alone, too (--am heap): 15 and
# 18, seed 8: a transaction that was spilled in the middle of a row is streamed;
# 18, seeds 7 and 9: a part of a transaction was streamed, the whole was not; 18,
# seeds 1014 and 1057: what was given up because it aborted counts as streamed.
CORES_OWN = re.compile(r'(FailedAssertion\(|failed Assert\()"'
                       r'(txn->final_lsn != InvalidXLogRecPtr|rbtxn_is_streamed\(toptxn\)|'
                       r'ctx->streaming)"\)?, File: "(reorderbuffer|pgoutput|logical)\.c"|'
                       r'signal 11: .*\n.*running: SELECT count\(\*\) FROM pg_logical_slot_peek_changes')


class Difference(Exception):
    pass


# ----------------------------------------------------------------------
# schema and statements: S stands for the schema
# ----------------------------------------------------------------------
def schema(r):
    types = ["int", "smallint", "bigint", "text", "char(3)", "bool", "float8", "numeric",
             "timestamptz", "uuid", "int[]", "jsonb", "name", "\"char\"", "varchar(20)", "inet",
             "interval", "bytea", "date", "point"]
    wide = r.sample(types, r.randint(3, len(types)))
    out = ["""
CREATE TABLE S.t (id int PRIMARY KEY, k int, v int NOT NULL DEFAULT 0, s text, x text,
	g int GENERATED ALWAYS AS (v * 2) STORED) WITH (fillfactor = %d);
ALTER TABLE S.t ALTER x SET STORAGE %s;
CREATE INDEX ON S.t (k);
CREATE TABLE S.f (id int, k int, v int, s text, x text);
CREATE INDEX ON S.f (id);
ALTER TABLE S.f REPLICA IDENTITY %s;
CREATE TABLE S.u (id text NOT NULL, k int NOT NULL, v int, x text);
ALTER TABLE S.u ALTER id SET STORAGE EXTERNAL, ALTER x SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX u_id ON S.u (k, md5(id));
CREATE UNIQUE INDEX u_k ON S.u (k);
ALTER TABLE S.u REPLICA IDENTITY %s;
CREATE TABLE S.p (id int, k int, v int, s text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE S.p0 PARTITION OF S.p FOR VALUES FROM (0) TO (4);
CREATE TABLE S.p1 PARTITION OF S.p FOR VALUES FROM (4) TO (9);
CREATE TABLE S.w (id int PRIMARY KEY, %s);
ALTER TABLE S.w REPLICA IDENTITY %s""" % (
        r.choice([100, 70, 40]), r.choice(["EXTERNAL", "EXTENDED", "MAIN"]),
        r.choice(["FULL", "FULL", "NOTHING", "DEFAULT"]),
        r.choice(["FULL", "USING INDEX u_k"]),
        ", ".join("c%d %s" % x for x in enumerate(wide)),
        r.choice(["FULL", "DEFAULT"]))]
    return out, wide


VALUES = {
    "int": "%d", "smallint": "%d", "bigint": "%d", "text": "repeat('t', %d)", "char(3)": "'%d'",
    "bool": "%d %% 2 = 0", "float8": "%d / 3.0", "numeric": "%d ^ 5 / 7.0",
    "timestamptz": "'2020-01-01'::timestamptz + %d * interval '1 hour'",
    "uuid": "md5(%d::text)::uuid", "int[]": "ARRAY[%d, 1, NULL]",
    "jsonb": "jsonb_build_object('a', %d)", "name": "'n%d'", "\"char\"": "chr(65 + %d %% 20)::\"char\"",
    "varchar(20)": "'v%d'", "inet": "'10.0.0.0'::inet + %d", "interval": "%d * interval '1 s'",
    "bytea": "decode(md5(%d::text), 'hex')", "date": "'2020-01-01'::date + %d", "point": "point(%d, 1)"}


class Generator:
    """Statements of one session, which has ids of its own."""

    def __init__(self, r, number, wide):
        self.r, self.number, self.wide = r, number, wide

    def id(self):
        return self.r.randrange(ROWS) * NSESSIONS + self.number

    def text(self):
        """Short, long, or out of line; never the same."""
        r = self.r
        kind = r.random()
        n = r.randrange(1000000)
        if kind < 0.2:
            return "NULL"
        if kind < 0.6:
            return "'s%d'" % n
        if kind < 0.75:
            return "repeat('m%d', %d)" % (n, r.randint(10, 150))
        return ("(SELECT string_agg(md5((i + %d)::text), '') FROM generate_series(1, %d) i)"
                % (n, r.choice([60, 70, 100, 300])))

    def wide_value(self, i):
        if self.r.random() < 0.25:
            return "NULL"
        return VALUES[self.wide[i]] % self.r.randrange(100)

    def some(self):
        lo = self.r.randrange(ROWS * NSESSIONS)
        return "id %% %d = %d AND id BETWEEN %d AND %d" % (
            NSESSIONS, self.number, lo, lo + self.r.choice([1, 10, 40]))

    def insert(self):
        r = self.r
        table = r.choice("tttfuppww")
        conflict = r.choice(["", " ON CONFLICT DO NOTHING", " ON CONFLICT DO NOTHING"])
        if table == "t":
            if r.random() < 0.5:
                conflict = r.choice([" ON CONFLICT (id) DO UPDATE SET v = S.t.v + 1, x = EXCLUDED.x",
                                     " ON CONFLICT (id) DO UPDATE SET s = EXCLUDED.s", conflict])
            rows = ["(%d, %d, %d, %s, %s)" % (self.id(), r.randrange(9), r.randrange(99),
                    self.text(), self.text()) for _ in range(r.choice([1, 1, 1, 3, 8]))]
            if "UPDATE" in conflict:
                rows = rows[:1]
            return "INSERT INTO S.t (id, k, v, s, x) VALUES %s%s" % (", ".join(rows), conflict)
        if table == "f":
            i = self.id()
            return ("INSERT INTO S.f (id, k, v, s, x) SELECT %d, 1, 2, %s, %s WHERE NOT EXISTS (SELECT FROM S.f WHERE id = %d)"
                    % (i, self.text(), self.text(), i))
        if table == "u":
            i = self.id()
            return "INSERT INTO S.u (id, k, v, x) SELECT %d || %s, %d, 1, %s ON CONFLICT DO NOTHING" % (
                i, r.choice(["''", "repeat(md5('%d'), 80)" % i, "(SELECT string_agg(md5((i * %d)::text), '') FROM generate_series(1, 100) i)" % i]),
                i, self.text())
        if table == "p":
            return "INSERT INTO S.p SELECT %d, %d, 1, %s%s" % (self.id(), r.randrange(9), self.text(), conflict)
        return "INSERT INTO S.w SELECT %d, %s%s" % (
            self.id(), ", ".join(self.wide_value(i) for i in range(len(self.wide))), conflict)

    def bulk(self):
        lo = 100000 + self.r.randrange(1000) * 1000
        return ("INSERT INTO S.%s SELECT i * %d + %d, i, i, 'b' || i, CASE WHEN i %% %d = 0 THEN (SELECT string_agg(md5((i + j)::text), '') FROM generate_series(1, 90) j) END"
                " FROM generate_series(%d, %d) i%s" % (
                    "t (id, k, v, s, x)", NSESSIONS, self.number, self.r.choice([2, 7, 1000]), lo,
                    lo + self.r.choice([20, 100, 400]), " ON CONFLICT DO NOTHING"))

    def copy(self):
        r = self.r
        lo = 10000000 + r.randrange(100000) * 1000
        rows = []
        for i in range(lo, lo + r.choice([1, 5, 50, 300])):
            x = "".join("%06d" % r.randrange(1000000) for _ in range(r.choice([0, 0, 1, 30, 450])))
            rows.append("%d\t%d\t%d\t%s\t%s" % (i * NSESSIONS + self.number, i % 9, i % 50,
                        r.choice(["\\N", "copied", "other"]), x or "\\N"))
        return ("COPY", "COPY S.%s (id, k, v, s, x) FROM STDIN" % r.choice("tf"), "\n".join(rows) + "\n")

    def update(self):
        r = self.r
        what = r.random()
        if what < 0.4:
            return "UPDATE S.t SET %s WHERE %s" % (r.choice([
                "v = v + 1", "v = v + 1", "s = " + self.text(), "x = " + self.text(), "k = k + 1",
                "x = x", "x = x || 'y'", "s = " + self.text() + ", x = " + self.text()]), self.some())
        if what < 0.5:
            return "UPDATE S.t SET id = id + %d WHERE id = %d AND NOT EXISTS (SELECT FROM S.t WHERE id = %d)" % (
                (1000 * NSESSIONS, self.id()) + (0,))
        if what < 0.6:
            return "UPDATE S.f SET %s WHERE %s" % (r.choice(["v = v + 1", "x = " + self.text()]), self.some())
        if what < 0.7:
            return "UPDATE S.u SET %s WHERE k = %d" % (r.choice(["v = v + 1", "x = " + self.text(), "id = id || 'z'"]), self.id())
        if what < 0.8:
            return "UPDATE S.p SET %s WHERE %s" % (r.choice(["v = v + 1", "k = (k + 3) % 9", "s = " + self.text()]), self.some())
        i = r.randrange(len(self.wide))
        return "UPDATE S.w SET c%d = %s WHERE %s" % (i, self.wide_value(i), self.some())

    def delete(self):
        t = self.r.choice("tfpw")
        if self.r.random() < 0.2:
            return "DELETE FROM S.u WHERE k = %d" % self.id()
        return "DELETE FROM S.%s WHERE %s" % (t, self.some())

    def block(self):
        """Subtransactions, some of which fail."""
        return ("DO $$ BEGIN FOR turn IN 1..%d LOOP BEGIN %s; %s; IF turn %% 2 = 0 THEN RAISE 'no'; END IF;"
                " EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$"
                % (self.r.choice([2, 3, 40]), self.update(), self.insert_free()))

    def insert_free(self):
        return "INSERT INTO S.t (id, k, v, s, x) SELECT %d, 1, 1, %s, %s ON CONFLICT DO NOTHING" % (
            self.id(), self.text(), self.text())

    def change(self):
        return self.r.choices([self.insert, self.update, self.delete, self.bulk, self.copy, self.block],
                              [30, 40, 10, 4, 4, 6])[0]()

    def ddl(self, n):
        return self.r.choice([
            "ALTER TABLE S.t ADD n%d int DEFAULT %d" % (n, n), "ALTER TABLE S.t ADD n%d text" % n,
            "ALTER TABLE S.f ADD n%d text DEFAULT 'n%d'" % (n, n), "ALTER TABLE S.f DROP COLUMN IF EXISTS n%d" % (n - 1),
            "ALTER TABLE S.t DROP COLUMN IF EXISTS n%d" % (n - 1), "ALTER TABLE S.t ALTER k TYPE %s" % self.r.choice(["bigint", "int"]),
            "TRUNCATE S.f", "TRUNCATE S.p, S.w", "ALTER TABLE S.f REPLICA IDENTITY FULL", "ALTER TABLE S.t REPLICA IDENTITY FULL",
            "ALTER TABLE S.t REPLICA IDENTITY DEFAULT", "ALTER TABLE S.t REPLICA IDENTITY DEFAULT", "CREATE INDEX ON S.t (v, id)",
            "DROP INDEX IF EXISTS S.t_v_id_idx"])


# ----------------------------------------------------------------------
# pgoutput's messages
# ----------------------------------------------------------------------
class PgOutput:
    """Turns messages into (schema, change, streamed transaction), in order; schema
    None: a boundary."""

    def __init__(self):
        self.relations = {}
        self.out = []
        self.streaming = False
        self.top = None

    def tuple(self, data, at):
        (n,), at = struct.unpack_from(">h", data, at), at + 2
        values = []
        for _ in range(n):
            kind = chr(data[at])
            at += 1
            if kind in "tb":
                (size,), at = struct.unpack_from(">i", data, at), at + 4
                values.append(kind + bytes(data[at:at + size]).hex())
                at += size
            else:
                values.append(kind)
        return tuple(values), at

    def string(self, data, at):
        end = data.index(0, at)
        return bytes(data[at:end]).decode(), end + 1

    def message(self, raw):
        data = bytes(raw)
        kind = chr(data[0])
        at = 1
        xid = None
        if kind == "S":
            self.streaming = True
            (self.top,) = struct.unpack_from(">I", data, at)
        elif kind == "E":
            self.streaming = False
            self.top = None
        if self.streaming and kind in "RYIUDTM":
            (xid,), at = struct.unpack_from(">I", data, at), at + 4
        if kind == "R":
            (oid,), at = struct.unpack_from(">I", data, at), at + 4
            namespace, at = self.string(data, at)
            name, at = self.string(data, at)
            self.relations[oid] = (namespace, name)
            return
        if kind in "IUD":
            (oid,), at = struct.unpack_from(">I", data, at), at + 4
            namespace, name = self.relations[oid]
            parts = []
            while at < len(data):
                mark = chr(data[at])
                values, at = self.tuple(data, at + 1)
                parts.append((mark, values))
            self.out.append((namespace, (kind, name, xid, tuple(parts)), self.top))
        elif kind == "T":
            (n, _flags), at = struct.unpack_from(">iB", data, at), at + 5
            for oid in struct.unpack_from(">%dI" % n, data, at):
                namespace, name = self.relations[oid]
                self.out.append((namespace, (kind, name, xid), self.top))
        elif kind == "A":
            self.out.append((None, kind, struct.unpack_from(">II", data, at)))
        elif kind == "c":
            self.out.append((None, kind, struct.unpack_from(">I", data, at)[0]))
        elif kind in "pP":
            # flags, two positions, a time
            (xid,), at = struct.unpack_from(">I", data, at + 25), at + 29
            self.out.append((None, "PREPARE TRANSACTION '%s'" % self.string(data, at)[0],
                             xid if kind == "p" else None))
        elif kind == "r":
            # flags, two positions, two times, an xid
            self.out.append((None, "ROLLBACK PREPARED '%s'" % self.string(data, at + 37)[0], None))
        elif kind == "C":
            self.out.append((None, kind, None))


def of_text(line):
    """A line of test_decoding's, likewise."""
    for side in SIDES:
        start = "table %s." % side
        if line.startswith(start):
            if ": TRUNCATE" in line:
                return side, line.replace("%s." % side, "S."), None
            return side, line[len(start):], None
    return None, line, None


# A row of heap's is a little longer than its twin, for its header is.  Where the
# one is above TOAST_TUPLE_THRESHOLD and the other isn't, a value of nearly that
# size is out of line only in the one; an update that leaves it alone then tells
# of one side that it is unchanged, and of the other what it is.
ABOUT_A_ROW = range(1800, 2049)
UNCHANGED = ("u", "unchanged-toast-datum")
TEXT_COLUMN = re.compile(r"(\w+\[text\]):(unchanged-toast-datum|null|'(?:[^']|'')*')")


def size_of(value):
    """Bytes of a value, as pgoutput or test_decoding write it."""
    return (len(value) - 1) // 2 if value[0] in "tb" else len(value) - 2


class Told:
    """Long values that were told of each side.  One that is said to be unchanged
    on the other side must have been told there before, of the same table."""

    def __init__(self):
        self.values = {s: set() for s in SIDES}

    @staticmethod
    def parts(change):
        """What can't differ; and table, column and value of the new row's columns."""
        if isinstance(change, str):
            head, new, row = change.rpartition(" new-tuple: ")
            table = change.partition(":")[0]
            return ((head, new, TEXT_COLUMN.sub(r"\1", row)),
                    [(table,) + x for x in TEXT_COLUMN.findall(row)])
        if change[0] not in "IU" or change[2][-1][0] != "N":
            return change, []
        rest, row = change[2][:-1], change[2][-1][1]
        return (change[:2], rest, len(row)), [(change[1], i, x) for i, x in enumerate(row)]

    def note(self, side, change):
        for table, _, value in self.parts(change)[1]:
            if value not in UNCHANGED and size_of(value) in ABOUT_A_ROW:
                self.values[side].add((table, self.plain(value)))

    @staticmethod
    def plain(value):
        return bytes.fromhex(value[1:]).decode(errors="replace") if value[0] in "tb" else value[1:-1]

    def alike(self, heap, zheap):
        """Two changes that are not the same: is it only that?"""
        (a, arow), (b, brow) = self.parts(heap), self.parts(zheap)
        if a != b or len(arow) != len(brow):
            return False
        for (table, n, x), (_, m, y) in zip(arow, brow):
            if n != m:
                return False
            if x == y:
                continue
            side, value = ("h", y) if x in UNCHANGED else ("z", x)
            if (x in UNCHANGED) == (y in UNCHANGED) or size_of(value) not in ABOUT_A_ROW:
                return False
            if (table, self.plain(value)) not in self.values[side]:
                return False
        return True


def compare(what, items, told):
    """Of each transaction both sides are told alike.  A streamed one may be cut
    between the twins until it has ended; what is aborted may be cut for good, be
    it prepared before."""
    runs = {}
    count = 0
    undone = {change.replace("ROLLBACK PREPARED", "PREPARE TRANSACTION") for side, change, _ in items
              if side is None and change.startswith("ROLLBACK PREPARED")}
    for side, change, top in items + [(None, "end", None)]:
        if side is not None:
            runs.setdefault(top, {s: [] for s in SIDES})[side].append(change)
            count += 1
            continue
        if change == "A":
            top, aborted = top
            for s in SIDES:
                if top == aborted:
                    runs.pop(top, None)
                elif top in runs:
                    runs[top][s] = [x for x in runs[top][s] if x[2] != aborted]
            continue
        both = runs.pop(top, None)
        if both is None or change in undone:
            continue
        # a block's subtransactions have other xids
        a, b = ([x if isinstance(x, str) else x[:2] + x[3:] for x in both[s]] for s in SIDES)
        for s, changes in zip(SIDES, (a, b)):
            for x in changes:
                told.note(s, x)
        same = [x == y or told.alike(x, y) for x, y in zip(a, b)]
        if len(a) != len(b) or not all(same):
            n = same.index(False) if False in same else len(same)
            raise Difference("%s: %d changes of heap, %d of zheap; number %d differs:\n heap  %s\n zheap %s" % (
                what, len(a), len(b), n, str(a[n:n + 1])[:1500], str(b[n:n + 1])[:1500]))
    return count


# ----------------------------------------------------------------------
# the run
# ----------------------------------------------------------------------
class Run:
    def __init__(self, cluster, seed, am, steps, verbose):
        self.cluster, self.seed, self.am, self.steps = cluster, seed, am, steps
        self.verbose = verbose
        self.r = random.Random(seed)
        self.db = "d%d" % seed
        self.changes = 0
        self.told = Told()
        self.columns = 0
        self.gid = 0

    def connect(self, number):
        conn = psycopg2.connect(self.cluster.dsn(self.db))
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET client_min_messages = error;"
                    " SET lock_timeout = '60s'")
        if number == 1:
            cur.execute("SELECT pg_replication_origin_session_setup('far')")
        return conn

    def connect_all(self):
        self.sessions = [self.connect(i) for i in range(NSESSIONS)]
        self.open = [0] * NSESSIONS			# 0 idle, 1 in a transaction, 2 failed
        self.saves = [0] * NSESSIONS

    def say(self, *what):
        if self.verbose:
            print(*[str(x)[:300] for x in what], flush=True)

    def do(self, s, statement):
        """One statement; true if it failed."""
        self.say("session", s, statement)
        cur = self.sessions[s].cursor()
        try:
            if isinstance(statement, tuple):
                import io
                cur.copy_expert(statement[1], io.StringIO(statement[2]))
            else:
                cur.execute(statement)
            return False
        except psycopg2.Error as e:
            if e.pgcode is None or e.pgcode.startswith("XX") or e.pgcode.startswith("57"):
                raise
            self.say("  failed:", e)
            if self.open[s]:
                self.open[s] = 2
            return e.pgcode

    def both(self, s, statement):
        """The twins, in one transaction but for what can't be."""
        alone = not self.open[s] and not str(statement).startswith(("VACUUM", "CLUSTER"))
        failed = []
        if alone:
            self.do(s, "BEGIN")
        for side in SIDES:
            if isinstance(statement, tuple):
                one = (statement[0], statement[1].replace("S.", side + "."), statement[2])
            else:
                one = statement.replace("S.", side + ".")
            failed.append(self.do(s, one))
            if failed[0]:
                break
        if alone:
            self.do(s, "ROLLBACK" if failed[0] else "COMMIT")
        if len(set(failed)) > 1:
            raise Difference("session %d: %s: heap %s, zheap %s" % (s, statement, *failed))

    def setup(self):
        c = psycopg2.connect(self.cluster.dsn())
        c.autocommit = True
        cur = c.cursor()
        cur.execute("DROP DATABASE IF EXISTS " + self.db)
        cur.execute("CREATE DATABASE " + self.db)
        cur.execute("SELECT count(*) FROM pg_replication_origin WHERE roname = 'far'")
        if cur.fetchone()[0] == 0:
            cur.execute("SELECT pg_replication_origin_create('far')")
        cur.execute("SHOW server_version_num")
        self.version = int(cur.fetchone()[0]) // 10000
        c.close()
        c = psycopg2.connect(self.cluster.dsn(self.db))
        c.autocommit = True
        cur = c.cursor()
        cur.execute("CREATE EXTENSION zheap_am; CREATE SCHEMA h; CREATE SCHEMA z")
        statements, self.wide = schema(self.r)
        for side, am in zip(SIDES, ("heap", self.am)):
            for x in statements:
                cur.execute("SET default_table_access_method = " + am + ";" + x.replace("S.", side + "."))
        # pgoutput refuses changes that need an identity which isn't there
        for side in SIDES:
            cur.execute("CREATE PUBLICATION p_{0} FOR TABLE {0}.t, {0}.u{1}, {0}.w{2}, {0}.p WITH (publish_via_partition_root = {3})".format(
                side, self.seed % 3 == 0 and " WHERE (k % 2 = 0)" or "",
                self.seed % 3 == 1 and " (id, c0, c1)" or "", self.seed % 2 == 0 and "true" or "false")
                .replace(", %s.w (id, c0, c1)" % side, self.columns_of(cur, side)))
        self.slots = {}
        for name, plugin, two_phase in (("td", "test_decoding", "false"), ("tp", "test_decoding", "true"), ("po", "pgoutput", "false"),
                                        ("ps", "pgoutput", "true"), ("ws", "pgoutput", "false")):
            slot = "%s_%s" % (self.db, name)
            cur.execute("SELECT pg_create_logical_replication_slot('%s', '%s', false, %s)" % (slot, plugin, two_phase))
            self.slots[name] = slot
        c.close()

    def columns_of(self, cur, side):
        cur.execute("SELECT relreplident FROM pg_class WHERE oid = '%s.w'::regclass" % side)
        return ", %s.w%s" % (side, " (id, c0, c1)" if cur.fetchone()[0] == "d" else "")

    def pgoutput_options(self, name):
        publications = "p_h,p_z"
        if name == "po":
            return {"proto_version": "1", "publication_names": publications}
        if name == "ws":
            o = {"proto_version": "2", "publication_names": publications, "streaming": "on", "binary": "true"}
            return o
        o = {"proto_version": "3", "publication_names": publications, "streaming": "on", "messages": "true"}
        if self.version >= 16 and self.seed % 2:
            o.update(proto_version="4", streaming="parallel")
        return o

    def read(self):
        """All readers; none may see a difference."""
        c = psycopg2.connect(self.cluster.dsn(self.db))
        c.autocommit = True
        cur = c.cursor()
        # one reader is told everything that was committed: no row filter, all origins
        only_local = ", 'only-local', '1'" if self.seed % 2 and self.seed % 3 else ""
        for name in ("td", "tp"):
            cur.execute("SELECT data FROM pg_logical_slot_get_changes('%s', NULL, NULL, %s%s)" % (self.slots[name], OPTIONS, only_local))
            self.changes += compare("test_decoding " + name, [of_text(x[0]) for x in cur.fetchall()], self.told)
        # streamed by test_decoding: not what, only that
        cur.execute("SELECT count(*) FROM pg_logical_slot_peek_changes('%s', NULL, NULL, %s, 'stream-changes', '1')" % (self.slots["td"], OPTIONS))
        for name in ("po", "ps"):
            options = ", ".join("'%s', '%s'" % x for x in self.pgoutput_options(name).items())
            cur.execute("SELECT data FROM pg_logical_slot_get_binary_changes('%s', NULL, NULL, %s)" % (self.slots[name], options))
            parser = PgOutput()
            for (data,) in cur.fetchall():
                parser.message(data)
            self.changes += compare("pgoutput " + name, parser.out, self.told)
        c.close()
        self.read_walsender()

    def read_walsender(self):
        """Through a walsender, cut off somewhere and started again."""
        target = None
        c = psycopg2.connect(self.cluster.dsn(self.db))
        c.autocommit = True
        cur = c.cursor()
        cur.execute("SELECT pg_current_wal_flush_lsn() - '0/0'")
        target = int(cur.fetchone()[0])
        for cut in (self.r.randint(1, 200), None):
            conn = psycopg2.connect(self.cluster.dsn(self.db), connection_factory=psycopg2.extras.LogicalReplicationConnection)
            rep = conn.cursor()
            rep.start_replication(slot_name=self.slots["ws"], decode=False, options=self.pgoutput_options("ws"))
            parser = PgOutput()
            n = 0
            end = time.time() + 120
            while True:
                m = rep.read_message()
                if m is None:
                    if rep.wal_end >= target:
                        break
                    if time.time() > end:
                        raise Difference("walsender is stuck at %x of %x" % (rep.wal_end, target))
                    rep.send_feedback(reply=True)
                    time.sleep(0.01)
                    continue
                n += 1
                if n == cut:
                    break
                parser.message(m.payload)
            if cut is not None:
                pid = conn.get_backend_pid()
                cur.execute("SELECT pg_terminate_backend(%d)" % pid)
                conn.close()
                for _ in range(2000):
                    cur.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %d" % pid)
                    if cur.fetchone()[0] == 0:
                        break
                    time.sleep(0.01)
                continue
            self.changes += compare("pgoutput of a walsender", parser.out, self.told)
            rep.send_feedback(flush_lsn=target, reply=True)
            conn.close()
        c.close()

    def crash(self):
        self.say("kill -9")
        self.cluster.kill()
        self.cluster.start()
        self.connect_all()

    def finish_transaction(self, s):
        r = self.r
        if self.open[s] == 2 or r.random() < 0.12:
            self.do(s, "ROLLBACK")
        elif r.random() < 0.15 and s != 1:
            self.gid += 1
            gid = "%s_%d" % (self.db, self.gid)
            if not self.do(s, "PREPARE TRANSACTION '%s'" % gid):
                self.open[s] = self.saves[s] = 0
                self.end_prepared(gid)
        else:
            self.do(s, "COMMIT")
        self.open[s] = self.saves[s] = 0

    def end_prepared(self, gid):
        """At once, for its locks are in the way, but for readers and a crash."""
        between = self.r.random()
        if between < 0.3:
            self.read()
        elif between < 0.5:
            self.crash()
        c = psycopg2.connect(self.cluster.dsn(self.db))
        c.autocommit = True
        c.cursor().execute("%s PREPARED '%s'" % (self.r.choice(["COMMIT", "COMMIT", "ROLLBACK"]), gid))
        c.close()

    def quiet(self):
        """Nobody is in a transaction."""
        for s in range(NSESSIONS):
            if self.open[s]:
                self.finish_transaction(s)

    def step(self, n):
        r = self.r
        s = r.randrange(NSESSIONS)
        generator = self.generators[s]
        if self.open[s] == 2:
            if self.saves[s] and r.random() < 0.5:
                self.open[s] = 1
                self.do(s, "ROLLBACK TO s%d" % r.randint(1, self.saves[s]))
                return
            self.finish_transaction(s)
            return
        what = r.random()
        if what < 0.02:
            self.quiet()
            self.open[s] = 0
            if r.random() < 0.5:
                self.do(s, "BEGIN")
                self.open[s] = 1
                self.both(s, generator.change())
            if self.open[s] != 2:
                self.both(s, generator.ddl(n))
            for _ in range(3):
                if self.open[s] != 2:
                    self.both(s, generator.change())
            if self.open[s]:
                self.finish_transaction(s)
        elif what < 0.025:
            self.quiet()
            self.both(s, r.choice(["VACUUM FULL S.t", "CLUSTER S.t USING t_pkey", "VACUUM S.t", "VACUUM S.f"]))
        elif what < 0.035:
            self.crash()
        elif what < 0.05:
            self.read()
        elif not self.open[s] and what < 0.4:
            self.do(s, "BEGIN" + r.choice(["", " ISOLATION LEVEL REPEATABLE READ"]))
            self.open[s] = 1
        elif self.open[s] and what < 0.15:
            self.finish_transaction(s)
        elif self.open[s] and what < 0.25:
            self.saves[s] += 1
            self.do(s, "SAVEPOINT s%d" % self.saves[s])
        elif self.open[s] and self.saves[s] and what < 0.32:
            k = r.randint(1, self.saves[s])
            self.do(s, r.choice(["ROLLBACK TO s%d", "RELEASE s%d"]) % k)
            self.saves[s] = k - 1
        elif what < 0.34:
            self.do(s, "SELECT pg_logical_emit_message(%s, 'm', 'text')" % r.choice(["true", "false"]))
        else:
            self.both(s, generator.change())

    def play(self):
        self.setup()
        self.generators = [Generator(random.Random("%d %d" % (self.seed, i)), i, self.wide) for i in range(NSESSIONS)]
        self.connect_all()
        for n in range(self.steps):
            self.step(n)
        self.quiet()
        self.read()
        cur = self.sessions[0].cursor()
        for table in ("t", "f", "u", "p", "w"):
            cur.execute("SELECT count(*) FROM (SELECT x::text FROM h.{0} x EXCEPT ALL SELECT x::text FROM z.{0} x) y".format(table))
            if cur.fetchone()[0] != 0:
                raise Difference("rows of table %s differ" % table)
        for slot in self.slots.values():
            cur.execute("SELECT pg_drop_replication_slot('%s')" % slot)
        for conn in self.sessions:
            conn.close()
        faults = self.cluster.log_faults()
        if faults:
            raise Difference("server log: " + "\n".join(faults[:10]))
        if self.changes == 0:
            raise Difference("nothing was decoded")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bindir", required=True)
    p.add_argument("--seeds", default="1-10")
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--am", default="zheap")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    cluster = None						# goes when a seed has failed

    def play(seed):
        nonlocal cluster
        if cluster is None:
            cluster = Cluster(args.bindir)
            cluster.init(SETTINGS)
            cluster.start()
        run = Run(cluster, seed, args.am, args.steps, args.verbose)
        try:
            run.play()
            print("seed %d ok: %d changes" % (seed, run.changes))
            return True
        except (Difference, psycopg2.Error, RuntimeError) as e:
            log = cluster.log_tail(1000)
            # the postmaster tells of a signal a moment after the client has learnt
            for _ in range(300):
                if "server closed the connection" not in str(e) or CORES_OWN.search(log):
                    break
                time.sleep(0.1)
                log = cluster.log_tail(1000)
            ok = bool(CORES_OWN.search(log)) and not isinstance(e, Difference)
            if ok:
                print("seed %d ok: %d changes, then core's own assertion failed" % (seed, run.changes))
            else:
                print("seed %d FAILED: %s: %s" % (seed, type(e).__name__, str(e)[:4000]))
                print(log[-3000:])
            cluster.drop(args.keep and not ok)
            cluster = None
            return ok

    status = play_seeds(args.seeds, play)
    if cluster is not None:
        cluster.drop()
    return status


if __name__ == "__main__":
    become_ordinary(__file__)
    sys.exit(main())
