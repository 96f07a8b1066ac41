#!/usr/bin/python3
"""Chaos: random histories under knobs and points drawn from a seed.

A seed draws the sizes and pauses of the engine (undo/undo_debug.h), how often
something happens at its points, and a history of one of these kinds:

  twin    the differential test's sessions and statements on zheap and heap in
          the same interleaving, with what can roll back beside rows, locks of
          tables, and places of rows that cannot be (statements.py)
  storm   the crash torture's clients, ledger and twin, while others meddle and
          processes fail and die at points (storm.py)
  skew    SERIALIZABLE transactions that must not miss each other (skew.py)
  life    stops, crashes, millions of xids, a commit log that is cut, times
          without library or workers, copied databases, pg_upgrade (life.py)
  ddl, serial, model
          histories of t/stress/ddl.py, t/stress/serializable.py and
          t/model/model_check.py under knobs and points (others.py)

After each history: zheap_check of all tables, amcheck of all indexes, undo back
at its floor with both horizons equal, no lock, prepared transaction or attached
log left, a log free of WARNING, TRAP, PANIC.

usage: chaos.py --bindir DIR [--seeds FIRST-LAST | --list FILE |
                --hours N [--seed S]]
                [--kinds KIND,..] [--events EVENT,..] [--steps N] [--no-shrink] [--keep] [--verbose]

Prints each seed with what repeats it; shrinks a history that fails.  Of twin
knobs and points that don't matter are left alone, and steps that don't are left
out; skew, ddl, serial and model are played with fewer steps.  Exits non-zero if
one failed.  Needs an assert-enabled server with zheap_am and amcheck,
python3-psycopg2; as root it runs as postgres.
"""
import argparse
import os
import random
import re
import shutil
import sys
import time
import traceback

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import common  # noqa: E402
from common import Wrong, at_rest, knobs, settings, throwaway, warnings  # noqa: E402
import differential  # noqa: E402
import others  # noqa: E402
import statements  # noqa: E402
from life import Life  # noqa: E402
from skew import Skew  # noqa: E402
from storm import Storm, base as torture  # noqa: E402
from player import Difference  # noqa: E402


class TwinArena(differential.Arena):
    """Of one seed: fresh, with the seed's settings."""

    schema = staticmethod(statements.schema)
    generator_for = staticmethod(statements.generator_for)

    # where heap wouldn't, writers wait for an xact slot if there is no room for
    # one more: with as much room as pages keep by default there is
    KEEP = ["xact-slots-kept"]

    def __init__(self, bindir, seed, keep=(), **drawn):
        super().__init__(bindir, "zheap",
                         settings(seed, keep=self.KEEP + list(keep), **drawn))
        self.admin("CREATE TABLESPACE other LOCATION ''")

    def final(self, player, generator):
        super().final(player, generator)
        for side in player.sides:
            for link in side.links:
                link.conn.close()

        def run(sql):
            got = player.sides[0].monitor.run(sql)
            if got.code:
                raise Wrong("%s: %s" % (sql, got))
            return got.rows
        at_rest(run)
        said = warnings(self.cluster)
        if said:
            raise Wrong("server log: " + "; ".join(said[:4]))
        self.check_log()

    def replay(self, seed, steps):
        try:
            return super().replay(seed, steps)
        except Wrong as e:
            return e


def twin(args, seed):
    arena = TwinArena(args.bindir, seed)
    try:
        arena.generate(seed, args.steps, args.verbose)
        return None
    except differential.HeapFailed:
        return None
    except (Difference, Wrong) as e:
        text = "%s: %s\n%s" % (type(e).__name__, e, "\n".join(
            getattr(e, "faults", []) + arena.cluster.log_faults()[:5]))
        arena.cluster.drop(args.keep)
        arena = None
        steps = getattr(e, "played", [])
        if not args.no_shrink:
            text += "\n" + shrink_twin(args, seed, steps)
        else:
            text += "\n" + show(steps[-60:])
        return text
    finally:
        if arena is not None:
            arena.cluster.drop(False)


def show(steps):
    return "\n".join("s%d: %s" % tuple(x[:2]) for x in steps)


