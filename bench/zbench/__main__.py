"""python3 -m zbench: see bench/run, which calls this."""
from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import sys
import time
from pathlib import Path

from . import report
from .driver import Bench, Parameters, Workload
from .server import Side
from .work_cold import cold_undo
from .work_documents import documents
from .work_instructions import instructions
from .work_keyed import keyed
from .work_locks import locks
from .work_many import many
from .work_own import own_changes
from .work_pgbench import (bloat, hot_row, logical, long_run, one_page,
                           pgbench, queue, recovery, small_cache, updates)
from .work_sql import (bulk, delete_insert, full_update, index_only, rollback,
                       row_size, scan)
from .work_tpch import tpch

# In this order: what the targets ask for most comes first.
WORKLOADS = [
    Workload("rows", row_size, "bytes per row"),
    Workload("bloat", bloat, "simple-update under an old snapshot", 2,
             again=0.5),
    Workload("pgbench", pgbench, "the built-in scripts", 2, again=0.5),
    Workload("logical", logical, "a logical subscriber keeps up"),
    Workload("bulk", bulk, "COPY and INSERT .. SELECT", 2),
    Workload("scan", scan, "sequential scans", 2),
    Workload("full-update", full_update, "UPDATE of all rows, twice", 2),
    Workload("delete-insert", delete_insert,
             "delete half, insert as many, with and without old snapshot"),
    Workload("own-changes", own_changes,
             "one transaction among the rows that it ended", 2),
    Workload("rollback", rollback, "ROLLBACK of 500,000 updates", 2),
    Workload("index-only", index_only,
             "index-only scan behind updates of other columns"),
    Workload("recovery", recovery, "kill -9 and recovery"),
    Workload("hot-row", hot_row, "one row, 16 clients, old snapshot"),
    Workload("one-page", one_page, "64 clients, rows of one page", 2),
    Workload("row-locks", locks, "64 clients lock rows of one page", 2),
    Workload("queue", queue, "queue table under an old snapshot"),
    Workload("documents", documents,
             "one key of documents of 4 to 20 kB, old snapshot"),
    Workload("updates", updates, "wide rows; an indexed column"),
    Workload("updates-keyed", keyed,
             "one of five indexed columns, in place"),
    Workload("small-cache", small_cache,
             "simple-update, shared_buffers a tenth of the table"),
    Workload("long", long_run, "simple-update out of memory, if asked for", 2,
             asked=True),
    Workload("cold-undo", cold_undo,
             "old snapshots beside undo out of memory, if asked for", 2,
             asked=True),
    Workload("many-clients", many,
             "64 and 200 clients, what they wait for, if asked for", 1,
             asked=True),
    Workload("tpch", tpch, "TPC-H Q1, Q6, Q14"),
    Workload("instructions", instructions,
             "instructions and WAL of one backend, by callgrind"),
]


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="zbench", description=__doc__)
    p.add_argument("--list", action="store_true")
    p.add_argument("--report", metavar="FOLDER",
                   help="only write report and plots of a results.jsonl again")
    p.add_argument("--readme", metavar="FILE", type=Path,
                   help="with --report: show that run in this file, too")
    p.add_argument("--bindir", type=Path)
    p.add_argument("--work", type=Path)
    p.add_argument("--out", type=Path)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--scale", type=int, default=20)
    p.add_argument("--tpch-scale", type=float, default=1)
    p.add_argument("--clients", type=int, default=4)
    p.add_argument("--grid", default="1 4 16")
    p.add_argument("--seconds-run", type=float, default=60)
    p.add_argument("--snapshot-seconds", type=float, default=40)
    p.add_argument("--long-seconds", type=float, default=900)
    p.add_argument("--changes", default="1 5 13")
    p.add_argument("--ams", default="heap zheap")
    p.add_argument("--settings", default="")
    p.add_argument("--workloads", default="")
    p.add_argument("--operations", default="")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--budget", type=float, default=23)
    p.add_argument("--spent", type=float, default=0)
    p.add_argument("--revision", default="unknown")
    return p.parse_args()


