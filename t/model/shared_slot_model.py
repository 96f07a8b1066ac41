#!/usr/bin/python3
"""The shared xact slot by exhaustion: every history of a page or two, small bounds.

Transactions lock rows, or end them, through one shared xact slot {M, ENDS, head}:
a chain of undo records of many writers, any of which may run, have committed or
aborted, wholly or down to a savepoint.  A record is kept while M, the youngest
transaction named at or below it, isn't below H, or not below U if an end stands at
or below it.  Lists take the place of chains that grew.  A committed owner may lie
below the chain, lockers of a moved row are carried to its new place, line pointers
are freed and used again.  Passes that discard, rollback by page, freezing, pruning
and snapshots come at any moment.  After each step the chain must tell each live
lock and no other, the ender of each ended row (or nothing, where all see the end),
and what each snapshot sees; and an idle system must come to have no undo.

usage: shared_slot_model.py [--bounds XACTS,ROWS,CHANGES,SNAPSHOTS,LISTS[,FEATURES]]
                            [--mutant NAME] [--quick | --deep]

FEATURES are joined by "+": savepoints, base (a committed owner below), reuse (of
line pointers), carry (a second page).  Without --mutant no state may be wrong.
--quick: the bounds of CI, then each mutant, which must be found out, and what may be
left out.  --deep: larger bounds; take hours and gigabytes.

Not modelled: redo, xact slots besides the shared one, and to which of them a row
goes back (stub_model.py has that).
"""
import argparse
import sys

# what is left out or done wrongly -> the bounds within which it is found
MUTANTS = {
    "kept-by-writer": ("a record is kept as any other: while its writer is not below H",
                       "2,1,2,1,1"),
    "kept-by-h": ("an end is kept until M is below H, not U", "2,1,2,1,1"),
    "not-raised": ("M is the last writer, not the youngest of all", "2,1,2,1,1"),
    "list-in-own-name": ("a list is kept by who wrote it, not by whom it names",
                         "2,1,2,1,1"),
    "list-drops-aborted-end": ("a list leaves out the ender of a row that isn't rolled "
                               "back yet", "2,1,2,1,1"),
    "list-drops-lock": ("a list leaves out lockers older than its writer", "2,1,2,1,1"),
    "list-forgets-below": ("a list's M leaves out the older list that it is linked to",
                           "3,1,2,0,2"),
    "frozen-by-head": ("the xact slot is freed when its last writer, not M, is seen by all",
                       "2,1,2,1,1"),
    "freed-over-aborted": ("it is freed when M is seen by all, whatever isn't rolled back",
                           "2,1,2,1,1"),
    "idle-stands-still": ("S10: H isn't raised for pages that wait for U alone",
                          "2,1,2,1,1"),
    "savepoint-is-top": ("a lock belongs to the top transaction, not to the savepoint's",
                         "2,1,2,0,1,savepoints"),
    "list-in-top-name": ("a list names top transactions, not those of savepoints",
                         "2,1,2,0,1,savepoints"),
    "list-drops-base": ("a list leaves out the owner below, which a snapshot doesn't see",
                        "3,1,1,1,1,base"),
    "base-frozen-early": ("rows of the owner below are frozen when it has committed",
                          "3,1,1,1,1,base"),
    "base-running": ("a running owner's xact slot is made shared", "3,1,1,1,1,base"),
    "freed-while-locked": ("Z60: a line pointer is freed whoever names it",
                           "2,1,2,0,0,reuse"),
    "older-end-counts": ("of two ends of an offset the older one is taken",
                         "2,1,2,0,1,reuse"),
    "nobody-carried": ("a mover doesn't carry lockers to the new place", "2,1,1,0,0,carry"),
    "carried-in-movers-name": ("a carried lock is kept and judged as the mover's",
                               "2,1,1,0,0,carry"),
    "void-entries-free": ("Z60 leaves out locks that an aborted mover carried; once U has "
                          "passed it, it counts as committed", "2,1,2,0,0,carry"),
}
# what may be left out: nothing is wrong then either
NEEDLESS = {
    "carrier": ("a carried lock counts whatever becomes of the mover: Z60 keeps the place "
                "of a row whose creator aborted as long as the locker runs",
                "2,1,2,0,0,carry"),
}
QUICK = ("2,2,2,0,1", "2,1,3,1,1", "3,1,1,0,1", "2,1,2,0,0,savepoints",
         "3,1,1,1,1,base", "2,1,2,0,1,reuse", "2,1,2,0,0,carry")
