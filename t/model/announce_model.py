#!/usr/bin/python3
"""Z55 by exhaustion: all orders of the steps of index scans, of a backend that
announces a table and of one that allows its keys to change in place, beside
transactions that begin and end.  An announcement of another table came before, so
there is a stamp already.

Promise: when keys are allowed to change, no scan goes on that keeps no entries.
Each rule that is left out (a mutant) must break it.

usage: announce_model.py [--mutant NAME]
Exit status 0: the promise holds, and each mutant breaks it.
"""
import argparse
import sys
from collections import namedtuple

MUTANTS = {
    "stamp-first": "the stamp is taken before the number of announcements grows",
    "unlocked": "the flag can be seen before number and stamp have changed",
    "ask-first": "a scan asks before it has its snapshot",
    "horizon-equal": "a snapshot with the stamp as xmin is open",
    "no-number": "the number of announcements stays",
    "no-stamp": "the stamp of an earlier announcement is good enough",
}
SCANS = 3
XIDS = 4

# scan: None, or (phase, xmin or None, announced); phases "snapshot", "asked", "scans"
World = namedtuple("World", [
    "next", "running",   # next xid; xid of a running transaction, or None
    "number", "stamp", "announced", "allowed",
    "locked",            # the table's first page, by the announcer
    "announcer",         # steps that it has still to take
    "cache",             # a backend's: (number, announced)
    "scans", "left"])    # scans that go on; that may still begin

ANNOUNCE = ("lock", "flag", "number", "stamp", "unlock")


def start(mutant):
    steps = ANNOUNCE
    if mutant == "stamp-first":
        steps = ("lock", "flag", "stamp", "number", "unlock")
    if mutant == "unlocked":
        steps = ("lock", "flag", "unlock", "number", "stamp")
    steps = tuple(s for s in steps if mutant not in ("no-" + s,))
    # xid 1 is the stamp of the other table's announcement
    return World(2, None, 1, 1, False, False, False, steps, (1, False),
                 (), SCANS)


def xmin_now(w):
    return w.next if w.running is None else w.running


def horizon(w):
    return min([xmin_now(w)] + [s[1] for s in w.scans if s[1] is not None])


def steps_xacts(w):
    if w.running is None and w.next <= XIDS:
        yield "begin %d" % w.next, w._replace(running=w.next, next=w.next + 1)
    if w.running is not None:
        yield "commit %d" % w.running, w._replace(running=None)


def steps_announcer(w):
    if not w.announcer:
        return
    step = w.announcer[0]
    n = w._replace(announcer=w.announcer[1:])
    if step in ("lock", "unlock"):
        n = n._replace(locked=step == "lock")
    elif step == "flag":
        n = n._replace(announced=True)
    elif step == "number":
        n = n._replace(number=w.number + 1)
    else:
        n = n._replace(stamp=max(w.stamp, w.next))
    yield "announce: " + step, n


def steps_allower(w, mutant):
    limit = horizon(w) + (1 if mutant == "horizon-equal" else 0)
    if w.announced and not w.locked and not w.allowed and w.stamp < limit:
        yield "allow", w._replace(allowed=True)


def ask(w):
    """(world, is the table announced), or None: the page is locked."""
    number, announced = w.cache
    if number == w.number:
        return w, announced
    if w.locked:
        return None
    # the number that was read before the page
    return w._replace(cache=(w.number, w.announced)), w.announced


def steps_scans(w, mutant):
    def put(w, i, s):
        scans = list(w.scans)
        if s is None:
            del scans[i]
        else:
            scans[i] = s
        return w._replace(scans=tuple(scans))

    if w.left > 0 and len(w.scans) < 2:
        n = w._replace(left=w.left - 1)
        if mutant == "ask-first":
            asked = ask(n)
            if asked is not None:
                n, announced = asked
                yield "scan asks", n._replace(
                    scans=n.scans + (("asked", None, announced),))
        else:
            yield "scan: snapshot %d" % xmin_now(n), n._replace(
                scans=n.scans + (("snapshot", xmin_now(n), None),))
    for i, (phase, xmin, announced) in enumerate(w.scans):
        if phase == "snapshot":
            asked = ask(w)
            if asked is not None:
                n, announced = asked
                yield "scan asks: %s" % announced, put(
                    n, i, ("scans", xmin, announced))
        elif phase == "asked":
            yield "scan: snapshot %d" % xmin_now(w), put(
                w, i, ("scans", xmin_now(w), announced))
        else:
            yield "scan ends", put(w, i, None)


def steps(w, mutant):
    yield from steps_xacts(w)
    yield from steps_announcer(w)
    yield from steps_allower(w, mutant)
    yield from steps_scans(w, mutant)


def is_broken(w):
    return w.allowed and any(s[0] == "scans" and not s[2] for s in w.scans)


def explore(mutant):
    first = start(mutant)
    known = {first: (None, None)}
    todo = [first]
    allowed = False
    while todo:
        following = []
        for w in todo:
            for name, n in steps(w, mutant):
                if n in known:
                    continue
                known[n] = (w, name)
                allowed = allowed or n.allowed
                if is_broken(n):
                    history = []
                    while known[n][0] is not None:
                        n, name = known[n]
                        history.append(name)
                    return len(known), history[::-1], allowed
                following.append(n)
        todo = following
    return len(known), None, allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    args = parser.parse_args()
    failed = False
    for mutant in [args.mutant] if args.mutant else [None] + sorted(MUTANTS):
        n, history, allowed = explore(mutant)
        if mutant is None:
            failed = history is not None or not allowed
            print("%d states, %s" % (n, "; ".join(history or ["nothing wrong"])))
            if not allowed:
                print("keys are never allowed to change")
        elif history is None:
            failed = True
            print("mutant %s NOT FOUND in %d states" % (mutant, n))
        else:
            print("mutant %s (%s): %s" % (mutant, MUTANTS[mutant], "; ".join(history)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
