#!/usr/bin/python3
"""Proof by exhaustion of the rules for updates of indexed columns in place.

One row, one index of the soft kind (zheap/README, "Entries of rows that change
their key"), its marks STALE and SWEPT, its page's flag, stamp and bit of the
visibility map; a writer that changes the key, or something else of a marked row,
commits, aborts, goes back to a savepoint; undo records with the row's header of
then; readers of MVCC snapshots that copy the leaf, look into the visibility map or
fetch the row; readers without a snapshot that pin the leaf; deletion passes of the
index, be they its own or those of scans that have passed old entries; REINDEX, by
a horizon that may have gone back; VACUUM with its three visits; crashes; a standby that replays the log with
readers of its own.  Every order of their steps is tried, up to the bounds
below.  In each state:

  once     no key has two entries
  missing  a reader that copies the leaf gets the entry of the version that its
           snapshot sees
  wrong    an entry whose key isn't that of the version is not returned
  page     a row has the mark on a page that has the flag only

Then the same with each rule broken (MUTANTS): every one must be found out.

usage: keyed_model.py [--quick] [--mutant NAME] [--states]
"""
import argparse
import sys
from collections import namedtuple

KEYS = "AB"

MUTANTS = {
    # rule broken                                    where it must show
    "no-filter": "Z49: entries are believed",
    "clear-at-once": "Z52: the mark is cleared when the sweep ends",
    "stamp-at-visit": "Z52: the stamp is taken before the sweep",
    "horizon-equal": "Z52: cleared with a snapshot of the stamp's xid open",
    "no-reset": "Z52: a change of the key leaves SWEPT alone",
    "kept": "Z52: swept with an older version needed (each of two tests would do)",
    "no-cleanup-lock": "Z52: the sweep doesn't wait for pins",
    "rollback-unmarks": "Z45: a rollback takes the mark off, with the old header",
    "rollback-remarks": "Z46: a rollback puts the mark back, with the old header",
    "mark-late": "Z45: the mark is set after the entry",
    "search-first": "Z51: the index is searched before the row is changed",
    "no-search": "Z48: no search for the entry of an earlier time",
    "judge-unlocked": "Z50: judged before the leaf is locked",
    "scan-unasked": "Z50: a scan deletes what it found old when it passed",
    "judge-newest": "Z50: only the newest version's key counts",
    "rollback-forgotten": "Z50: the version below a running one is forgotten",
    "rebuild-stamped": "Z52: an index built gets older keys of a SWEPT row, too",
    "rebuild-newest": "Z47: an index that is built gets the newest key alone",
    "vm-kept": "Z53: the bit of the map survives the change",
    "vm-stale": "Z53: the bit is set with a marked row on the page",
    "clear-no-conflict": "Z54: clearing tells the standby nothing",
    "delete-no-conflict": "Z54: deletion tells the standby nothing",
    "sweep-newer": "Z54: the sweep deletes what left K since the page was listed",
}

# which world a mutant is looked for in
STANDBY = {"clear-no-conflict", "delete-no-conflict", "sweep-newer"}


class Found(Exception):
    """A state that breaks one of the three promises."""


# versions: newest first, (key, xid); xid 0 is visible to all
# saved: of each version below the newest, whether its header in undo has the mark;
#    of no interest, so False, when the change above has committed
# xacts: status of xid i + 1: r c a
World = namedtuple("World", [
    "xacts", "versions", "saved", "stale", "swept", "page", "stamp", "vm", "entries",
    "writer",    # None or (xid, phase, key, was stale); phases below
    "readers",   # tuple of None or (kind, xmin, seen, copied or None, pinned)
    "leaf",      # None, or what the one who holds it will delete
    "vacuum",    # None, ("listed", what standbys were told), "sweeping" or "swept"
    "starts",    # what may still begin: see BOUNDS
    "log", "pos",   # with a standby: records, and how far it has replayed
    "noted"])    # mutant scan-unasked: what a scan is going to delete

# phases of the writer after a change: "search", "insert", "done"


def start(standby, bounds):
    return World((), (("A", 0),), (), False, False, 1, 0, True, frozenset("A"), None,
                 (None,), None, None, bounds, () if standby else None, 0, None)


# readers, vacuums, crashes, bystanders, xids of the writer, rebuilds, other
# changes of the row and ways back to a savepoint
BOUNDS = {
    "primary": (2, 3, 1, 1, 2, 1, 0),
    "headers": (1, 3, 0, 1, 2, 0, 2),
    "standby": (1, 2, 0, 2, 2, 0, 0)}
