"""What old snapshots read once undo has outgrown memory: each row changed so
and so often, in random order, between the snapshot and the question."""
from __future__ import annotations

import glob
import os
import random

from .driver import Bench
from .measure import Disk, Timed
from .pgbench import Pgbench, load
from .server import Side

ACCOUNTS = "pgbench_accounts"
BATCH = 20
CHANGE = "BEGIN;\n" + BATCH * f"""\\set aid random(1, 100000 * :scale)
UPDATE {ACCOUNTS} SET abalance = abalance + 1 WHERE aid = :aid;
""" + "COMMIT;\n"
ALL = f"SELECT count(*), sum(abalance) FROM {ACCOUNTS}"
SERIAL = {"max_parallel_workers_per_gather": 0}
PARALLEL = {"max_parallel_workers_per_gather": 2, "parallel_setup_cost": 0,
            "parallel_tuple_cost": 0, "min_parallel_table_scan_size": 0}
BY_INDEX = dict(SERIAL, enable_seqscan="off", enable_bitmapscan="off")
KEYS = 500


def drop_caches(side: Side) -> None:
    """The kernel forgets what is on disk already; shared buffers stay."""
    side.sql("CHECKPOINT", "postgres")
    os.sync()
    for path in glob.glob(f"{side.data}/base/*/*"):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def questions(rows: int) -> list[tuple[str, dict, str, tuple]]:
    """name, settings, statement, what the snapshot from before answers"""
    tenth = f"{ALL} WHERE aid BETWEEN {rows // 2} AND {rows // 2 + rows // 10 - 1}"
    keys = sorted(random.Random(1).sample(range(1, rows + 1), KEYS))
    by_key = f"{ALL} WHERE aid = ANY ('{{{','.join(map(str, keys))}}}')"
    return [("scan", SERIAL, ALL, (rows, 0)),
            ("parallel", PARALLEL, ALL, (rows, 0)),
            ("range", BY_INDEX, tenth, (rows // 10, 0)),
            ("keys", BY_INDEX, by_key, (KEYS, 0))]


class Old:
    """A session whose snapshot is from before the changes."""

    def __init__(self, side: Side, settings: dict):
        self.timed = Timed(side)
        self.timed.set(**settings)
        self.timed.cursor.execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.timed.cursor.execute("SELECT 1")


def measure(b: Bench, side: Side, old: Timed, variant: str, statement: str,
            answer: tuple) -> None:
    disk = Disk(side)
    wall, cpu, rows = old.run(statement)
    read, written = disk.so_far()
    b.check(side, f"{variant}: the old snapshot's answer",
            tuple(rows[0]) == answer, rows)
    b.note(side, "wall", wall * 1000, "ms", variant)
    b.note(side, "cpu", cpu * 1000, "ms", variant)
    b.note(side, "read", read, "bytes", variant)
    b.note(side, "written", written, "bytes", variant)
    b.say(f"{side.am:6} {variant}: {wall:.2f} s, CPU {cpu:.2f} s, "
          f"{read // 8192} pages read")


def writers_beside(b: Bench, side: Side, old: Timed, variant: str,
                   rows: int) -> None:
    """The same scan while clients go on, and what becomes of their speed."""
    def writers(seconds: float) -> Pgbench:
        return Pgbench(side, b.p.clients, seconds, script=CHANGE,
                       scale=b.p.scale)
    alone = writers(b.p.short).wait().tps
    pg = writers(b.p.short)
    measure(b, side, old, variant, ALL, (rows, 0))
    beside = pg.wait().tps
    b.note(side, "writers_tps", beside / max(alone, 1e-9),
           "share", variant)


def cold_run(b: Bench, side: Side) -> None:
    rows = b.p.rows
    load(side, b.p.scale)
    asked = questions(rows)
    old = {(n, name): Old(side, settings) for n in b.p.changes
           for name, settings, _, _ in asked}
    beside = Old(side, SERIAL)
    done = 0
    for n in b.p.changes:
        pg = Pgbench(side, b.p.clients, 0, script=CHANGE, scale=b.p.scale,
                     transactions=rows * (n - done) // BATCH).wait()
        done = n
        b.note(side, "tps", pg.tps, "1/s", f"{n} changes")
        b.note(side, "undo", side.undo_size(), "bytes", f"{n} changes")
        for name, _, statement, answer in asked:
            session = old[n, name].timed
            drop_caches(side)
            measure(b, side, session, f"{n} changes, {name}", statement,
                    answer)
            if name in ("scan", "parallel"):
                drop_caches(side)
                measure(b, side, session, f"{n} changes, {name} again",
                        statement, answer)
            session.connection.close()
    drop_caches(side)
    writers_beside(b, side, beside.timed, f"{done} changes, scan beside writers",
                   rows)
    beside.timed.connection.close()
    b.check_pages(side, ACCOUNTS)


def cold_undo(b: Bench) -> None:
    for side in b.turns():
        others = [other for other in b.sides if other is not side]
        for other in others:
            other.stop()
        cold_run(b, side)
        for other in others:
            other.start()
