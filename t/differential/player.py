"""Plays statements of several sessions on two databases and compares.

One side's tables are the subject's, the other's are heap.  A step is
(session, sql): it is sent to both sides, and the player waits until on each
side every session has answered or waits for a lock.  Then both sides must
agree: who answered, SQLSTATE, constraint, row count, rows (as a multiset where
the step doesn't order them).

What makes that sound:
  - at most one session waits at a time; a second one that blocks is cancelled
    on both sides, so nothing depends on the order in which waiters wake;
  - SERIALIZABLE may fail for "read/write dependencies" on one side only, since
    each side has false positives of its own (heap's updates insert into index
    pages that somebody read; zheap locks rows that heap doesn't).  Then the
    transaction is rolled back on the other side too.  Such transactions commit
    by PREPARE and COMMIT PREPARED, so that both sides know before either
    commits.  So this test doesn't find missed conflicts; specs do.
  - sessions plan alike: settings leave little choice (generator.py), and a
    range that would be changed or locked by different plans is left out.
"""
import itertools
import re
import select
import time

import psycopg2
from psycopg2 import extensions

INTRANS = extensions.TRANSACTION_STATUS_INTRANS
POLL = 0.002
LOOK = 0.012		# then ask the monitor who waits
GRACE = 3.0		# for a statement with a lock_timeout of its own
PATIENCE = 4.0		# for a side that waits where the other doesn't
HANG = 300.0		# the machine may be busy


class Difference(Exception):
    """The two sides disagree."""


class Outcome:
    """What a statement answered."""

    def __init__(self, code=None, constraint=None, count=None, rows=None,
                 message=""):
        self.code, self.constraint = code, constraint
        self.count, self.rows, self.message = count, rows, message

    def is_ssi(self):
        return self.code == "40001" and "read/write dependencies" in self.message

    def key(self, ordered):
        rows = self.rows
        if rows is not None and not ordered:
            rows = sorted(rows, key=repr)
        elif rows is not None:
            # by the first column; a snapshot may see a row that others deleted
            # and one that its own transaction has inserted in its place
            rows = [x for _, same in itertools.groupby(rows, key=lambda x: x[0])
                    for x in sorted(same, key=repr)]
        return (self.code, self.constraint, self.count, rows)

    def __str__(self):
        if self.code:
            return "error %s %s: %s" % (self.code, self.constraint or "",
                                        self.message.strip()[:400])
        text = "%s rows" % self.count
        if self.rows is not None:
            text += ": " + repr(self.rows)[:1500]
        return text


class Link:
    """An asynchronous connection of one session to one side."""

    def __init__(self, dsn):
        self.conn = psycopg2.connect(dsn, async_=1)
        self.cur = None
        self.busy = False
        self.outcome = None
        self.wait_poll()
        self.pid = self.conn.get_backend_pid()

    def wait_poll(self):
        end = time.time() + HANG
        while True:
            state = self.conn.poll()
            if state == extensions.POLL_OK:
                return
            fd = self.conn.fileno()
            if state == extensions.POLL_READ:
                select.select([fd], [], [], 1)
            else:
                select.select([], [fd], [], 1)
            if time.time() > end:
                raise Difference("a connection isn't answered")

    def send(self, sql):
        self.cur = self.conn.cursor()
        self.busy = True
        self.outcome = None
        self.cur.execute(sql)

    def poll(self):
        """True if the answer came (just now or before)."""
        if not self.busy:
            return True
        try:
            if self.conn.poll() != extensions.POLL_OK:
                return False
            rows = self.cur.fetchall() if self.cur.description else None
            self.outcome = Outcome(count=self.cur.rowcount, rows=rows)
        except psycopg2.Error as e:
            if e.pgcode is None:
                raise Difference("connection lost: %s" % e)
            self.outcome = Outcome(e.pgcode, e.diag.constraint_name,
                                   message=str(e))
        self.busy = False
        return True

    def run(self, sql):
        self.send(sql)
        end = time.time() + HANG
        while not self.poll():
            select.select([self.conn.fileno()], [], [], 0.05)
            if time.time() > end:
                raise Difference("no answer to: " + sql)
        return self.outcome

    def status(self):
        return self.conn.get_transaction_status()