QUICK = {
    "primary": (1, 2, 0, 1, 2, 1, 0),
    "headers": (0, 3, 0, 1, 2, 0, 2),
    "standby": (1, 2, 0, 2, 1, 0, 0)}
BOUNDS_OF = {
    # two changes of the key, one VACUUM
    "sweep-newer": (1, 1, 0, 1, 2, 0, 0),
    # a scan that deletes, one that misses the entry
    "scan-unasked": (2, 0, 0, 0, 2, 0, 0),
    # one change of the key and one of something else, two VACUUMs
    "rollback-remarks": (0, 2, 0, 1, 2, 0, 2),
}


def begun(w, what):
    """One less of what may still begin."""
    s = w.starts
    return w._replace(starts=s[:what] + (s[what] - 1,) + s[what + 1:])


def status(w, xid):
    return "c" if xid == 0 else w.xacts[xid - 1]


def next_xid(w):
    return len(w.xacts) + 1


def horizon(w):
    """The oldest xid that some snapshot may see as running."""
    h = next_xid(w)
    for i, s in enumerate(w.xacts):
        if s == "r":
            h = min(h, i + 1)
    if w.log is None:
        for r in w.readers:
            if r is not None and r[0] == "mvcc":
                h = min(h, r[1])
    return h


def settled(w, xid, h):
    return xid == 0 or (status(w, xid) == "c" and xid < h)


def needed_keys(w, mutant):
    """K(row), and the conflict horizon of taking another key away."""
    h = horizon(w)
    keys = set()
    conflict = 0
    first = True
    for key, xid in w.versions:
        s = status(w, xid)
        if s == "a":
            continue
        keys.add(key)
        conflict = max(conflict, xid if settled(w, xid, h) else 0)
        if settled(w, xid, h) or mutant == "judge-newest":
            break
        if first and s == "r" and mutant == "rollback-forgotten":
            break
        first = False
    return keys, conflict


def seen_key(versions, seen):
    for key, xid in versions:
        if xid == 0 or xid in seen:
            return key
    return None


def log(w, *record):
    return w if w.log is None else w._replace(log=w.log + (record,))


def set_status(w, xid, s):
    w = w._replace(xacts=w.xacts[:xid - 1] + (s,) + w.xacts[xid:])
    if s == "c":
        w = w._replace(saved=tuple(
            m and v[1] != xid for v, m in zip(w.versions, w.saved)))
    return log(w, "xact", xid, s)


def restore_older(w, mutant):
    """The version below comes back.  The mark that counts is that of the row as it
    stands."""
    stale = w.stale
    if mutant == "rollback-unmarks":
        stale = stale and w.saved[0]
    elif mutant == "rollback-remarks":
        stale = stale or w.saved[0]
    w = w._replace(versions=w.versions[1:], saved=w.saved[1:], stale=stale)
    return log(w, "row", w.versions, w.stale, w.vm)


def roll_back_page(w, mutant):
    """What every writer and VACUUM does first."""
    while status(w, w.versions[0][1]) == "a":
        w = restore_older(w, mutant)
    return w


# ---------------------------------------------------------------- steps