def shrink_twin(args, seed, steps):
    """Fewer steps, then fewer knobs."""
    end = time.time() + args.shrink_seconds

    def attempt(steps, seconds, **drawn):
        arena = TwinArena(args.bindir, seed, **drawn)
        try:
            return differential.shrink(arena, seed, steps, seconds)
        finally:
            arena.cluster.drop(False)

    steps, last = attempt(steps, args.shrink_seconds * 2 // 3)
    if last is None:
        return "it did not fail again in %d steps; the last ones:\n%s" % (
            len(steps), show(steps[-60:]))
    needed = []
    if not fails(args, seed, steps, points=False):
        needed.append("points")
    if fails(args, seed, steps, knobs_on=False):
        needed.append("no knob")
    else:
        keep = []
        for name in knobs():
            if time.time() > end:
                needed.append("(not all knobs were tried)")
                break
            if fails(args, seed, steps, keep=keep + [name]):
                keep.append(name)
        needed += [n for n in knobs() if n not in keep]
    return "shrunk to %d steps; needed: %s; %s\n%s" % (
        len(steps), ", ".join(needed), last, show(steps))


def fails(args, seed, steps, **drawn):
    arena = TwinArena(args.bindir, seed, **drawn)
    try:
        return arena.replay(seed, steps) is not None
    finally:
        arena.cluster.drop(False)


def storm(args, seed):
    run = Storm(argparse.Namespace(bindir=args.bindir, seed=seed, seconds=3.0,
                                   cycles=2, clients=4, standby=False,
                                   lockers=0, copies=0, keyed=args.keyed))
    try:
        run.run()
        return None
    except (torture.Lost, Wrong, RuntimeError) as e:
        tail = [x for x in run.node.log_tail(400).splitlines()
                if not re.search("57P0[123]|LOG:|DETAIL:|STATEMENT:|HINT:", x)]
        return "%s: %s\n%s" % (type(e).__name__, e, "\n".join(tail[-40:]))
    finally:
        run.stop.set()
        run.node.drop(args.keep)


def skew(args, seed):
    run = Skew(args.bindir, seed, args.am)
    try:
        run.play(args.steps * 2)
        return None
    except Wrong as e:
        return "Wrong: %s\n%s" % (e, "\n".join(run.history[-80:]))
    finally:
        run.cluster.drop(args.keep)


def life(args, seed):
    run = Life(args.bindir, seed)
    try:
        run.play()
        return None
    except (Wrong, psycopg2.Error, RuntimeError) as e:
        return "%s: %s\nevents: %s\n%s" % (
            type(e).__name__, e, ", ".join(run.history),
            "\n".join(run.cluster.log_faults()[:8]))
    finally:
        run.cluster.drop(args.keep)
        if not args.keep:
            shutil.rmtree(run.cluster.root, ignore_errors=True)


def shorten(args, seed, kind, text):
    """Fewer steps of a history whose steps don't depend on how many follow."""
    steps = args.steps
    end = time.time() + args.shrink_seconds
    while steps >= 20 and time.time() < end:
        fewer = argparse.Namespace(**{**vars(args), "steps": steps // 2})
        again = KINDS[kind](fewer, seed)
        if again is None:
            break
        steps, text = fewer.steps, again
    return "it fails with --steps %d:\n%s" % (steps, text)


SHORTENED = ("skew", "ddl", "serial", "model")
KINDS = {"twin": twin, "storm": storm, "skew": skew, "life": life,
         "ddl": others.ddl, "serial": others.serial, "model": others.model}


def seeds_of(args):
    """(seed, kind) of each history."""
    kinds = args.kinds.split(",")
    if args.list is not None:
        with open(args.list) as f:
            lines = [x.split("#")[0].split() for x in f]
        yield from ((int(x[1]), x[0]) for x in lines if x and x[0] in kinds)
        return
    for seed in numbers(args):
        yield seed, kinds[seed % len(kinds)]


def numbers(args):
    if args.hours is None:
        first, _, last = args.seeds.partition("-")
        yield from range(int(first), int(last or first) + 1)
        return
    end = time.time() + args.hours * 3600
    seed = args.seed or random.randrange(1, 10 ** 8)
    while time.time() < end:
        yield seed
        seed += 1


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-5")
    ap.add_argument("--list", default=None, help="a file with lines KIND SEED")
    ap.add_argument("--hours", type=float, default=None)
    ap.add_argument("--seed", type=int, default=None)
    ap.add_argument("--kinds", default=",".join(KINDS))
    ap.add_argument("--am", default="zheap", help="heap: tests the test; skew")
    ap.add_argument("--keyed", action="store_true",
                    help="with zheap.update_indexed_in_place, and half of the "
                    "updates change indexed columns")
    ap.add_argument("--steps", type=int, default=350)
    ap.add_argument("--without", default="", help="what isn't done, by its name "
                    "in statements.py or life.py: places, story_lock, ..")
    ap.add_argument("--events", default="", help="of life, instead of those that "
                    "the seed draws")
    ap.add_argument("--stop", action="store_true", help="at the first failure")
    ap.add_argument("--no-shrink", action="store_true")
    ap.add_argument("--shrink-seconds", type=int, default=240)
    ap.add_argument("--keep", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    args = ap.parse_args()
    if args.list is not None:
        args.list = os.path.abspath(args.list)
    throwaway.become_ordinary(__file__)
    # libpq tells of crashes there
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    common.keyed = TwinArena.keyed = args.keyed
    statements.ChaosGenerator.keyed = args.keyed
    Life.without = statements.ChaosGenerator.without = args.without.split(",")
    Life.only = args.events.split(",") if args.events else ()
    passed = failed = 0
    for seed, kind in seeds_of(args):
        begin = time.time()
        try:
            text = KINDS[kind](args, seed)
            if text is not None and kind in SHORTENED and not args.no_shrink:
                text = shorten(args, seed, kind, text)
        except Exception:  # the harness itself
            text = traceback.format_exc()
        again = "--seeds %d --kinds %s" % (seed, kind)
        if text is None:
            passed += 1
            print("%s ok  (%.1f s)" % (again, time.time() - begin), flush=True)
        else:
            failed += 1
            print("%s FAILED  (%.1f s)\n%s" % (again, time.time() - begin, text),
                  flush=True)
            if args.stop:
                break
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
