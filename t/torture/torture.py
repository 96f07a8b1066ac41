#!/usr/bin/python3
"""Crash torture: kill -9 of the whole server under load, cycle after cycle.

Clients move money between accounts of a zheap table, in savepoints, with rows
deleted and inserted again, notes that grow and shrink, values out of line,
locks, rollbacks large and small, prepared transactions.  Each transaction
leaves a receipt, and a ledger in this process, outside the server, knows which
receipts were acknowledged as committed.  In between somebody vacuums,
reindexes, checkpoints, holds old snapshots.  At a random moment all processes
of the server get SIGKILL, sometimes again in recovery or while aborted
transactions are rolled back.  After each restart:

  - each acknowledged commit is there, nothing that was rolled back is, each
    acknowledged PREPARE is still prepared (unacknowledged ones: either);
  - the sum of all accounts is what it was;
  - the table equals its heap twin, which a trigger writes in the same
    transaction, read by three plans;
  - with --lockers N, as many prepared transactions lock rows of a page or two,
    whose rows are updated all the time: they are still prepared, each row
    refuses and grants exactly what their locks say, no update is lost;
  - with --copies N, up to so many copies of a database that is used before and
    after hold what their twins hold;
  - zheap_check and bt_index_check(heapallindexed) find nothing;
  - the log has no assertion, panic or corruption message.

With --standby a synchronous standby streams; each cycle kills the primary and
promotes the standby, and the other becomes the new standby by pg_rewind or
pg_basebackup.  Readers compare on the standby too.

usage: torture.py --bindir DIR [--cycles N] [--seed N] [--seconds S]
                  [--clients N] [--standby] [--lockers N] [--copies N] [--keep]

Starts throw-away clusters (as an ordinary user when run by root).  Exit status
0: nothing was lost.  Needs python3-psycopg2, zheap_am and amcheck installed.
"""
import argparse
import os
import random
import re
import shutil
import sys
import threading
import time
import traceback

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "python"))
from throwaway import Cluster, become_ordinary  # noqa: E402
from copies import Copies  # noqa: E402
from lockers import Lockers  # noqa: E402
from rules import Lost, outside  # noqa: E402

ACCOUNTS = 240
START = 1000
# what a killed server, a lock or a race may answer; all else is a failure
EXPECTED = {None, "40001", "40P01", "55P03", "57014", "57P01", "57P02",
            "57P03", "08006", "08003", "23505", "40003"}

SCHEMA = """
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, k int,
	note text, big text) USING zheap;
ALTER TABLE account ALTER big SET STORAGE EXTERNAL;
CREATE INDEX account_k ON account (k);
CREATE TABLE haccount (LIKE account) USING heap;
ALTER TABLE haccount ADD PRIMARY KEY (id);
CREATE TABLE receipt (client int, n int, payload text, md5 text,
	PRIMARY KEY (client, n)) USING zheap;
CREATE FUNCTION mirror() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	IF TG_OP <> 'INSERT' THEN
		DELETE FROM haccount h WHERE id = OLD.id
			AND (h.balance, h.k, h.note, h.big) IS NOT DISTINCT FROM
				(OLD.balance, OLD.k, OLD.note, OLD.big);
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n <> 1 THEN
			RAISE EXCEPTION 'twin has %% rows like OLD, id %%', n, OLD.id
				USING ERRCODE = 'ZZ001';
		END IF;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO haccount VALUES (NEW.*);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON account
	FOR EACH ROW EXECUTE FUNCTION mirror();
INSERT INTO account SELECT g, %d, g %% 7, 'n', NULL
	FROM generate_series(1, %d) g;
""" % (START, ACCOUNTS)

PLANS = {"seq": "on,off,off", "index": "off,on,off", "bitmap": "off,off,on"}

TWIN = """
SELECT 'table', id, balance, k, left(note, 20), length(big) FROM
	(SELECT id, balance, k, note, big FROM account WHERE id > 0
	 EXCEPT ALL SELECT id, balance, k, note, big FROM haccount) a
UNION ALL
SELECT 'twin', id, balance, k, left(note, 20), length(big) FROM
	(SELECT id, balance, k, note, big FROM haccount
	 EXCEPT ALL SELECT id, balance, k, note, big FROM account WHERE id > 0) b
ORDER BY 2, 1 LIMIT 8"""