def steps_writer(w, mutant):
    if w.writer is None:
        if w.starts[4] > 0:
            xid = next_xid(w)
            n = begun(w, 4)._replace(xacts=w.xacts + ("r",),
                                     writer=(xid, "done", None, False))
            yield "begin %d" % xid, log(n, "xact", xid, "r")
        return
    xid, phase, key, was_stale = w.writer
    yield "abort %d" % xid, set_status(w._replace(writer=None), xid, "a")
    if phase == "done":
        yield "commit %d" % xid, set_status(w._replace(writer=None), xid, "c")
        n = roll_back_page(w, mutant)
        own = len([v for v in n.versions if v[1] == xid])
        if own > 0 and n.starts[6] > 0:
            yield "back to before", restore_older(begun(n, 6), mutant)
        if own < 2:
            if n.stale and n.starts[6] > 0:
                yield change_other(begun(n, 6), xid)
            for new in KEYS:
                if new == n.versions[0][0]:
                    continue
                if mutant == "search-first" and n.leaf is None:
                    # the answer is kept over the change
                    found = n.stale and new in n.entries
                    yield "search %s" % new, n._replace(
                        writer=(xid, "there" if found else "gone", new,
                                n.stale))
                elif mutant != "search-first":
                    yield change(n, xid, new, mutant)
    elif phase in ("there", "gone"):
        name, n = change(w, xid, key, mutant)
        yield name, n._replace(writer=(
            xid, "done" if phase == "there" else "insert", None
            if phase == "there" else key, was_stale))
    elif phase == "search" and w.leaf is None:
        if key in w.entries:
            yield "entry %s is there" % key, w._replace(
                writer=(xid, "done", None, False))
        else:
            yield "entry %s isn't there" % key, w._replace(
                writer=(xid, "insert", key, was_stale))
    elif phase == "insert" and w.leaf is None:
        if key in w.entries:
            raise Found("once: a second entry of %s" % key)
        n = log(w._replace(entries=w.entries | {key}), "insert", key)
        if mutant == "mark-late":
            n = n._replace(writer=(xid, "mark", key, was_stale))
        else:
            n = n._replace(writer=(xid, "done", None, False))
        yield "insert %s" % key, n
    elif phase == "mark":
        n = w._replace(stale=True, page=3,
                       writer=(xid, "done", None, False))
        yield "mark", log(n, "row", n.versions, n.stale, n.vm)


def change(w, xid, new, mutant):
    phase = "search" if w.stale and mutant != "no-search" else "insert"
    n = w._replace(
        versions=((new, xid),) + w.versions,
        saved=(w.stale,) + w.saved,
        stale=w.stale if mutant == "mark-late" else True,
        page=w.page if mutant == "mark-late" else 3,
        swept=w.swept if mutant == "no-reset" else False,
        vm=w.vm if mutant == "vm-kept" else False,
        writer=(xid, phase, new, w.stale))
    return "change to %s by %d" % (new, xid), log(
        n, "row", n.versions, n.stale, n.vm)


def change_other(w, xid):
    """Of columns that no index is about: mark, stamp and map stay."""
    n = w._replace(versions=((w.versions[0][0], xid),) + w.versions,
                   saved=(w.stale,) + w.saved)
    return "other change by %d" % xid, log(
        n, "row", n.versions, n.stale, n.vm)


def steps_bystander(w, mutant):
    if w.starts[3] > 0:
        xid = next_xid(w)
        n = begun(w, 3)._replace(xacts=w.xacts + ("c",))
        yield "bystander %d" % xid, log(n, "xact", xid, "c")


def steps_deleter(w, mutant):
    """A scan deletes so, too: what it noted only tells it where to look."""
    if w.vacuum == "sweeping":
        return
    if w.noted is not None and w.leaf is None:
        n = w._replace(entries=w.entries - {w.noted}, noted=None)
        yield "delete %s, noted" % w.noted, n
    if w.leaf is None:
        keys, conflict = needed_keys(w, mutant)
        for e in w.entries - keys:
            yield "judged %s" % e, w._replace(leaf=("delete", e, conflict))
    elif w.leaf[0] == "delete":
        n = w._replace(entries=w.entries - {w.leaf[1]}, leaf=None)
        yield "delete %s" % w.leaf[1], log(n, "delete", (w.leaf[1],),
                                           w.leaf[2])


def newest_is_settled(w):
    return settled(w, w.versions[0][1], horizon(w))