DEEP = ("3,1,1,1,1", "2,2,2,1,1", "3,1,2,0,1", "2,1,2,0,1,savepoints", "2,1,2,1,0,savepoints+reuse",
        "3,2,1,1,1,base", "2,1,3,0,1,reuse", "2,2,2,0,0,carry", "2,1,2,0,1,carry")
BASE = 2                # fxid of the owner below
BUGS = set()
FEATURES = set()
NX = NR = NOPS = NSNAP = NLISTS = 0
PAGES = ()              # of each place


class Wrong(Exception):
    pass


# State, all tuples:
# xs: (fxid, status, ops, fxid of the savepoint or 0, its status) of each; fxid 0: none
#   yet.  Status R, C, A
# bad: those that aborted and aren't rolled back
# slots: of each page None, ('P', p, record) or ('S', M, ends, link, last writer); a link
#   is a record's number, or what a base is: ('P', p, record)
# rows: (state, generation, base, creator); state L live, E ended, X dead, V dead
#   by its creator's abort, U unused
# recs: (entries, link, writer, M, is a list, ends at or below) or None: discarded; an
#   entry is ('L', fxid, place, mode, carrier) or ('E', fxid, place).  link: None, a base, or
#   (M, ends, record)
# hist: enders of the row at a place, in order; locks: (fxid, place, generation,
#   mode, carrier) of all that were taken
class S:
    __slots__ = ('xs', 'bad', 'slots', 'rows', 'recs', 'hist', 'locks', 'snaps', 'nxt',
                 'U', 'H', 'lists')

    def __init__(self, o=None):
        if o is not None:
            for a in self.__slots__:
                setattr(self, a, getattr(o, a))
            return
        npages = 2 if 'carry' in FEATURES else 1
        self.xs = ((0, '-', 0, 0, '-'),) * NX
        self.bad = frozenset()
        self.slots = (None,) * npages
        self.rows = tuple(('L', 0, False, 0) if PAGES[o] == 0 else ('U', 0, False, 0)
                          for o in range(len(PAGES)))
        self.recs, self.hist, self.locks = (), ((),) * len(PAGES), frozenset()
        self.snaps = (None,) * NSNAP
        self.nxt, self.U, self.H, self.lists = 1, 1, 1, 0
        if 'base' in FEATURES:      # changed the first row in place; another one is older
            self.xs = ((BASE, 'R', NOPS, 0, '-'), (1, 'R', 0, 0, '-')) + self.xs[2:]
            self.recs = (((), None, BASE, BASE, False, False),)
            self.slots = (('P', BASE, 0),) + self.slots[1:]
            self.rows = (('L', 0, True, 0),) + self.rows[1:]
            self.nxt = BASE + 1

    def key(self):
        return tuple(getattr(self, a) for a in self.__slots__)

    def put(self, what, at, to):
        t = getattr(self, what)
        setattr(self, what, t[:at] + (to,) + t[at + 1:])

    def status(self, f):
        for x in self.xs:
            if x[0] == f:
                return x[1]
            if x[3] == f:
                return 'A' if x[4] == 'A' else x[1]
        raise Wrong('unknown transaction')

    def judged(self, f):
        """as who asks U first (Z15)"""
        return 'C' if f < self.U else self.status(f)

    def top(self, f):
        for x in self.xs:
            if f in (x[0], x[3]):
                return x[0]
        return 0

    def horizon(self):
        h = self.nxt
        for x in self.xs:
            if x[0] and x[1] == 'R':
                h = min(h, x[0])
        for sn in self.snaps:
            if sn:
                h = min((h, sn[0]) + sn[1])
        return h

    def chain(self, page):
        """Its entries, newest first; ('P', p) last if there is an owner below."""
        slot = self.slots[page]
        if slot is None:
            return
        link = slot if slot[0] == 'P' else slot[1:4]
        while link is not None:
            if link[0] == 'P':
                yield link
                return
            m, ends, r = link
            if m < (self.U if ends else self.H):
                return
            rec = self.recs[r]
            if rec is None:
                raise Wrong('a record of the chain is gone')
            yield from rec[0]
            link = rec[1]

    def ender(self, place):
        """of a row that ended; None: all see the end"""
        found = None
        for e in self.chain(PAGES[place]):
            if e[0] == 'E' and e[2] == place:
                found = e[1]
                if 'older-end-counts' not in BUGS:
                    break
        return found

    def counts(self, e):
        """is an entry a live lock"""
        if 'carrier' in BUGS or e[4] == 0:
            return self.status(e[1]) == 'R'
        return self.status(e[1]) == 'R' and self.judged(e[4]) != 'A'

    def is_named(self, place):
        """Z60"""
        if 'freed-while-locked' in BUGS:
            return False
        for e in self.chain(PAGES[place]):
            if e[0] == 'L' and e[2] == place and self.status(e[1]) == 'R':
                if 'void-entries-free' not in BUGS or self.counts(e):
                    return True
        return False


