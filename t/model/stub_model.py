#!/usr/bin/python3
"""Stubs by exhaustion: every history of one page, up to small bounds.

Transactions change or end rows of a page that has few xact slots, commit or
abort; a change that gets no xact slot ends its row as a stub (Z56: owner and
record in the row itself, old body in undo).  Rollback of the page, freezing,
pruning, shrinking, takeovers and discarding come at any moment; snapshots are
taken at any moment and asked after each step what they see of each row.  The
list of changes of each row is the judge.  Besides, no record that is asked for
may be gone, no row may refer to a FREE xact slot (Z3), and no body may come
back without room (Z7).

usage: stub_model.py [--bounds XACTS,ROWS,SLOTS,CHANGES,SNAPSHOTS] [--mutant NAME]
                     [--quick]

Without --mutant no state may be wrong.  --quick: small bounds, then each mutant,
which must be found out.

Not modelled: subtransactions, row locks, the new place of a row that moves (a
row of its own), WAL.
"""
import argparse
import sys

# what is left out -> the rule that it breaks
MUTANTS = {
    "raw-link": "Z6: a link names the owner on top, running or not",
    "kept-slot": "Z57: a restored row gets the xact slot of then without a look at now",
    "dead-early": "Z59: a stub whose ender committed is dropped without asking the horizon",
    "not-rolled-back": "Z57: a writer doesn't roll back the aborted stub of its own row first",
    "shrunk-early": "Z58: a stub's room is given away while its ender runs",
    "discarded-early": "Z57: discarding doesn't wait for aborted stubs to be rolled back",
    "gone-is-seen": "Z59: a stub whose record is gone counts as a row",
}
BOUNDS = (3, 2, 1, 1, 1)
QUICK = (2, 2, 1, 2, 1)

NONE, FOR = 0, 1
RUN, COM, ABO = 'R', 'C', 'A'
BUGS = set()
NX, NR, NS, NOPS, NSNAP = BOUNDS


class Wrong(Exception):
    pass


# State, all tuples:
# xs: per transaction (fxid, status, ops, applied); fxid 0: none yet
# slots: (fxid, rec, ambiguous); rows: (slot, reused, ended, val, stub, dead,
#   small); stub: (fxid, rec)
# recs: (writer, row, oldval, oldslot, oldreused, kind, link, chain, start,
#   prev); None: discarded.  kind A all-visible, I in chain, L link
# hist: per row ((fxid, val), ...), val None: ended
# snaps: (xmax, running) or None (not taken yet) or 0 (gone)
class S:
    __slots__ = ('xs', 'slots', 'rows', 'recs', 'hist', 'snaps', 'nxt', 'U', 'H')

    def __init__(self, o=None):
        if o is None:
            self.xs = [(0, '-', 0, False)] * NX
            self.slots = [(0, -1, False)] * NS
            self.rows = [(0, NONE, False, 0, None, False, False)] * NR
            self.recs, self.snaps = [], [None] * NSNAP
            self.hist = [((0, 0),)] * NR
            self.nxt, self.U, self.H = 1, 1, 1
        else:
            for a in ('xs', 'slots', 'rows', 'recs', 'hist', 'snaps'):
                setattr(self, a, list(getattr(o, a)))
            self.nxt, self.U, self.H = o.nxt, o.U, o.H

    def key(self):
        return (tuple(self.xs), tuple(self.slots), tuple(self.rows),
                tuple(self.recs), tuple(self.hist), tuple(self.snaps),
                self.nxt, self.U, self.H)

    def status(self, f):
        for x in self.xs:
            if x[0] == f:
                return x[1]
        raise Wrong('unknown fxid %d' % f)

    def horizon(self):
        h = self.nxt
        for f, st, _, _ in self.xs:
            if f and st == RUN:
                h = min(h, f)
        for sn in self.snaps:
            if sn:
                h = min([h, sn[0]] + list(sn[1]))
        return h

    def rec(self, r, f):
        """the record, or None if it is gone as it may be"""
        if r < 0:
            raise Wrong('no record')
        x = self.recs[r]
        if x is None:
            if self.status(f) == COM and f < self.H:
                return None
            raise Wrong('record of %d is missing' % f)
        return x