CHECKS = """
CREATE FUNCTION pg_temp.index_fault(i oid) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bt_index_check(i, true);
	RETURN NULL;
EXCEPTION WHEN others THEN
	RETURN sqlerrm;
END $$;
SELECT 'zheap_check ' || t.oid::regclass, c::text FROM pg_class t
	JOIN pg_am a ON a.oid = t.relam, LATERAL zheap_check(t.oid) c
	WHERE a.amname = 'zheap' AND t.relkind = 'r'
UNION ALL
SELECT 'bt_index_check ' || i.indexrelid::regclass, f FROM pg_index i
	JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = 'public'::regnamespace
	OR t.oid = i.indrelid AND t.relkind = 't',
	LATERAL pg_temp.index_fault(i.indexrelid) f WHERE f IS NOT NULL"""


def text_of(r):
    x = r.random()
    if x < 0.5:
        return "y" * r.randrange(60)
    if x < 0.8:
        return "z" * r.randrange(600)
    return "".join(chr(r.randrange(97, 123)) for _ in range(r.randrange(1500)))


class Ledger:
    """What the clients were told.  key = (client, n) -> state:

    no       never committed, or rolled back
    maybe    COMMIT was sent, no answer
    yes      committed
    P?       PREPARE was sent, no answer
    P        prepared
    Pyes?    COMMIT PREPARED was sent, no answer
    Pno?     ROLLBACK PREPARED was sent, no answer
    """

    # state -> the facts it allows: (receipt is there, gid is prepared)
    ALLOWED = {
        "no": {(0, 0)}, "maybe": {(0, 0), (1, 0)}, "yes": {(1, 0)},
        "P?": {(0, 0), (0, 1)}, "P": {(0, 1)},
        "Pyes?": {(1, 0), (0, 1)}, "Pno?": {(0, 0), (0, 1)}}
    BECOMES = {(0, 0): "no", (1, 0): "yes", (0, 1): "P"}

    def __init__(self):
        self.state = {}

    def settle(self, present, prepared):
        for key in present | prepared | set(self.state):
            fact = (int(key in present), int(key in prepared))
            state = self.state.get(key, "no")
            if fact not in self.ALLOWED[state]:
                raise Lost("receipt %s: told %r, found %s, %s" % (
                    key, state, "present" if fact[0] else "absent",
                    "prepared" if fact[1] else "not prepared"))
            self.state[key] = self.BECOMES[fact]
        # receipts are deleted after each check, so only these matter on
        self.state = {k: v for k, v in self.state.items() if v == "P"}


def gid_of(key):
    return "t_%d_%d" % key


def next_fxid(cluster):
    """As the checkpoint says from which this folder starts."""
    label = os.path.join(cluster.data, "backup_label")
    if not os.path.exists(label):
        said = cluster.tool("pg_controldata", cluster.data)
    else:
        with open(label) as f:
            place = re.search(r"CHECKPOINT LOCATION: (\S+)", f.read()).group(1)
        high, low = (int(x, 16) for x in place.split("/"))
        # a timeline that ended in this segment has left but a .partial one: the
        # newest one's file begins with all of it
        wal = os.path.join(cluster.data, "pg_wal")
        newest = max(n for n in os.listdir(wal)
                     if re.fullmatch("[0-9A-F]{8}%08X%08X" % (high, low >> 24), n) and
                     os.path.getsize(os.path.join(wal, n)) > 0)
        # named, or any file would be asked for their size, one just made, too
        said = cluster.tool("pg_waldump", "-n", "1", "-s", place, os.path.join(wal, newest))
    epoch, xid = re.search(r"(?:; xid|NextXID:) +(\d+):(\d+)", said).groups()
    return int(epoch) << 32 | int(xid)