def has_end(s, entries, link):
    if any(e[0] == 'E' for e in entries):
        return True
    return link is not None and link[0] != 'P' and link[1]


def append(s, page, w, entries, is_list=False, below=None):
    """A record of w becomes the head; a list takes the place of what is above below."""
    slot = s.slots[page]
    link = below
    if not is_list and slot is not None:
        link = slot if slot[0] == 'P' else slot[1:4]
    m = w
    if is_list or 'carry' in FEATURES:
        if 'list-in-own-name' not in BUGS:
            for e in entries:
                m = max(m, e[1])
    if link is not None:
        # a base need not count: it had committed when the first of the others, which
        # ran then, wrote above it.  A snapshot that doesn't see it sees none of those
        if link[0] != 'P' and not ('list-forgets-below' in BUGS if is_list else
                                   'not-raised' in BUGS):
            m = max(m, link[0])
    ends = has_end(s, entries, link)
    s.recs += ((tuple(entries), link, w, m, is_list, ends),)
    s.put('slots', page, ('S', m, ends, len(s.recs) - 1, w))


def restore(s, place):
    """What aborted about a row is taken back: its header is put back, and no more."""
    state, gen, base, creator = s.rows[place]
    if creator in s.bad and s.status(creator) == 'A':
        s.put('rows', place, ('V', gen, False, 0))
    elif state == 'E':
        f = s.ender(place)
        if f is not None and f >= s.U and s.status(f) == 'A':
            s.put('rows', place, ('L', gen, base, creator))


def sees(s, sn, f):
    return f < s.U or (s.status(f) == 'C' and f < sn[0] and f not in sn[1])


def truly_sees(s, sn, f):
    return s.status(f) == 'C' and f < sn[0] and f not in sn[1]


# ----------------------------------------------------------------
#	judges
# ----------------------------------------------------------------

def check_locks(s):
    entries = [list(s.chain(page)) for page in range(len(s.slots))]
    for place in range(len(PAGES)):
        state, gen, _, creator = s.rows[place]
        if state not in 'LE' or creator and s.status(creator) == 'A':
            continue
        found = {e[1] for e in entries[PAGES[place]]
                 if e[0] == 'L' and e[2] == place and s.counts(e)}
        true = {f for f, o, g, _, c in s.locks
                if o == place and g == gen and s.status(f) == 'R' and
                (c == 0 or s.status(c) != 'A')}
        if true - found:
            raise Wrong('a lock on row %d is lost: %s of %s' % (place, found, true))
        if state == 'L' and found - true:
            raise Wrong('row %d: a lock of nobody: %s of %s' % (place, found, true))