def steps_vacuum(w, mutant):
    if w.vacuum is None and w.starts[1] > 0:
        n = begun(roll_back_page(w, mutant), 1)
        stamp = n.stamp
        limit = horizon(n) + (1 if mutant == "horizon-equal" else 0)
        if n.stale and stamp not in (0, "L") and stamp < limit:
            if n.swept:
                n = log(n, "conflict", stamp)
                n = n._replace(stale=False, swept=False, page=1, stamp=0)
                yield "clear", log(n, "row", n.versions, n.stale, n.vm)
            else:
                n = n._replace(stamp=0)
        pending = n.stamp not in (0, "L")
        if n.stale and not (pending and n.swept):
            told = needed_keys(n, mutant)[1]
            if not pending and (newest_is_settled(n) or mutant == "kept"):
                new = next_xid(n) if mutant == "stamp-at-visit" else "L"
                n = n._replace(swept=True, stamp=new)
            yield "visit", log(n._replace(vacuum=("listed", told)),
                               "conflict", told)
        if ((not n.stale or mutant == "vm-stale") and not n.vm and
                newest_is_settled(n)):
            n = n._replace(vm=True)
            n = log(n, "conflict", n.versions[0][1])
            yield "all-visible", log(n, "row", n.versions, n.stale, n.vm)
    elif isinstance(w.vacuum, tuple) and w.leaf is None:
        if mutant != "no-cleanup-lock" and any(
                r is not None and r[4] for r in w.readers):
            return              # pinned
        keys, conflict = needed_keys(w, mutant)
        garbage = w.entries - keys
        if conflict > w.vacuum[1] and mutant != "sweep-newer":
            garbage = frozenset()
        kept = w.entries - garbage - {w.versions[0][0]}
        yield "sweep", w._replace(
            vacuum="sweeping",
            leaf=("sweep", frozenset(garbage),
                  bool(kept) and mutant != "kept"))
    elif w.vacuum == "sweeping":
        what, garbage, kept = w.leaf
        n = w._replace(entries=w.entries - garbage, leaf=None,
                       swept=w.swept and not (kept and w.stamp == "L"),
                       vacuum="swept")
        # the index AM's record has no conflict horizon
        yield "swept", log(n, "delete", tuple(sorted(garbage)), None)
    elif w.vacuum == "swept":
        n = w._replace(vacuum=None)
        if n.stamp == "L":
            if mutant == "clear-at-once":
                n = n._replace(stamp=0, stale=not n.swept and n.stale,
                               swept=False, page=1 if n.swept else n.page)
            else:
                n = n._replace(stamp=next_xid(n))
            n = log(n, "row", n.versions, n.stale, n.vm)
        yield "stamp", n


def steps_rebuild(w, mutant):
    """REINDEX: no writer, no VACUUM, no open scan.

    Its horizon may be older than any before, so that nothing seems settled.
    """
    if (w.starts[5] == 0 or w.writer is not None or w.vacuum is not None or
            w.leaf is not None or
            any(r is not None and r[3] is not None for r in w.readers)):
        return
    keys = [key for key, xid in w.versions if status(w, xid) != "a"]
    if mutant == "rebuild-newest" or not w.stale or (
            w.swept and mutant != "rebuild-stamped"):
        keys = keys[:1]
    yield "reindex", begun(w, 5)._replace(entries=frozenset(keys))


def judged_unlocked(w, mutant):
    """Mutant: what was found to be garbage is deleted later, unasked."""
    if w.leaf is None or w.leaf[0] != "delete":
        return
    # other steps go on as if the leaf weren't locked
    free = w._replace(leaf=None)
    for f in (steps_writer, steps_readers):
        for name, n in f(free, mutant):
            if n.leaf is None:
                yield name, n._replace(leaf=w.leaf)


def take_snapshot(kind, xacts):
    running = [i + 1 for i, s in enumerate(xacts) if s == "r"]
    seen = frozenset(i + 1 for i, s in enumerate(xacts) if s == "c")
    xmin = min(running) if running else len(xacts) + 1
    return (kind, xmin, seen, None, False)


def steps_one_reader(w, i, view, mutant):
    """view: (xacts, versions, stale, vm, entries, leaf is free)."""
    xacts, versions, stale, vm, entries, free = view
    r = w.readers[i]

    def put(new):
        return w._replace(readers=w.readers[:i] + (new,) + w.readers[i + 1:])

    if r is None:
        if w.starts[0] > 0:
            yield "snapshot", begun(put(take_snapshot("mvcc", xacts)), 0)
            if w.log is None:
                yield "pinning", begun(put(("self", 0, frozenset(), None,
                                            False)), 0)
        return
    kind, xmin, seen, copied, pinned = r
    if kind == "self":
        seen = frozenset(j + 1 for j, s in enumerate(xacts) if s == "c")
    key = seen_key(versions, seen)
    if copied is None:
        if free:
            if kind == "mvcc" and key not in entries:
                raise Found("missing: no entry of %s" % key)
            yield "copy", put((kind, xmin, r[2], entries, kind == "self"))
        return
    yield "end", put(None)
    for e in copied:
        rest = copied - {e}
        if kind == "mvcc" and vm and e != key:
            raise Found("wrong: %s by the map, instead of %s" % (e, key))
        if e != key and (not stale or mutant == "no-filter"):
            raise Found("wrong: %s by the row, instead of %s" % (e, key))
        n = put((kind, xmin, r[2], rest, pinned))
        yield "fetch %s" % e, n
        if (mutant == "scan-unasked" and w.log is None and
                e in entries - needed_keys(w, mutant)[0]):
            yield "fetch %s, noted" % e, n._replace(noted=e)