def remove_future_two_phase(cluster):
    """Remove state files of transactions that were prepared behind the checkpoint
    from which a killed server or a copied folder will start: since 17 core does so,
    but meets an assertion of its own in doing it.  Redo makes them anew."""
    folder = os.path.join(cluster.data, "pg_twophase")
    names = [n for n in os.listdir(folder) if len(n) == 16]  # of 17 and later
    if names:
        end = next_fxid(cluster)
        for name in names:
            if int(name, 16) >= end:
                os.remove(os.path.join(folder, name))


class Torture:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.ledger = Ledger()
        self.lockers = Lockers(args.lockers)
        self.copies = Copies(self, args.copies)
        self.next = [0] * args.clients
        self.stop = threading.Event()
        self.failures = []
        self.commits = self.kills = self.reads = self.rewinds = 0
        self.node = Cluster(args.bindir, "a")
        if not args.standby and self.random.random() < 0.4:
            # no checksums, without which pg_rewind doesn't work (18: with)
            self.node.initdb_options = ("-A", "trust", "-N")
        self.other = None
        # wal_consistency_checking
        self.compares = args.standby or random.Random(args.seed * 7 + 3).random() < 0.5
        if args.standby:
            self.other = Cluster(args.bindir, "b", self.node.root)

    # ---- settings of a cycle

    def settings(self, sync=False, source=None):
        r = self.random
        text = """
fsync = off
autovacuum = %s
full_page_writes = %s
shared_buffers = %s
checkpoint_timeout = 30s
max_wal_size = %s
bgwriter_delay = 10ms
zheap.discard_naptime = %s
zheap.max_rollback_workers = %d
zheap.rollback_foreground_size = %s
wal_consistency_checking = '%s'
wal_keep_size = 512MB
hot_standby_feedback = %s
max_standby_streaming_delay = 500ms
wal_retrieve_retry_interval = 100ms
deadlock_timeout = 50ms
lock_timeout = 200ms
wal_level = %s
wal_compression = %s
max_prepared_transactions = %d
synchronous_standby_names = '%s'
""" % (r.choice(["on", "off"]),
            # pg_rewind refuses to work without full page writes
            "on" if self.other else r.choice(["on", "off"]),
            r.choice(["1MB", "1MB", "4MB", "64MB"]), r.choice(["64MB", "1GB"]),
            r.choice([20, 200]), r.choice([1, 2]),
            r.choice(["0", "8kB", "256kB"]),
            r.choice(["zheap", "", ""]), r.choice(["on", "off"]),
            "replica" if self.other else r.choice([
                "replica", "logical"] + ["minimal\nmax_wal_senders = 0"] * 2),
            r.choice(["on", "off"]), 30 + self.args.lockers, "*" if sync else "")
        # redo for a file that was dropped later finds zero pages, which core's
        # comparison takes for damaged ones unless images are restored.  While
        # full_page_writes goes off, processes still have the old settings
        if self.compares:
            text = text.replace("full_page_writes = off", "full_page_writes = on")
        else:
            text = text.replace("checking = 'zheap'", "checking = ''")
        if self.args.keyed:
            text += "zheap.update_indexed_in_place = on\n"
        if source is not None:
            text += "primary_conninfo = 'host=%s port=5432 user=tester'\n" % source.socket
        return text

    def write_settings(self, node, sync=False, source=None):
        with open(os.path.join(node.data, "torture.conf"), "w") as f:
            f.write(self.settings(sync, source))

    # ---- the load

    def fail(self, text):
        self.failures.append(text)
        self.stop.set()

    def guard(self, work, r, standby=False):
        """Run work until the cycle ends; expected errors begin anew."""
        conn = None
        while not self.stop.is_set():
            try:
                if conn is None or conn.closed:
                    node = self.other if standby else self.node
                    conn = psycopg2.connect(node.dsn())
                work(conn, r)
            except psycopg2.Error as e:
                if e.pgcode not in EXPECTED:
                    self.fail("%s: %s %s" % (work.__name__, e.pgcode, e))
                try:
                    conn.rollback()
                except (psycopg2.Error, AttributeError):
                    conn = None
                    time.sleep(0.02)
            except Exception:
                self.fail(traceback.format_exc())
                return
        if conn is not None:
            conn.close()

    def op(self, cur, r):
        x = r.random()
        a, b = r.sample(range(1, ACCOUNTS + 1), 2)
        if r.random() < 0.7:
            a, b = sorted((a, b))
        amount = r.randrange(1, 50)
        if self.args.keyed and r.random() < 0.5:
            cur.execute("UPDATE account SET k = %s WHERE id = %s OR k = %s",
                        (r.randrange(9), a, r.choice([-1, -1, 3])))
        elif x < 0.40:
            cur.execute("UPDATE account SET balance = balance - %s WHERE id = %s",
                        (amount, a))
            if cur.rowcount == 1:
                cur.execute("UPDATE account SET balance = balance + %s "
                            "WHERE id = %s", (amount, b))
                if cur.rowcount == 0:
                    cur.execute("INSERT INTO account VALUES (%s, %s, %s, 'new') "
                                "ON CONFLICT (id) DO UPDATE SET balance = "
                                "account.balance + excluded.balance",
                                (b, amount, r.randrange(9)))
        elif x < 0.50:
            cur.execute("UPDATE account SET note = %s WHERE id = %s",
                        (text_of(r), a))
        elif x < 0.55:
            cur.execute("UPDATE account SET big = %s, balance = balance + 1 "
                        "WHERE id = %s", (r.choice([None, "".join(
                            chr(r.randrange(33, 126)) for _ in
                            range(r.randrange(2000, 9000)))]), a))
            if cur.rowcount == 1:
                cur.execute("INSERT INTO account VALUES (%s, -1, 0, '-') ON "
                            "CONFLICT (id) DO UPDATE SET balance = "
                            "account.balance - 1", (b,))
        elif x < 0.62:
            cur.execute("UPDATE account SET k = %s WHERE id = %s",
                        (r.randrange(9), a))
        elif x < 0.75:
            cur.execute("DELETE FROM account WHERE id = %s RETURNING balance",
                        (a,))
            row = cur.fetchone()
            if row is not None:
                cur.execute("INSERT INTO account VALUES (%s, %s, %s, %s) "
                            "ON CONFLICT (id) DO UPDATE SET balance = "
                            "account.balance + excluded.balance",
                            (r.choice([a, b]), row[0], r.randrange(9),
                             text_of(r)))
        elif x < 0.85:
            cur.execute("SELECT * FROM account WHERE id IN (%s, %s) ORDER BY id "
                        "FOR " + r.choice(["UPDATE", "SHARE", "KEY SHARE",
                                           "NO KEY UPDATE"]), (a, b))
            cur.fetchall()
        elif x < 0.89:
            cur.execute("UPDATE account SET note = note || 'more', k = k + %s "
                        "WHERE id BETWEEN %s AND %s",
                        (r.choice([0, 0, 1]), a, a + 25))
        else:
            cur.execute("UPDATE account SET id = %s WHERE id = %s AND NOT EXISTS "
                        "(SELECT FROM account WHERE id = %s)", (b, a, b))

    def client(self, number):
        r = random.Random(self.random.random())

        def transaction(conn, r):
            n = self.next[number] = self.next[number] + 1
            key = (number, n)
            state = self.ledger.state
            state[key] = "no"
            cur = conn.cursor()
            cur.execute("SET TRANSACTION ISOLATION LEVEL " + r.choice(
                ["READ COMMITTED"] * 3 + ["REPEATABLE READ", "SERIALIZABLE"]))
            payload = text_of(r)
            if r.random() < 0.1:
                payload += "".join(chr(r.randrange(33, 126))
                                   for _ in range(r.randrange(9000)))
            depth = 0
            first = r.random() < 0.5
            receipt = "INSERT INTO receipt VALUES (%s, %s, %s, md5(%s))"
            if first:
                cur.execute(receipt, (number, n, payload, payload))
            for _ in range(r.choice([1, 2, 4, 8])):
                x = r.random()
                if x < 0.25 and depth < 3:
                    depth += 1
                    cur.execute("SAVEPOINT s%d" % depth)
                elif x < 0.4 and depth > 0:
                    depth = r.randrange(1, depth + 1)
                    cur.execute("ROLLBACK TO s%d" % depth)
                elif x < 0.5 and depth > 0:
                    cur.execute("RELEASE s%d" % depth)
                    depth -= 1
                # a savepoint that is rolled back may not tear a transfer
                self.op(cur, r)
            if not first:
                cur.execute(receipt, (number, n, payload, payload))
            x = r.random()
            if x < 0.15:
                if r.random() < 0.3:	# a large one
                    cur.execute("UPDATE account SET note = %s, k = k + 1",
                                (text_of(r),))
                conn.rollback()
            elif x < 0.27:
                self.two_phase(conn, r, key)
            else:
                state[key] = "maybe"
                self.commit(conn)
                state[key] = "yes"
                self.commits += 1

        self.guard(transaction, r)

    def commit(self, conn):
        try:
            conn.commit()
        except psycopg2.Error as e:
            if e.pgcode == "53100":	# no room: needs none
                self.fail("COMMIT fails: %s" % e)
            raise

    def two_phase(self, conn, r, key):
        state = self.ledger.state
        cur = conn.cursor()
        state[key] = "P?"
        try:
            cur.execute("PREPARE TRANSACTION %s", (gid_of(key),))
        except psycopg2.Error as e:
            if e.pgcode is not None:	# an answer: it was rolled back
                state[key] = "no"
            raise
        state[key] = "P"
        conn.commit()
        time.sleep(r.choice([0, 0, 0.02]))
        yes = r.random() < 0.5
        state[key] = "Pyes?" if yes else "Pno?"
        outside(conn, "%s PREPARED '%s'" % ("COMMIT" if yes else "ROLLBACK",
                                            gid_of(key)))
        state[key] = "yes" if yes else "no"

    def reader(self, standby):
        def read(conn, r):
            conn.set_session(isolation_level="REPEATABLE READ")
            with conn.cursor() as cur:
                self.compare(cur, "reader", r.choice(sorted(PLANS)))
                if r.random() < 0.5:
                    time.sleep(r.choice([0.1, 0.5, 1.5]))
                    self.compare(cur, "late reader", r.choice(sorted(PLANS)))
            conn.commit()
            self.reads += 1
            time.sleep(0.1)
        self.guard(read, random.Random(self.random.random()), standby)

    def keeper(self):
        def keep(conn, r):
            conn.autocommit = True
            # freezing beside aborted deletes trips an assertion of core's in
            # 15: it may set all-frozen without all-visible.  TOAST is heap
            with conn.cursor() as cur:
                cur.execute(r.choice(self.lockers.maintenance() + [
                    "CHECKPOINT", "CHECKPOINT", "VACUUM account",
                    "VACUUM receipt", "VACUUM (FREEZE, PROCESS_TOAST off) account",
                    "REINDEX INDEX account_k", "ANALYZE account",
                    "VACUUM FULL account", "CLUSTER account USING account_pkey",
                    "VACUUM (INDEX_CLEANUP off) account",
                    "SELECT pg_switch_wal()"]))
            time.sleep(r.random() * 0.3)
        self.guard(keep, random.Random(self.random.random()))

    # ---- the checks

    def compare(self, cur, who, plan):
        names = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan")
        for name, value in zip(names, PLANS[plan].split(",")):
            cur.execute("SET LOCAL %s = %s" % (name, value))
        cur.execute(TWIN)
        rows = cur.fetchall()
        if rows:
            raise Lost("%s, %s scan: account differs from its twin: %s"
                       % (who, plan, rows))
        cur.execute("SELECT sum(balance) FROM account")
        total = cur.fetchone()[0]
        if total != START * ACCOUNTS:
            raise Lost("%s, %s scan: sum %s" % (who, plan, total))

    def look(self, cur, who):
        for plan in PLANS:
            self.compare(cur, who, plan)
        cur.execute(CHECKS)
        self.no_faults(cur.fetchall(), who)

    def check(self, cycle, last):
        conn = self.node.wait_ready()
        cur = conn.cursor()
        cur.execute("SET statement_timeout = '120s'; SET lock_timeout = 0")
        self.look(cur, "cycle %d" % cycle)
        cur.execute("SELECT client, n FROM receipt")
        present = set(cur.fetchall())
        cur.execute("SELECT count(*) FROM receipt WHERE md5(payload) <> md5")
        if cur.fetchone()[0]:
            raise Lost("a receipt's payload differs from its hash")
        cur.execute("SELECT gid FROM pg_prepared_xacts")
        gids = {g for g, in cur.fetchall()}
        prepared = {tuple(map(int, g.split("_")[1:])) for g in gids if g[0] == "t"}
        self.ledger.settle(present, prepared)
        conn.commit()
        self.lockers.check(conn, {g for g in gids if g[0] == "l"})
        self.copies.check(conn)
        conn.autocommit = True
        if last:
            self.lockers.end(cur)
            self.copies.end(cur)
        for key in sorted(prepared):
            if last or self.random.random() < 0.7:
                cur.execute("%s PREPARED '%s'" % (
                    self.random.choice(["COMMIT", "ROLLBACK"]), gid_of(key)))
                del self.ledger.state[key]
        # what a prepared one still holds can't be deleted, nor is it seen
        cur.execute("DELETE FROM receipt")
        if last:
            self.drained(cur)
            cur.execute("VACUUM account, receipt")
            cur.execute(CHECKS.split("$$;")[1])
            self.no_faults(cur.fetchall(), "the end")
        conn.close()

    def no_faults(self, rows, when):
        if rows:
            raise Lost("%s: %s" % (when, rows[:6]))

    def drained(self, cur):
        for _ in range(600):
            cur.execute("SELECT pg_zheap_undo_size() = 0 AND u = h "
                        "FROM zheap_horizons()")
            if cur.fetchone()[0]:
                return
            time.sleep(0.05)
        raise Lost("undo is never drained")

    def check_log(self, node):
        faults = node.log_faults()
        if faults:
            raise Lost("log of %s: %s" % (node.name, "\n".join(faults[:8])))

    # ---- cycles

    def load(self):
        self.stop.clear()
        threads = [threading.Thread(target=self.client, args=(i,))
                   for i in range(self.args.clients)]
        threads.append(threading.Thread(target=self.reader, args=(False,)))
        threads.append(threading.Thread(target=self.keeper))
        for work in self.lockers.works() + self.copies.works():
            threads.append(threading.Thread(target=self.guard, args=(
                work, random.Random(self.random.random()))))
        if self.other is not None:
            threads.append(threading.Thread(target=self.reader, args=(True,)))
        for t in threads:
            t.start()
        self.stop.wait(self.random.uniform(0.3, 1.7) * self.args.seconds)
        self.node.kill()
        self.kills += 1
        self.stop.set()
        for t in threads:
            t.join()
        if self.failures:
            raise Lost("; ".join(self.failures[:5]))

    def restart(self):
        """Start after a kill, sometimes killed again on the way."""
        self.check_log(self.node)
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2])):
            self.launch()
            time.sleep(self.random.uniform(0.02, 0.8))
            self.node.kill()
            self.kills += 1
            self.check_log(self.node)
        self.launch()

    def launch(self):
        """Start a killed server, with other settings."""
        self.write_settings(self.node)
        remove_future_two_phase(self.node)
        self.node.launch()

    def fail_over(self):
        """The standby takes over; returns when it accepts writes."""
        old = self.node
        self.check_log(old)
        self.node, self.other = self.other, old
        # its synchronous_standby_names is empty already; a query on a standby
        # may be cancelled, this one too
        self.until("SELECT pg_promote(false)", "promotion isn't accepted")
        self.until("SELECT NOT pg_is_in_recovery()", "promotion doesn't end")

    def until(self, sql, otherwise):
        for _ in range(1200):
            try:
                conn = self.node.wait_ready()
                conn.autocommit = True
                cur = conn.cursor()
                cur.execute(sql)
                done = cur.fetchone()[0]
                conn.close()
                if done:
                    return
            except psycopg2.Error as e:
                if e.pgcode not in EXPECTED:
                    raise
            time.sleep(0.05)
        raise Lost(otherwise)

    def rebuild(self, rewind):
        """Make self.other a standby of self.node again."""
        node, other = self.node, self.other
        if rewind:
            conn = node.wait_ready()
            conn.autocommit = True
            conn.cursor().execute("CHECKPOINT")  # pg_rewind of 15 needs it
            conn.close()
            remove_future_two_phase(other)  # pg_rewind starts it
            other.tool("pg_rewind", "-D", other.data,
                       "--source-server=" + node.dsn())
            self.rewinds += 1
        else:
            shutil.rmtree(other.data, ignore_errors=True)
            other.tool("pg_basebackup", "-D", other.data, "-c", "fast",
                       "-d", node.dsn())
        remove_future_two_phase(other)
        self.write_settings(other, source=node)
        with open(os.path.join(other.data, "standby.signal"), "w"):
            pass
        other.launch()
        other.wait_ready().close()
        conn = node.wait_ready()
        conn.autocommit = True
        cur = conn.cursor()
        with open(os.path.join(node.data, "torture.conf"), "a") as f:
            f.write("synchronous_standby_names = '*'\n")
        cur.execute("SELECT pg_reload_conf()")
        for _ in range(1200):
            cur.execute("SELECT count(*) FROM pg_stat_replication "
                        "WHERE sync_state = 'sync' AND state = 'streaming'")
            if cur.fetchone()[0] == 1:
                break
            time.sleep(0.05)
        else:
            raise Lost("the standby doesn't stream:\n" + other.log_tail(10))
        conn.close()

    def run(self):
        args = self.args
        self.node.init("include 'torture.conf'\n")
        self.write_settings(self.node)
        self.node.start()
        conn = psycopg2.connect(self.node.dsn())
        conn.cursor().execute(SCHEMA)
        self.lockers.create(conn.cursor())
        conn.commit()
        self.copies.create(conn, SCHEMA)
        conn.close()
        if args.standby:
            self.rebuild(rewind=False)
        for cycle in range(1, args.cycles + 1):
            begin, commits = time.time(), self.commits
            self.load()
            if args.standby:
                self.fail_over()
            else:
                self.restart()
            self.check(cycle, cycle == args.cycles)
            self.check_log(self.node)
            if args.standby and cycle < args.cycles:
                self.rebuild(self.random.random() < 0.6)
            print("cycle %d ok: %d commits acknowledged%s%s, %.1f s" % (
                cycle, self.commits - commits, self.lockers, self.copies,
                time.time() - begin), flush=True)
        self.node.stop()
        self.check_log(self.node)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--cycles", type=int, default=10)
    ap.add_argument("--seed", type=int, default=None)
    ap.add_argument("--seconds", type=float, default=2.0,
                    help="mean time of load in a cycle")
    ap.add_argument("--clients", type=int, default=5)
    ap.add_argument("--standby", action="store_true")
    ap.add_argument("--keyed", action="store_true",
                    help="half of the changes are of an indexed column, in place")
    ap.add_argument("--lockers", type=int, default=0,
                    help="so many prepared transactions that lock rows")
    ap.add_argument("--copies", type=int, default=0,
                    help="so many copies of a database that is used")
    ap.add_argument("--keep", action="store_true")
    args = ap.parse_args()
    become_ordinary(__file__)
    if args.seed is None:
        args.seed = int(time.time())
    print("seed %d" % args.seed, flush=True)
    torture = Torture(args)
    ok = False
    try:
        torture.run()
        ok = True
    except Exception as e:
        print("FAILED: %s: %s" % (type(e).__name__, e))
        if not isinstance(e, Lost):
            traceback.print_exc(file=sys.stdout)
        for node in (torture.node, torture.other):
            if node is not None:
                print("--- log of %s\n%s" % (node.name, node.log_tail(25)))
    finally:
        torture.stop.set()
        if torture.other is not None:
            torture.other.drop(keep=True) if args.keep and not ok else \
                torture.other.kill()
        torture.node.drop(args.keep and not ok)
        if not args.keep or ok:
            shutil.rmtree(torture.node.root, ignore_errors=True)
    print("%s: %d kills, %d commits acknowledged, %d twin comparisons by "
          "readers, %d rewinds" % (
              "passed" if ok else "FAILED", torture.kills, torture.commits,
              torture.reads, torture.rewinds))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