def check_rows(s):
    for place in range(len(PAGES)):
        state, _, base, creator = s.rows[place]
        if state in 'UV' or creator and s.status(creator) == 'A':
            continue
        hist = s.hist[place]
        if state == 'L':
            if any(s.status(f) == 'C' for f in hist):
                raise Wrong('an end is lost')
            if base:
                check_base(s, place)
            continue
        f = s.ender(place) if state == 'E' else None
        true = [x for x in hist if s.status(x) != 'A']
        if f is None:
            if not true or s.status(true[-1]) != 'C' or true[-1] >= s.horizon():
                raise Wrong('who ended row %d is forgotten' % place)
        elif f != hist[-1]:
            raise Wrong('row %d: %d is told for the ender' % (place, f))
        for sn in s.snaps:
            if sn and (f is None or sees(s, sn, f)) != any(truly_sees(s, sn, x) for x in hist):
                raise Wrong('a snapshot errs about row %d' % place)


def check_base(s, place):
    """A row that BASE changed in place, in what was its xact slot."""
    below = [e for e in s.chain(PAGES[place]) if e[0] == 'P']
    for sn in s.snaps:
        if not sn:
            continue
        told = True                 # without an owner below: settled
        if below:
            told = sees(s, sn, below[0][1])
            if not told and s.recs[below[0][2]] is None:
                raise Wrong('the record of the owner below is gone')
        if told != truly_sees(s, sn, BASE):
            raise Wrong('a snapshot errs about the owner below')


def check_frozen(s):
    """Rows that refer to nobody are settled."""
    if 'base' not in FEATURES or s.status(BASE) == 'A':
        return
    if s.rows[0][0] == 'L' and s.rows[0][1] == 0 and not s.rows[0][2]:
        for sn in s.snaps:
            if sn and not truly_sees(s, sn, BASE):
                raise Wrong('a snapshot errs about a frozen row')


def passed(s):
    """One pass of the store over the records: those left, U and H after it."""
    h = s.horizon()
    recs, top = list(s.recs), s.H
    for i, r in enumerate(recs):
        if r is None or r[2] in s.bad:
            continue
        by_writer = 'kept-by-writer' in BUGS
        if (r[2] if by_writer else r[3]) >= h:
            continue
        if r[5] and not by_writer and 'kept-by-h' not in BUGS and r[3] >= s.U:
            if 'idle-stands-still' not in BUGS:
                top = max(top, r[3] + 1)
            continue
        recs[i] = None
        top = max(top, (r[2] if by_writer else r[3]) + 1)
    return tuple(recs), max(s.U, min((top,) + tuple(s.bad))), top


def check_idle(s):
    """S10: when all is over and rolled back, passes empty the logs."""
    if s.bad or any(x[1] == 'R' for x in s.xs) or any(s.snaps):
        return
    n = S(s)
    while True:
        before = n.recs, n.U, n.H
        n.recs, n.U, n.H = passed(n)
        if (n.recs, n.U, n.H) == before:
            break
    if any(r is not None for r in n.recs):
        raise Wrong('an idle system keeps undo')


def check(s):
    check_locks(s)
    check_rows(s)
    check_frozen(s)
    check_idle(s)


# ----------------------------------------------------------------
#	steps
# ----------------------------------------------------------------

def others(s, me, place, modes):
    """has another transaction the row locked"""
    gen = s.rows[place][1]
    return any(o == place and g == gen and mode in modes and s.top(f) != me and
               s.status(f) == 'R' and (c == 0 or s.status(c) != 'A')
               for f, o, g, mode, c in s.locks)


def can_share(s, page):
    slot = s.slots[page]
    if slot is None or slot[0] == 'S':
        return True
    return s.judged(slot[1]) == 'C' or 'base-running' in BUGS and s.status(slot[1]) == 'R'


