#!/usr/bin/python3
"""Pipelines of the extended protocol, on zheap and on heap.

Statements are sent with parameters and without a look at their answers; what comes
between two Syncs is one transaction if nothing else opens one.  Two sessions take turns,
each with a twin on heap: one may leave its transaction open over a Sync, so that the other
meets its locks.  What every statement answered (rows, counts, SQLSTATE; those behind an
error are left out by the server), and after each pair of turns all rows, must be the
same on both sides.

usage: pipelines.py --bindir DIR [--seeds FIRST-LAST] [--steps N] [--am heap]

--steps: turns of a seed.  --am heap compares heap with heap: that tests the test.
"""
import argparse
import ctypes
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from throwaway import Cluster, Difference, become_ordinary, play_history, play_seeds  # noqa: E402

SETTINGS = """
fsync = off
autovacuum = off
lock_timeout = 200ms
enable_seqscan = off
zheap.discard_naptime = 20
log_min_error_statement = panic
client_min_messages = error
"""
ROWS = 40
COMMAND_OK, TUPLES_OK, FATAL_ERROR = 1, 2, 7
SQLSTATE = ord("C")
IDLE, FAILED = 0, 3     # of a transaction
# heap waits in FOR KEY SHARE of an old version whatever it is told; zheap has none
MODES = ("UPDATE", "NO KEY UPDATE", "SHARE")


def load_libpq(bindir):
    path = os.path.join(bindir, "..", "lib", "libpq.so.5")
    pq = ctypes.CDLL(path if os.path.exists(path) else "libpq.so.5")
    for name in ("PQconnectdb", "PQgetResult", "PQexec"):
        getattr(pq, name).restype = ctypes.c_void_p
    for name in ("PQgetvalue", "PQresultErrorField", "PQcmdTuples", "PQerrorMessage"):
        getattr(pq, name).restype = ctypes.c_char_p
    return pq


class Session:
    def __init__(self, pq, dsn):
        self.pq = pq
        self.conn = ctypes.c_void_p(pq.PQconnectdb(dsn.encode()))
        if pq.PQstatus(self.conn) != 0:
            raise RuntimeError(pq.PQerrorMessage(self.conn).decode())

    def close(self):
        self.pq.PQfinish(self.conn)

    def answer(self, result):
        """(status, SQLSTATE or count, sorted rows) of a result, which ends here."""
        pq, result = self.pq, ctypes.c_void_p(result)
        status = pq.PQresultStatus(result)
        rows = [tuple(None if pq.PQgetisnull(result, i, j) else pq.PQgetvalue(result, i, j)
                      for j in range(pq.PQnfields(result)))
                for i in range(pq.PQntuples(result))]
        state = pq.PQresultErrorField(result, SQLSTATE) or pq.PQcmdTuples(result)
        pq.PQclear(result)
        return status, state.decode(), sorted(rows, key=str)

    def execute(self, sql):
        answer = self.answer(self.pq.PQexec(self.conn, sql.encode()))
        if answer[0] not in (COMMAND_OK, TUPLES_OK):
            raise RuntimeError("%s: %s" % (sql[:200], self.pq.PQerrorMessage(self.conn)))
        return answer

    def pipeline(self, batch):
        """The answers of a batch of (sql, parameters); None stands for a Sync."""
        pq, conn, answers = self.pq, self.conn, []
        done = pq.PQenterPipelineMode(conn)
        for step in batch:
            if step is None:
                done &= pq.PQpipelineSync(conn)
                continue
            sql, values = step
            array = (ctypes.c_char_p * len(values))(*(str(v).encode() for v in values))
            done &= pq.PQsendQueryParams(conn, sql.encode(), len(values), None, array, None, None, 0)
        if not done:
            raise RuntimeError(pq.PQerrorMessage(conn).decode())
        for step in batch:
            result = pq.PQgetResult(conn)
            if not result:
                raise Difference("no answer: %s" % pq.PQerrorMessage(conn).decode())
            answers.append(self.answer(result))
            if step is not None and pq.PQgetResult(conn):
                raise Difference("two answers: %s" % (step,))
        if not pq.PQexitPipelineMode(conn):
            raise RuntimeError(pq.PQerrorMessage(conn).decode())
        return answers