class Side:
    def __init__(self, name, dsn, nsessions):
        self.name = name
        self.links = [Link(dsn) for _ in range(nsessions)]
        self.monitor = Link(dsn)

    def waiting(self):
        """The busy sessions that wait for a lock."""
        busy = {x.pid: i for i, x in enumerate(self.links) if x.busy}
        if not busy:
            return set()
        answer = self.monitor.run(
            "SELECT pid FROM pg_stat_activity WHERE pid IN (%s) AND "
            "wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0"
            % ",".join(map(str, busy)))
        return {busy[p] for p, in answer.rows}

    def why(self):
        answer = self.monitor.run(
            "SELECT pid, pg_blocking_pids(pid), wait_event_type, wait_event, "
            "state, left(query, 120) FROM pg_stat_activity "
            "WHERE datname = current_database()")
        names = {x.pid: "s%d" % i for i, x in enumerate(self.links)}
        return "\n".join("    %s %s blocked by %s, waits for %s %s, %s: %s" % (
            self.name, names.get(p, p), [names.get(b, b) for b in by], t, e, st, q)
            for p, by, t, e, st, q in answer.rows if p in names)

    def close(self):
        for link in self.links + [self.monitor]:
            try:
                link.conn.close()
            except psycopg2.Error:
                pass


