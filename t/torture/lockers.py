"""Prepared transactions that lock rows of a crowded page (torture.py --lockers)."""
import psycopg2

from rules import Lost, outside

PARENTS = 150	# rows below UPDATED are updated, and locked FOR KEY SHARE only
UPDATED = 90
# two of them exclude each other if their places add up to 3 or more
MODES = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")


class Lockers:
    """Who was prepared with which locks, and the updates that were acknowledged."""

    def __init__(self, count):
        self.count = count
        self.held = {}		# gid -> {parent: place in MODES}
        self.maybe = set()	# gids of held: no answer to PREPARE, or to its end
        self.updates = [0, 0]	# acknowledged, without an answer
        self.number = 0

    def __str__(self):
        return ", %d prepared lockers beside %d updates" % (
            len(self.held), self.updates[0]) if self.count else ""

    def create(self, cur):
        cur.execute("CREATE TABLE parent (id int PRIMARY KEY, n int NOT NULL) "
                    "USING zheap; INSERT INTO parent SELECT g, 0 "
                    "FROM generate_series(1, %s) g", (PARENTS,))

    def works(self):
        return [self.prepare, self.update, self.update] if self.count else []

    def maintenance(self):
        return ["VACUUM parent", "VACUUM (FREEZE) parent"] if self.count else []

    def grants(self, parent, mode):
        return all(locks[parent] + mode < 3
                   for locks in self.held.values() if parent in locks)

    def prepare(self, conn, r):
        """End one prepared locker, or prepare one more."""
        if len(self.held) >= self.count:
            gid = r.choice(sorted(self.held))
            self.maybe.add(gid)
            outside(conn, "%s PREPARED '%s'" % (
                r.choice(["COMMIT", "ROLLBACK"]), gid))
            del self.held[gid]
            self.maybe.discard(gid)
            return
        self.number += 1
        gid, locks, cur = "l_%d" % self.number, {}, conn.cursor()
        for parent in r.sample(range(1, PARENTS + 1), r.choice([1, 1, 2, 5])):
            mode = 0 if parent < UPDATED else r.choice([0, 0, 0, 1, 1, 2, 3])
            if not self.grants(parent, mode):
                continue
            if r.random() < 0.2:
                cur.execute("SAVEPOINT s")
            cur.execute("SELECT FROM parent WHERE id = %%s FOR %s" % MODES[mode],
                        (parent,))
            locks[parent] = mode
        self.held[gid] = locks
        self.maybe.add(gid)
        try:
            cur.execute("PREPARE TRANSACTION %s", (gid,))
        except psycopg2.Error as e:
            if e.pgcode is not None:	# an answer: it was rolled back
                del self.held[gid]
                self.maybe.discard(gid)
            raise
        self.maybe.discard(gid)
        conn.commit()

    def update(self, conn, r):
        cur = conn.cursor()
        n = 0
        for _ in range(r.choice([1, 2, 6])):
            cur.execute("SAVEPOINT s")
            cur.execute("SELECT FROM parent WHERE id = %s FOR KEY SHARE",
                        (r.randrange(1, UPDATED),))
            cur.execute("UPDATE parent SET n = n + 1 WHERE id = %s",
                        (r.randrange(1, UPDATED),))
            if r.random() < 0.3:
                cur.execute("ROLLBACK TO s")
            else:
                n += 1
        if r.random() < 0.2:
            conn.rollback()
            return
        self.updates[1] += n
        conn.commit()
        self.updates[0] += n
        self.updates[1] -= n

    def check(self, conn, prepared):
        """After a restart, when nobody but the prepared holds a parent."""
        if not self.count:
            return
        gone = set(self.held) - prepared
        if prepared - set(self.held) or gone - self.maybe:
            raise Lost("prepared lockers: %s too many, %s gone" % (
                sorted(prepared - set(self.held))[:5],
                sorted(gone - self.maybe)[:5]))
        for gid in gone:
            del self.held[gid]
        self.maybe.clear()
        cur = conn.cursor()
        cur.execute("SELECT sum(n), count(*) FROM parent")
        total, rows = cur.fetchone()
        low, unknown = self.updates
        if rows != PARENTS or not low <= total <= low + unknown:
            raise Lost("parents: %d rows, sum %d; %d updates were acknowledged, "
                       "%d had no answer" % (rows, total, low, unknown))
        self.updates = [total, 0]
        for parent in range(1, PARENTS + 1):
            for mode, name in enumerate(MODES):
                cur.execute("SAVEPOINT s")
                try:
                    cur.execute("SELECT FROM parent WHERE id = %%s FOR %s NOWAIT"
                                % name, (parent,))
                    granted = True
                except psycopg2.errors.LockNotAvailable:
                    granted = False
                cur.execute("ROLLBACK TO s")
                if granted != self.grants(parent, mode):
                    raise Lost("parent %d: FOR %s is %s" % (
                        parent, name, "granted" if granted else "refused"))
        conn.rollback()

    def end(self, cur):
        for gid in self.held:
            cur.execute("COMMIT PREPARED %s", (gid,))