class History:
    def __init__(self, pq, node, seed, args):
        self.r = random.Random(seed)
        self.args = args
        self.done = []
        self.node = node
        self.codes = {}
        self.statements = 0
        self.new = ROWS
        self.admin = Session(pq, node.dsn())
        for side, am in ("h", "heap"), ("z", args.am):
            self.admin.execute("DROP TABLE IF EXISTS %s; CREATE TABLE %s (id int PRIMARY KEY, k int UNIQUE, v int, t text) "
                               "USING %s WITH (fillfactor = %d)" % (side, side, am, self.r.choice([50, 100])))
            self.admin.execute("INSERT INTO %s SELECT g, g, 0, repeat('x', g * 7) FROM generate_series(1, %d) g" % (side, ROWS))
        self.sessions = [[Session(pq, node.dsn()) for _ in "hz"] for _ in range(2)]

    def close(self):
        for s in [self.admin] + sum(self.sessions, []):
            s.close()

    def text(self):
        """Long ones of several kinds: in line, compressed, out of line."""
        r = self.r
        return r.choice(["", "s" * r.randrange(90), "c" * 9000,
                         "".join(chr(r.randrange(97, 123)) for _ in range(r.choice([1900, 5000])))])

    def statement(self):
        r, a, b = self.r, self.r.randrange(1, ROWS + 1), self.r.randrange(1, ROWS + 1)
        self.new += 1
        return r.choice([
            lambda: ("UPDATE %T SET v = v + $1 WHERE id = $2 RETURNING v, md5(t)", (r.randrange(9), a)),
            lambda: ("UPDATE %T SET v = v + 1 WHERE id BETWEEN $1 AND $2", (a, a + r.randrange(8))),
            lambda: ("UPDATE %T SET t = $1 WHERE id = $2 RETURNING length(t)", (self.text(), a)),
            lambda: ("UPDATE %T SET k = k + $1 WHERE id = $2", (r.choice([0, 1, 1000]), a)),
            lambda: ("UPDATE %T SET v = 10 / $1 WHERE id = $2", (r.choice([0, 1, 2, 5]), a)),
            lambda: ("DELETE FROM %T WHERE id = $1 RETURNING v, k", (a,)),
            lambda: ("INSERT INTO %T VALUES ($1, $2, 1, $3) RETURNING v", (a, self.new, self.text())),
            lambda: ("INSERT INTO %T VALUES ($1, $2, 1, $3) ON CONFLICT (id) DO UPDATE SET v = %T.v + 100, t = excluded.t RETURNING v",
                     (a, self.new, self.text())),
            lambda: ("SELECT id, v, k, md5(t) FROM %T WHERE id BETWEEN $1 AND $2", (min(a, b), max(a, b))),
            lambda: ("SELECT id, v FROM %T WHERE id = $1 FOR " + r.choice(MODES) + r.choice(["", " NOWAIT", " SKIP LOCKED"]), (a,)),
            lambda: ("WITH x AS (DELETE FROM %T WHERE id = $1 RETURNING *) INSERT INTO %T SELECT $2, k, v, t FROM x", (a, a + 1000)),
        ])()

    def batch(self, n):
        """A turn of session n: ends with a Sync, its transaction ended or not."""
        r, batch = self.r, []
        if self.state(n) == FAILED:
            batch.append(("ROLLBACK TO p", ()) if r.random() < 0.5 else ("ROLLBACK", ()))
        opened = self.state(n) != IDLE and batch != [("ROLLBACK", ())]
        for _ in range(r.randrange(1, 5)):
            if not opened and r.random() < 0.4:
                batch.append(("BEGIN", ()))
                opened = True
            for _ in range(r.randrange(1, 6)):
                batch.append(self.statement())
                if opened and r.random() < 0.25:
                    batch.append((r.choice(["SAVEPOINT p", "SAVEPOINT p", "ROLLBACK TO p", "RELEASE p"]), ()))
            if r.random() < 0.5:
                batch.append((r.choice(["COMMIT", "COMMIT", "ROLLBACK"]), ()))
                opened = False
            if r.random() < 0.6:
                batch.append(None)
        return batch if batch[-1] is None else batch + [None]

    def state(self, n):
        heap = self.sessions[n][0]
        return heap.pq.PQtransactionStatus(heap.conn)

    def compare(self, what, heap, zheap):
        if heap != zheap:
            raise Difference("%s\nheap  %s\nzheap %s" % (what, str(heap)[:1500], str(zheap)[:1500]))

    def turn(self, n):
        batch = self.batch(n)
        answers = []
        for side, session in zip("hz", self.sessions[n]):
            answers.append(session.pipeline([x and (x[0].replace("%T", side), x[1]) for x in batch]))
        for step, heap, zheap in zip(batch, *answers):
            self.done.append("%d: %s -> %s" % (n, str(step)[:150], str(zheap)[:80]))
            self.compare("session %d: %s" % (n, step), heap, zheap)
            if heap[0] == FATAL_ERROR:
                self.codes[heap[1]] = self.codes.get(heap[1], 0) + 1
        self.statements += len(batch)

    def play(self):
        try:
            self.turns()
        finally:
            self.close()

    def turns(self):
        for step in range(self.args.steps):
            self.turn(0)
            self.turn(1)
            if step % 10 == 9:
                for s in sum(self.sessions, []):
                    s.execute("ROLLBACK")
            self.compare("all rows", *[self.admin.execute("SELECT id, k, v, md5(t) FROM " + side) for side in "hz"])
        for s in sum(self.sessions, []):
            s.execute("ROLLBACK")
        if self.args.am == "zheap":
            found = self.admin.execute("SELECT * FROM zheap_check('z')")[2]
            if found:
                raise Difference("zheap_check(): %s" % found)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-10")
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--am", default="zheap", help="heap: tests the test itself")
    args = ap.parse_args()
    become_ordinary(__file__)
    pq = load_libpq(args.bindir)
    node = Cluster(args.bindir)
    node.init(SETTINGS)
    node.start()
    admin = Session(pq, node.dsn())
    admin.execute("CREATE EXTENSION zheap_am")
    admin.close()

    def play(seed):
        history = History(pq, node, seed, args)
        return play_history(history, seed, lambda: "%d statements, errors %s" % (
            history.statements, " ".join("%s:%d" % x for x in sorted(history.codes.items()))), 60)

    try:
        sys.exit(play_seeds(args.seeds, play))
    finally:
        node.drop()


if __name__ == "__main__":
    main()