class Player:
    def __init__(self, dsns, nsessions, keeper):
        self.keeper = keeper		# a session with lock_timeout set
        self.sides = [Side(name, dsn, nsessions) for name, dsn in dsns]
        self.timed = None			# session whose statement has a lock_timeout
        self.verbose = False
        self.waiter = None			# session that waits on both sides
        self.serializable = [False] * nsessions
        self.ordered = [True] * nsessions
        self.sent = [""] * nsessions
        self.ends = self.skipped = self.one_sided = self.cancels = 0
        self.played = []			# steps, as they were sent
        self.codes = {}				# SQLSTATE -> how often
        self.outcomes = {}			# session -> last outcome

    def close(self):
        for side in self.sides:
            side.close()

    def setup(self, sqls):
        for side in self.sides:
            for sql in sqls:
                for part in sql.split(";;"):
                    got = side.monitor.run(part.replace("@SIDE@", side.name))
                    if got.code:
                        raise RuntimeError("setup of %s: %s\n%s" % (
                            side.name, got, part))

    # ---- waiting

    def settle(self):
        """Until each busy session has answered or waits.  Returns for each
        side the sessions that wait; they may differ."""
        begin = time.time()
        look = begin + LOOK
        before = None
        while True:
            fds = []
            for side in self.sides:
                for link in side.links:
                    if link.busy and not link.poll():
                        fds.append(link.conn.fileno())
            if not fds:
                return [set(), set()]
            select.select(fds, [], [], POLL)
            now = time.time()
            if now < look or (now < begin + GRACE and self.runs_into_timeout()):
                continue
            look = now + LOOK
            waits = [side.waiting() for side in self.sides]
            busy = [{i for i, x in enumerate(side.links) if x.busy}
                    for side in self.sides]
            if waits == busy:
                if before == waits and (waits[0] == waits[1]
                                        or now - begin > PATIENCE):
                    return waits
                before = waits
            else:
                before = None
            if now - begin > HANG:
                raise Difference("a statement neither ends nor waits:\n"
                                 + "\n".join(s.why() for s in self.sides))

    def runs_into_timeout(self):
        return self.timed is not None and any(
            side.links[self.timed].busy for side in self.sides)

    def cancel(self, side, session):
        side.monitor.run("SELECT pg_cancel_backend(%d)" % side.links[session].pid)

    def both_roll_back(self, session, stepped):
        """A failure that only SERIALIZABLE explains: end it on both sides."""
        for side in self.sides:
            link = side.links[session]
            if link.busy:
                self.cancel(side, session)
        self.settle()
        for side in self.sides:
            link = side.links[session]
            prepared = re.match("PREPARE TRANSACTION ('.*')", self.sent[session])
            if prepared and link.outcome is not None and not link.outcome.code:
                link.run("ROLLBACK PREPARED " + prepared[1].replace("@SIDE@", side.name))
            link.run("ROLLBACK")
        self.serializable[session] = False
        self.one_sided += 1
        if self.waiter == session:
            self.waiter = None
        self.follow_up(None if stepped == session else stepped)

    def plans_differ(self, sql):
        """Would a range of rows be visited by another index?  The monitor asks,
        so that no transaction notices."""
        if not re.match("(SELECT.* FOR |UPDATE|DELETE|WITH).*BETWEEN", sql, re.S):
            return False
        a, b = (side.monitor.run("EXPLAIN (COSTS off) " + sql)
                for side in self.sides)
        return a.code is None and b.code is None and a.rows != b.rows

    # ---- a step

    def may_step(self, session):
        return self.waiter != session

    def step(self, session, sql, ordered=False):
        if not self.may_step(session):
            self.skipped += 1
            return
        if self.plans_differ(sql):
            self.skipped += 1
            return
        self.played.append((session, sql, ordered))
        self.ordered[session] = ordered
        self.sent[session] = sql
        self.timed = None
        if session == self.keeper or re.match("SET (LOCAL )?lock_timeout", sql):
            self.timed = session
        if re.match("BEGIN.*SERIALIZABLE", sql):
            self.serializable[session] = True
        if self.serializable[session] and re.match("COMMIT", sql):
            self.end_serializable(session)
        else:
            self.send(session, sql)
            self.follow_up(session)
        if re.match("COMMIT|ROLLBACK$|PREPARE T", sql):
            self.serializable[session] = False

    def send(self, session, sql):
        for side in self.sides:
            side.links[session].send(sql.replace("@SIDE@", side.name))

    def end_serializable(self, session):
        """COMMIT in two phases, so that one side's failure ends both."""
        if self.sides[0].links[session].status() != INTRANS:
            self.send(session, "COMMIT")
            return self.follow_up(session)
        self.ends += 1
        self.send(session, "PREPARE TRANSACTION 'end %d @SIDE@'" % self.ends)
        self.settle()
        done = [side.links[session].outcome for side in self.sides]
        if any(x is None or (x.code and not x.is_ssi()) for x in done):
            raise Difference("s%d: COMMIT of SERIALIZABLE: %s; %s" % (
                session, done[0], done[1]))
        self.codes[done[1].code] = self.codes.get(done[1].code, 0) + 1
        if done[0].code or done[1].code:
            self.one_sided += bool(done[0].code) != bool(done[1].code)
        end = "ROLLBACK" if done[0].code or done[1].code else "COMMIT"
        for side, outcome in zip(self.sides, done):
            if not outcome.code:
                side.links[session].send("%s PREPARED 'end %d %s'" % (
                    end, self.ends, side.name))
        self.follow_up(None)
        for side in self.sides:
            outcome = side.links[session].outcome
            if outcome.code and not outcome.is_ssi():
                raise Difference("s%d: %s PREPARED: %s: %s" % (
                    session, end, side.name, outcome))
        return None

    def follow_up(self, stepped):
        """Settle, compare who answered, see to those who wait."""
        asked = {s for s in (stepped, self.waiter) if s is not None}
        waits = self.settle()
        for session in sorted(asked):
            if self.failed_alone(session) or self.waits_for_the_rest(session, stepped):
                self.both_roll_back(session, stepped)
                return
        if waits[0] != waits[1]:
            raise Difference("the sides block unlike: %s; %s\n%s\n%s" % (
                self.describe(0, waits), self.describe(1, waits),
                self.sides[0].why(), self.sides[1].why()))
        for session in sorted(asked - waits[0]):
            if self.waiter == session:
                self.waiter = None
            self.compare(session)
        if len(waits[0]) > 1:
            # the newer one is cancelled, on both sides
            self.cancels += 1
            for side in self.sides:
                self.cancel(side, stepped)
            self.follow_up(stepped)
        elif waits[0]:
            self.waiter = next(iter(waits[0]))

    def failed_alone(self, session):
        """Did SERIALIZABLE fail it on one side only?"""
        a, b = (side.links[session].outcome for side in self.sides)
        if self.heap_waits_all_the_same(session):
            return True
        return self.serializable[session] and \
            (a is not None and a.is_ssi()) != (b is not None and b.is_ssi())

    def heap_waits_all_the_same(self, session):
        """Heap waits where the outcome is certain, zheap does not:
          - for who locked a row FOR KEY SHARE before an update that has committed
            since, though one snapshot for all statements then means 40001
            (specs/outdated_nowait)
            (with NOWAIT: fails otherwise)
          - in FOR KEY SHARE NOWAIT or SKIP LOCKED of an older version of a row
            whose newest one is being deleted: heap locks the newer ones too, and
            waits for each (heap_lock_updated_tuple; specs/move_locks)."""
        a, b = (side.links[session].outcome for side in self.sides)
        if a is not None and b is not None and "NOWAIT" in self.sent[session] and \
                a.code == "40001" and "concurrent update" in a.message:
            return b.code == "55P03"
        if a is None or not self.sides[1].links[session].busy:
            return False
        policy = re.search("FOR KEY SHARE (NOWAIT|SKIP LOCKED)", self.sent[session])
        return (a.code == "40001" and "concurrent update" in a.message) or (
            policy is not None and
            a.code == ("55P03" if policy[1] == "NOWAIT" else None))

    def waits_for_the_rest(self, session, stepped):
        """Who waits for a subtransaction that was released waits for its top
        transaction, though that goes back behind the change.  For which one a side
        waits depends on the version that it has found: heap for the first to change
        the row, zheap for the last."""
        return stepped not in (None, session) and \
            self.sent[stepped].startswith("ROLLBACK TO") and \
            any(one.links[session].outcome is not None and other.links[session].busy
                for one, other in (self.sides, self.sides[::-1]))

    def describe(self, n, waits):
        side = self.sides[n]
        text = []
        for s in sorted(waits[0] | waits[1]):
            link = side.links[s]
            text.append("s%d %s" % (s, "waits" if link.busy else
                                    "answered " + str(link.outcome)))
        return side.name + ": " + ", ".join(text)

    def compare(self, session):
        a, b = (side.links[session].outcome for side in self.sides)
        self.outcomes[session] = b
        if self.verbose:
            print("    s%d: %s" % (session, str(b)[:160]), flush=True)
        self.codes[b.code] = self.codes.get(b.code, 0) + 1
        ordered = self.ordered[session]
        ka, kb = a.key(ordered), b.key(ordered)
        if ka != kb:
            text = "s%d: %s: %s\n  %s: %s" % (session, self.sides[0].name, a,
                                              self.sides[1].name, b)
            if a.rows is not None and b.rows is not None:
                sa, sb = set(map(repr, a.rows)), set(map(repr, b.rows))
                text = "s%d: rows differ; only %s: %s; only %s: %s; counts %s %s" % (
                    session, self.sides[0].name, sorted(sa - sb)[:6],
                    self.sides[1].name, sorted(sb - sa)[:6], len(a.rows),
                    len(b.rows))
            raise Difference(text)
        if self.sides[0].links[session].status() != \
                self.sides[1].links[session].status():
            raise Difference("s%d: transaction states differ" % session)

    def status(self, session):
        return self.sides[0].links[session].status()

    def settle_down(self):
        """End everything: cancel who waits, roll back, end what is prepared."""
        if self.waiter is not None:
            w = self.waiter
            for side in self.sides:
                self.cancel(side, w)
            self.follow_up(w)
        for s in range(len(self.serializable)):
            if self.status(s) != extensions.TRANSACTION_STATUS_IDLE:
                self.step(s, "ROLLBACK")
        for side in self.sides:
            got = side.monitor.run("SELECT gid FROM pg_prepared_xacts "
                                   "WHERE database = current_database()")
            for gid, in got.rows:
                side.monitor.run("COMMIT PREPARED '%s'" % gid)