def lock(s, f, place, mode):
    name = s.top(f) if 'savepoint-is-top' in BUGS else f
    append(s, PAGES[place], f, [('L', name, place, mode, 0)])
    s.locks |= {(f, place, s.rows[place][1], mode, 0)}


def move(s, f, place):
    """The row gets the unused place on the other page, with its lockers (section 6)."""
    to = next((o for o in range(len(PAGES)) if PAGES[o] != PAGES[place] and
               s.rows[o][0] == 'U'), None)
    if to is None or not can_share(s, PAGES[to]):
        return False
    gen = s.rows[place][1]
    new = s.rows[to][1] + 1
    carried, true = {}, set()
    for e in s.chain(PAGES[place]):
        if e[0] == 'L' and e[2] == place and s.counts(e) and s.top(e[1]) != s.top(f):
            carried[e[1]] = ('L', e[1], to, 'k', f)
    for g, o, og, mode, c in s.locks:
        if o == place and og == gen and s.status(g) == 'R' and s.top(g) != s.top(f) and \
                (c == 0 or s.status(c) != 'A'):
            true.add((g, to, new, mode, f))
    s.put('rows', to, ('L', new, False, f))
    s.put('hist', to, ())
    s.locks |= true
    if carried and 'nobody-carried' not in BUGS:
        entries = sorted(carried.values())
        if 'carried-in-movers-name' in BUGS:
            entries = [('L', f, to, 'k', f)]
        append(s, PAGES[to], f, entries)
    return True


def end(s, f, place):
    append(s, PAGES[place], f, [('E', f, place)])
    _, gen, base, creator = s.rows[place]
    s.put('rows', place, ('E', gen, base, creator))
    s.put('hist', place, s.hist[place] + (f,))


def changes(s, xi):
    f, st, ops, sub, subst = s.xs[xi]
    if ops >= NOPS or st not in '-R' or (xi > 0 and s.xs[xi - 1][0] == 0):
        return
    n = S(s)
    if f == 0:
        f = n.nxt
        n.nxt += 1
    n.put('xs', xi, (f, 'R', ops + 1, sub, subst))
    me = sub if sub and subst == 'R' else f
    for place in range(len(PAGES)):
        a = S(n)
        restore(a, place)
        state, gen, _, creator = a.rows[place]
        if state not in 'LE' or not can_share(a, PAGES[place]):
            continue
        if creator and a.top(creator) != f and a.status(creator) != 'C':
            continue                # nobody else sees it yet
        if state == 'E':
            # beside a mover that runs one locks the new row, then the old one
            last = a.hist[place][-1]
            new = [o for o in range(len(PAGES)) if a.rows[o][0] == 'L' and
                   a.rows[o][3] == last and 'carry' in FEATURES]
            if new and a.status(last) == 'R' and a.top(last) != f and \
                    can_share(a, PAGES[new[0]]) and (me, place, gen, 'k', 0) not in a.locks:
                lock(a, me, new[0], 'k')
                lock(a, me, place, 'k')
                yield a
            continue
        for mode, keeps_out in (('k', 'x'), ('x', 'kx')):
            if (me, place, gen, mode, 0) not in a.locks and not others(a, f, place, keeps_out):
                b = S(a)
                lock(b, me, place, mode)
                yield b
        if not others(a, f, place, 'kx'):
            b = S(a)
            end(b, me, place)       # deletes
            yield b
        if not others(a, f, place, 'x') and ('carry' in FEATURES or
                                             others(a, f, place, 'k')):
            b = S(a)
            if 'carry' not in FEATURES or move(b, me, place):
                end(b, me, place)
                yield b