class Walk:
    def __init__(self, s, row):
        self.s, self.row = s, row
        slot, reused, ended, val, stub, dead, _ = s.rows[row]
        self.ended, self.val, self.reused = ended, val, reused
        self.state, self.skip = 'OWNED', False
        if dead:
            self.state = 'NONE'
        elif stub:
            self.fxid, self.u = stub
            # the body is wanted: no snapshot needs a row whose record is gone
            if self.fxid < s.U or s.rec(self.u, self.fxid) is None:
                self.state = 'SETTLED' if 'gone-is-seen' in BUGS else 'NONE'
        elif slot == 0:
            self.state = 'SETTLED'
        else:
            self.fxid, self.u, amb = s.slots[slot - 1]
            if self.fxid == 0:
                raise Wrong('row in a FREE xact slot')
            self.skip = reused == FOR and not amb

    def find(self):
        while True:
            r = self.s.rec(self.u, self.fxid)
            if r is None:
                return 'GONE'
            if r[1] == self.row:
                self.found = r
                return 'FOUND'
            if r[8]:
                if r[9] == 0:
                    raise Wrong('no record of the row in its chain')
                self.skip = False
                self.fxid, self.u = r[9], r[7]
                return 'OTHER'
            self.u = r[7]

    def back(self):
        (_, _, oldval, _, oldreused, kind, link, chain, start, prev) = self.found
        self.val, self.ended, self.reused = oldval, False, oldreused
        if kind == 'A':
            self.state = 'SETTLED'
        elif kind == 'L':
            self.fxid, self.u = link
            self.skip = False
        else:
            self.skip = oldreused == FOR and not start
            if start:
                self.fxid, self.u = prev, chain
            else:
                self.u = chain


def sees(s, sn, f):
    if f < s.U:
        return True
    return s.status(f) == COM and f < sn[0] and f not in sn[1]


def read(s, sn, row):
    w = Walk(s, row)
    while w.state == 'OWNED':
        if sees(s, sn, w.fxid):
            return None if w.ended else w.val
        f = w.find()
        if f == 'GONE':
            return None if w.ended else w.val
        if f == 'FOUND':
            w.back()
    return (w.val or 0) if w.state == 'SETTLED' else None


def truth(s, sn, row):
    val = 0
    for f, v in s.hist[row]:
        if f == 0 or (s.status(f) == COM and f < sn[0] and f not in sn[1]):
            val = v
    return val


def check(s):
    for sn in s.snaps:
        if sn:
            for row in range(NR):
                a, b = read(s, sn, row), truth(s, sn, row)
                if a != b:
                    raise Wrong('row %d: read %s, should be %s' % (row, a, b))


def has_tenure(s, sid, lf):
    f, u, _ = s.slots[sid - 1]
    while f:
        if f == lf:
            return True
        if f < s.U:
            return False
        while True:
            r = s.rec(u, f)
            if r is None:
                return False
            if r[8]:
                f, u = r[9], r[7]
                break
            u = r[7]
    return False


def restored(s, r, sid):
    """slot and reused of the restored version (Z21)"""
    _, _, _, oldslot, oldreused, kind, link, _, start, _ = r
    if kind == 'I':
        return sid, FOR if start and oldreused == NONE else oldreused
    if kind == 'L':
        if 'kept-slot' in BUGS:
            return oldslot, oldreused
        if link[0] >= s.U and s.slots[oldslot - 1][0]:
            if s.slots[oldslot - 1][0] == link[0]:
                return oldslot, oldreused
            if has_tenure(s, oldslot, link[0]):
                return oldslot, FOR
    return 0, NONE


def put_back(s, r, sid):
    row = s.rows[r[1]]
    if row[6]:
        raise Wrong('no room for the body that comes back')
    slot, reused = restored(s, r, sid)
    s.rows[r[1]] = (slot, reused, False, r[2], None, False, False)