def memory_mb() -> int:
    with open("/proc/meminfo") as f:
        return int(f.readline().split()[1]) // 1024


def processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.*)$",
                          Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def settings(quick: bool, given: str) -> dict[str, str]:
    # two servers share the machine; all tables fit into either cache
    buffers = 256 if quick else max(128, min(4096, memory_mb() // 6))
    found = {
        "shared_buffers": f"{buffers}MB",
        "max_wal_size": "20GB",
        "checkpoint_timeout": "30min",
        "synchronous_commit": "off",
        "max_connections": "250",
        "track_io_timing": "off",
    }
    if quick:
        found["fsync"] = "off"
    for one in filter(None, (s.strip() for s in given.split(";"))):
        name, _, value = one.partition("=")
        found[name.strip()] = value.strip()
    return found


def chosen(names: str) -> list[Workload]:
    wanted = names.split()
    unknown = set(wanted) - {w.name for w in WORKLOADS}
    if unknown:
        sys.exit(f"no such workload: {' '.join(sorted(unknown))}")
    return [w for w in WORKLOADS
            if w.name in wanted or not wanted and not w.asked]


def faults(side: Side) -> list[str]:
    """Lines that a server log must not hold."""
    bad = re.compile(r"TRAP:|PANIC:|FATAL:.*(zheap|undo)|"
                     r"WARNING:.*(leak|stuck)|could not (write|open|read) "
                     r"block|terminated by signal")
    try:
        with open(side.logfile) as f:
            return [line.strip() for line in f if bad.search(line)]
    except OSError:
        return []


def main() -> int:
    args = arguments()
    if args.list:
        for w in WORKLOADS:
            print(f"{w.name:14} {w.title}")
        return 0
    if args.report:
        report.write(Path(args.report))
        if args.readme:
            report.show_in(args.readme, Path(args.report))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    p = Parameters(
        scale=args.scale, clients=args.clients,
        grid=[int(n) for n in args.grid.split()], seconds=args.seconds_run,
        snapshot_seconds=args.snapshot_seconds, rounds=args.rounds,
        budget=args.budget * 60, tpch_scale=args.tpch_scale, quick=args.quick,
        long_seconds=args.long_seconds, operations=args.operations,
        changes=[int(n) for n in args.changes.split()])
    if len(set(args.ams.split())) < 2:
        sys.exit("two access methods are needed")
    given = settings(args.quick, args.settings)
    sides = [Side(am, args.bindir, args.work, 5432 + i, given)
             for i, am in enumerate(args.ams.split())]
    b = Bench(p, sides, args.out, args.work, args.spent)
    workloads = chosen(args.workloads)
    try:
        b.say(f"creating {len(sides)} clusters")
        for side in sides:
            side.create()
            side.pause()
        b.meta(
            started=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            revision=" ".join(args.revision.split()), parameters=vars(p), settings=given,
            ams=[s.am for s in sides], processor=processor(),
            processors=os.cpu_count(), memory_mb=memory_mb(),
            system=platform.platform(),
            version=sides[0].sql("SELECT version()", "postgres")[0][0])
        b.run(workloads)
        b.workload = "servers"
        for side in sides:
            side.stop()
            found = faults(side)
            expected = [f for f in found if "signal 9" in f]
            b.check(side, "the server log is clean", found == expected,
                    found[:5])
        b.meta(finished=round(b.elapsed()))
    finally:
        b.close()
        for side in sides:
            if side.running:
                try:
                    side.stop("immediate")
                except Exception as e:
                    b.say(f"could not stop {side.am}: {e}")
    report.write(args.out)
    b.say(f"{b.passed} answers right, {len(b.failed)} wrong")
    for text in b.failed:
        print(f"  BROKEN  {text}")
    print((args.out / "targets.txt").read_text())
    (args.out / "counts").write_text(f"{b.passed} {len(b.failed)}\n")
    return 1 if b.failed or not b.passed else 0


if __name__ == "__main__":
    sys.exit(main())