def lists(s, xi):
    f, st, _, sub, subst = s.xs[xi]
    if st != 'R' or s.lists >= NLISTS:
        return
    me = sub if sub and subst == 'R' else f
    for page in range(len(s.slots)):
        if s.slots[page] is None or s.slots[page][0] != 'S':
            continue
        keep, seen, base = [], set(), None
        for e in s.chain(page):
            if e[0] == 'L':
                if 'list-drops-lock' in BUGS and e[1] < f:
                    continue
                if s.counts(e):
                    name = s.top(e[1]) if 'list-in-top-name' in BUGS else e[1]
                    keep.append(('L', name) + e[2:])
            elif e[0] == 'P':
                if e[1] >= s.horizon() and 'list-drops-base' not in BUGS:
                    base = e
            elif e[2] not in seen:
                seen.add(e[2])
                if s.rows[e[2]][0] == 'E' and not ('list-drops-aborted-end' in BUGS and
                                                   s.status(e[1]) == 'A'):
                    keep.append(e)
        n = S(s)
        n.lists += 1
        append(n, page, me, keep, True, base)
        yield n
        # or linked to the newest list that there is
        part, link = [], s.slots[page][1:4]
        while link is not None and link[0] != 'P':
            m, ends, r = link
            if m < (s.U if ends else s.H) or s.recs[r] is None or s.recs[r][4]:
                break
            part += s.recs[r][0]
            link = s.recs[r][1]
        if part and link is not None and link[0] != 'P' and \
                link[0] >= (s.U if link[1] else s.H):
            n = S(s)
            n.lists += 1
            append(n, page, me, part, True, link)
            yield n


def ends_of_xact(s, xi):
    f, st, ops, sub, subst = s.xs[xi]
    if st != 'R':
        return
    if 'savepoints' in FEATURES:
        if not sub and ops < NOPS:
            n = S(s)
            n.put('xs', xi, (f, st, ops, n.nxt, 'R'))
            n.nxt += 1
            yield n
        elif sub and subst == 'R':
            n = S(s)
            n.put('xs', xi, (f, st, ops, sub, 'A'))
            n.bad |= {sub}
            yield n
    n = S(s)
    n.put('xs', xi, (f, 'C', ops, sub, subst))
    yield n
    n = S(s)
    n.put('xs', xi, (f, 'A', ops, sub, subst))
    n.bad |= {f, sub} - {0}
    yield n


def snapshots(s):
    for k in range(NSNAP):
        if s.snaps[k] is None and (k == 0 or s.snaps[k - 1] is not None):
            n = S(s)
            n.put('snaps', k, (s.nxt, tuple(f for x in s.xs if x[1] == 'R'
                                            for f in (x[0], x[3]) if f)))
            yield n
        elif s.snaps[k]:
            n = S(s)
            n.put('snaps', k, 0)
            yield n


def rollback(s):
    """Pages are rolled back; then what aborted counts as applied."""
    if not s.bad:
        return
    n = S(s)
    for page, slot in enumerate(n.slots):
        if slot and slot[0] == 'P' and s.status(slot[1]) == 'A':
            n.put('slots', page, None)
            n.rows = tuple((r[0], r[1], False, r[3]) for r in n.rows)
    for place in range(len(PAGES)):
        restore(n, place)
    n.bad = frozenset()
    yield n


def freeze(s):
    for page, slot in enumerate(s.slots):
        if slot is None:
            continue
        h = s.horizon()
        m = slot[1]
        if slot[0] == 'S' and 'frozen-by-head' in BUGS:
            m = slot[4]
        over = m < s.U
        if not over and m < h and slot[0] == 'S':
            # S8: seen by all, and nothing left that aborted
            over = 'freed-over-aborted' in BUGS or not any(
                r[0] == 'E' and PAGES[o] == page and s.status(s.ender(o) or 0) == 'A'
                for o, r in enumerate(s.rows) if r[0] == 'E' and s.ender(o))
        if over or slot[0] == 'P' and m < h and s.status(m) == 'C':
            n = S(s)
            n.put('slots', page, None)
            n.rows = tuple(r if PAGES[o] != page else
                           ('X' if r[0] == 'E' else r[0], r[1], False, r[3])
                           for o, r in enumerate(s.rows))
            yield n
        elif slot[0] == 'S' and any(r[0] == 'L' and r[2] for r in s.rows):
            # S6: rows of the owner below, which has committed
            if BASE < h or 'base-frozen-early' in BUGS:
                n = S(s)
                n.rows = tuple((r[0], r[1], r[2] and r[0] != 'L', r[3]) for r in s.rows)
                yield n