def peel_slots(s):
    for i in range(NS):
        while s.slots[i][0] and s.slots[i][0] >= s.U and \
                s.status(s.slots[i][0]) == ABO:
            f, u, _ = s.slots[i]
            r = s.rec(u, f)
            if s.rows[r[1]][0] != i + 1 or s.rows[r[1]][4]:
                raise Wrong('row %d is not in its xact slot' % r[1])
            # the owner before is looked for below this record
            put_back(s, r, i + 1)
            if not r[8]:
                s.slots[i] = (f, r[7], s.slots[i][2])
            elif r[9] == 0:
                s.slots[i] = (0, -1, False)
            else:
                s.slots[i] = (r[9], r[7], True)


def peel_stub(s, row):
    stub = s.rows[row][4]
    if stub and not s.rows[row][5] and stub[0] >= s.U and \
            s.status(stub[0]) == ABO:
        put_back(s, s.rec(stub[1], stub[0]), 0)


def freeze(s, i):
    s.slots[i] = (0, -1, False)
    for j, r in enumerate(s.rows):
        if r[0] == i + 1 and not r[5] and not r[4]:
            s.rows[j] = (0, NONE, r[2], r[3], None, r[2], False)


def change(s, xi, row, end):
    """all ways in which transaction xi can change the row now"""
    s = S(s)
    f, st, ops, ap = s.xs[xi]
    if f == 0:
        f, st = s.nxt, RUN
        s.nxt += 1
    peel_slots(s)
    if 'not-rolled-back' not in BUGS:
        peel_stub(s, row)
    s.xs[xi] = (f, st, ops + 1, ap)
    w = Walk(s, row)
    while w.state == 'OWNED':
        if w.fxid < s.U or s.status(w.fxid) == COM:
            break
        if 'not-rolled-back' in BUGS and s.status(w.fxid) == ABO:
            break
        if w.find() == 'FOUND':
            if w.found[0] != f:
                return              # waits for the row's writer
            break
    if w.state == 'NONE' or (w.ended and 'not-rolled-back' not in BUGS):
        return
    own = [i for i in range(NS) if s.slots[i][0] == f]
    free = [i for i in range(NS) if s.slots[i][0] == 0]
    com = [i for i in range(NS) if s.slots[i][0] and i not in own and
           (s.slots[i][0] < s.U or s.status(s.slots[i][0]) == COM)]
    h = s.horizon()
    ways = []
    if own:
        ways.append(('own', own[0]))
    elif free:
        ways.append(('free', free[0]))
    elif com:
        for i in com:
            ways.append(('foreign', i))
            if s.slots[i][0] < h:
                ways.append(('frozen', i))
    else:
        ways.append(('stub', -1))
    for how, i in ways:
        yield write(S(s), f, row, end, how, i)


def write(s, f, row, end, how, i):
    chain, start, prev = -1, True, 0
    if how == 'frozen':
        freeze(s, i)
    if how == 'own':
        chain, start = s.slots[i][1], False
    elif how == 'foreign':
        prev, chain = s.slots[i][0], s.slots[i][1]
        for j, r in enumerate(s.rows):
            if r[0] == i + 1 and not r[4]:
                s.rows[j] = (r[0], FOR) + r[2:]
    slot, reused, ended, val, stub, dead, _ = s.rows[row]
    if dead:
        raise Wrong('a dead row is changed')
    link, kind = None, 'A'
    if slot and slot == i + 1:
        kind = 'I'
    elif slot:
        w = Walk(s, row)
        while True:
            if w.fxid < s.U:
                break
            if s.status(w.fxid) == COM or 'raw-link' in BUGS:
                kind, link = 'L', (w.fxid, w.u)
                break
            if w.find() != 'OTHER':
                raise Wrong('running change of a row that is changed')
    rid = len(s.recs)
    newval = f * 10 + sum(1 for q in s.hist[row] if q[0] == f)
    s.recs.append((f, row, val, slot, reused, kind, link, chain, start, prev))
    if how == 'stub':
        small = 'shrunk-early' in BUGS
        s.rows[row] = (0, NONE, True, None, (f, rid), False, small)
        end = True                  # an update moves: the old TID has ended
    else:
        s.slots[i] = (f, rid, s.slots[i][2] if how == 'own' else False)
        s.rows[row] = (i + 1, NONE, end, val if end else newval, None, False,
                       False)
    s.hist[row] = s.hist[row] + ((f, None if end else newval),)
    return s