def steps_readers(w, mutant):
    view = (w.xacts, w.versions, w.stale, w.vm, w.entries, w.leaf is None)
    for i in range(len(w.readers)):
        yield from steps_one_reader(w, i, view, mutant)


def steps_crash(w, mutant):
    if w.starts[2] > 0:
        yield "crash", begun(w, 2)._replace(
            xacts=tuple("a" if x == "r" else x for x in w.xacts),
            writer=None, readers=(None,) * len(w.readers), leaf=None,
            vacuum=None)


# ---------------------------------------------------------------- standby

def replayed(w, mutant):
    """What the standby has on its pages after w.pos records."""
    xacts = ()
    versions = (("A", 0),)
    stale = False
    vm = True
    entries = frozenset("A")
    for r in w.log[:w.pos]:
        if r[0] == "xact":
            xacts = (xacts + ("r",) * r[1])[:max(len(xacts), r[1])]
            xacts = xacts[:r[1] - 1] + (r[2],) + xacts[r[1]:]
        elif r[0] == "row":
            versions, stale, vm = r[1:]
        elif r[0] == "insert":
            entries |= {r[1]}
        elif r[0] == "delete":
            entries -= frozenset(r[1])
    return xacts, versions, stale, vm, entries, True


def steps_standby(w, mutant):
    if w.pos < len(w.log):
        r = w.log[w.pos]
        n = w._replace(pos=w.pos + 1)
        limit = None
        if r[0] == "delete" and mutant != "delete-no-conflict":
            limit = r[2]
        if r[0] == "conflict" and mutant != "clear-no-conflict":
            limit = r[1]
        if limit is not None:
            n = n._replace(readers=tuple(
                None if x is not None and x[1] <= limit else x
                for x in n.readers))
        yield "replay %s" % (r,), n
    yield from steps_one_reader(w, 0, replayed(w, mutant), mutant)


# ---------------------------------------------------------------- search

def steps(w, mutant):
    yield from steps_writer(w, mutant)
    yield from steps_bystander(w, mutant)
    yield from steps_vacuum(w, mutant)
    yield from steps_deleter(w, mutant)
    if w.log is None:
        yield from steps_rebuild(w, mutant)
        yield from steps_readers(w, mutant)
        yield from steps_crash(w, mutant)
    else:
        yield from steps_standby(w, mutant)
    if mutant == "judge-unlocked":
        yield from judged_unlocked(w, mutant)


def explore(standby, mutant, bounds):
    """All states that can be reached; (number, None or (what, history))."""
    first = start(standby, bounds)
    known = {first: None}
    todo = [first]
    while todo:
        w = todo.pop()
        try:
            if w.stale and w.page == 1:
                raise Found("page: the mark on a page without the flag")
            for name, n in steps(w, mutant):
                if n not in known:
                    known[n] = (w, name)
                    todo.append(n)
        except Found as e:
            history = []
            while known[w] is not None:
                w, name = known[w]
                history.append(name)
            return len(known), (str(e), history[::-1])
    return len(known), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    parser.add_argument("--only", choices=["primary", "headers", "standby"])
    parser.add_argument("--quick", action="store_true",
                        help="fewer transactions, readers and vacuums")
    args = parser.parse_args()
    bounds = QUICK if args.quick else BOUNDS
    failed = False
    if args.mutant is None:
        for where in bounds:
            if args.only not in (None, where):
                continue
            n, found = explore(where == "standby", None, bounds[where])
            print("%s: %d states, %s" % (
                where, n, "nothing wrong" if found is None else found[0]))
            if found is not None:
                print("   " + "; ".join(found[1]))
                failed = True
            sys.stdout.flush()
    for mutant in [args.mutant] if args.mutant else sorted(MUTANTS):
        where = "standby" if mutant in STANDBY else "primary"
        if args.only not in (None, where):
            continue
        n, found = explore(where == "standby", mutant,
                           BOUNDS_OF.get(mutant, bounds[where]))
        if found is None:
            print("mutant %s NOT FOUND in %d states" % (mutant, n))
            failed = True
        else:
            print("mutant %s (%s): %s" % (mutant, MUTANTS[mutant], found[0]))
            if args.mutant:
                print("   " + "; ".join(found[1]))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