def pointers(s):
    """ended for all -> DEAD -> UNUSED -> another row"""
    for place, (state, gen, _, _) in enumerate(s.rows):
        n = S(s)
        if state == 'E':
            f = s.ender(place)
            if f is not None and not (f < s.horizon() and s.status(f) == 'C'):
                continue
            n.put('rows', place, ('X', gen, False, 0))
            yield n
        elif state in 'XV' and not s.is_named(place):
            n.put('rows', place, ('U', gen, False, 0))
            n.put('hist', place, ())
            yield n
        elif state == 'U' and 0 < gen + (PAGES[place] == 0) < 3:
            n.put('rows', place, ('L', gen + 1, False, 0))
            yield n


def discards(s):
    """a pass; or U and H follow undo of other tables, and all goes that may"""
    n = S(s)
    n.recs, n.U, n.H = passed(s)
    if (n.recs, n.U, n.H) != (s.recs, s.U, s.H):
        yield n
    n = S(s)
    n.H = max(s.H, s.horizon())
    n.U = max(s.U, min((n.H,) + tuple(s.bad)))
    if (n.U, n.H) != (s.U, s.H):
        n.recs, n.U, n.H = passed(n)
        yield n


def steps(s):
    for xi in range(NX):
        yield from changes(s, xi)
        yield from lists(s, xi)
        yield from ends_of_xact(s, xi)
    yield from snapshots(s)
    yield from rollback(s)
    yield from freeze(s)
    if 'reuse' in FEATURES or 'carry' in FEATURES:
        yield from pointers(s)
    yield from discards(s)


def explore(bounds, mutant=None):
    """All histories.  Returns how many states there are, how many of them with a
    shared xact slot, and what is wrong, or None."""
    global NX, NR, NOPS, NSNAP, NLISTS, BUGS, FEATURES, PAGES
    parts = bounds.split(",")
    NX, NR, NOPS, NSNAP, NLISTS = (int(x) for x in parts[:5])
    FEATURES = set(parts[5].split("+")) if len(parts) > 5 else set()
    unknown = FEATURES - {"savepoints", "base", "reuse", "carry"}
    if unknown:
        sys.exit("no such feature: %s" % ", ".join(unknown))
    PAGES = (0,) * NR + ((1,) if 'carry' in FEATURES else ())
    BUGS = {mutant}
    first = S()
    seen, todo, shared = {first.key()}, [first], 0
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
                return len(seen), shared, '%s: %s' % (e, dict(zip(S.__slots__, n.key())))
            shared += any(x is not None and x[0] == 'S' for x in n.slots)
            todo.append(n)
    return len(seen), shared, None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bounds", default=None)
    ap.add_argument("--mutant", choices=sorted(MUTANTS) + sorted(NEEDLESS), default=None)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--deep", action="store_true")
    ap.add_argument("--bindir", help="not used: as other tests")
    args = ap.parse_args()
    if args.mutant:
        runs = [(args.bounds or dict(MUTANTS, **NEEDLESS)[args.mutant][1], args.mutant)]
    else:
        runs = [(b, None) for b in ([args.bounds] if args.bounds else
                                    DEEP if args.deep else QUICK)]
    if args.quick:
        runs += [(MUTANTS[m][1], m) for m in sorted(MUTANTS)]
        runs += [(NEEDLESS[m][1], m) for m in sorted(NEEDLESS)]
    failed = 0
    for bounds, mutant in runs:
        states, shared, wrong = explore(bounds, mutant)
        well = (wrong is not None) == (mutant in MUTANTS) and shared > 0
        failed += not well
        print("%s%s (%s): %d states, %d with a shared xact slot: %s" % (
            "" if well else "FAILED ", mutant or "the rules", bounds, states, shared,
            wrong or "all right"), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