def steps(s):
    for xi in range(NX):
        f, st, ops, ap = s.xs[xi]
        if st in '-R' and ops < NOPS and (xi == 0 or s.xs[xi - 1][0]):
            for row in range(NR):
                for end in (False, True):
                    yield from change(s, xi, row, end)
        if st == RUN:
            for to in (COM, ABO):
                n = S(s)
                n.xs[xi] = (f, to, ops, ap)
                yield n
    for k in range(NSNAP):
        n = S(s)
        if s.snaps[k] is None and (k == 0 or s.snaps[k - 1] is not None):
            n.snaps[k] = (s.nxt, tuple(x[0] for x in s.xs if x[1] == RUN))
            yield n
        elif s.snaps[k]:
            n.snaps[k] = 0
            yield n
    if any(x[1] == ABO and not x[3] for x in s.xs):
        n = S(s)
        peel_slots(n)
        if 'discarded-early' not in BUGS:
            for row in range(NR):
                peel_stub(n, row)
        n.xs = [(x[0], x[1], x[2], x[3] or x[1] == ABO) for x in n.xs]
        yield n
    h = s.horizon()
    for i in range(NS):
        f = s.slots[i][0]
        if f and f < h and s.status(f) == COM:
            n = S(s)
            freeze(n, i)
            yield n
    for row in range(NR):
        stub = s.rows[row][4]
        if stub and not s.rows[row][5]:
            if s.status(stub[0]) == COM:
                if stub[0] < h or 'dead-early' in BUGS:
                    n = S(s)
                    n.rows[row] = (0, NONE, True, None, None, True, False)
                    yield n
                if not s.rows[row][6]:
                    n = S(s)
                    n.rows[row] = s.rows[row][:6] + (True,)
                    yield n
    u = min([h] + [x[0] for x in s.xs if x[1] == ABO and not x[3]])
    if h > s.H or u > s.U:
        n = S(s)
        n.H, n.U = h, u
        bad = {x[0] for x in s.xs if x[1] == ABO and not x[3]}
        n.recs = [None if r and r[0] < h and r[0] not in bad else r
                  for r in s.recs]
        yield n


def explore(bounds, mutant=None):
    """All histories.  Returns how many states there are, how many of them with
    a stub, and what is wrong, or None."""
    global NX, NR, NS, NOPS, NSNAP, BUGS
    NX, NR, NS, NOPS, NSNAP = bounds
    BUGS = {mutant}
    first = S()
    seen = {first.key()}
    todo = [first]
    stubs = 0
    while todo:
        gen = steps(todo.pop())
        while True:
            try:
                n = next(gen)
                k = n.key()
                if k in seen:
                    continue
                seen.add(k)
                check(n)
            except StopIteration:
                break
            except Wrong as e:
                return len(seen), stubs, '%s: %s' % (e, k)
            stubs += any(r[4] for r in n.rows)
            todo.append(n)
    return len(seen), stubs, None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bounds", default=None)
    ap.add_argument("--mutant", choices=sorted(MUTANTS), default=None)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--bindir", help="not used: as other tests")
    args = ap.parse_args()
    bounds = QUICK if args.quick else BOUNDS
    if args.bounds:
        bounds = tuple(int(x) for x in args.bounds.split(","))
    failed = 0
    runs = [(bounds, args.mutant)]
    if args.quick:
        runs += [(BOUNDS, m) for m in sorted(MUTANTS)]
    for of, mutant in runs:
        states, stubs, wrong = explore(of, mutant)
        well = (wrong is not None) == (mutant is not None)
        failed += not well
        print("%s%s: %d states, %d with a stub: %s" % (
            "" if well else "FAILED ", mutant or "the rules", states, stubs,
            wrong or "all right"), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
