"""Workloads of single large statements: rows, loads, scans, whole-table
updates and deletes, rollback, index-only scans."""
from __future__ import annotations

import time

from .driver import MB, Bench
from .measure import Span, Timed
from .pgbench import load
from .server import Side
from .work_pgbench import ACCOUNTS, UNDO_FLOOR, middle

# name -> (columns, what to select for row g)
NARROW = {
    "history": ("tid int, bid int, aid int, delta int, mtime timestamp, "
                "filler char(22)",
                "g % 10, g % 100, g, g % 1000, "
                "timestamp '2024-01-01' + g * interval '1 s', null"),
    "mixed": ("a int, b int, c bool, d timestamptz, e text",
              "g, g % 7, true, timestamptz '2024-01-01' + g * interval '1 s', "
              "'abc'"),
    "int": ("a int", "g"),
}


def size_of(side: Side, table: str) -> int:
    return side.value(f"SELECT pg_relation_size('{table}')")


def row_size(b: Bench) -> None:
    """Bytes of table per row, everything included."""
    n = 25000 * b.p.scale
    for side in b.turns():
        load(side, b.p.scale)
        b.note(side, "bytes_per_row", size_of(side, ACCOUNTS) / b.p.rows,
               "bytes", "accounts")
        for name, (columns, values) in NARROW.items():
            table = f"rows_{name}"
            side.sql(f"CREATE TABLE {table} ({columns})")
            side.sql(f"INSERT INTO {table} SELECT {values} "
                     f"FROM generate_series(1, {n}) g")
            b.note(side, "bytes_per_row", size_of(side, table) / n, "bytes",
                   name)
            count = side.value(f"SELECT count(*) FROM {table}")
            b.check(side, f"{name} has all its rows", count == n, count)
            b.check_pages(side, table)


def bulk(b: Bench) -> None:
    """COPY and INSERT .. SELECT of as many rows as pgbench_accounts has."""
    columns = "(aid int NOT NULL, bid int, abalance int, filler char(84))"
    file = b.work / "copy.data"
    for side in b.sides:
        load(side, b.p.scale)
    b.sides[0].sql(f"COPY {ACCOUNTS} TO '{file}'")
    try:
        for way, statement in (
                ("copy", f"COPY target FROM '{file}'"),
                ("insert_select",
                 f"INSERT INTO target SELECT * FROM {ACCOUNTS}")):
            walls: dict[str, list[float]] = {s.am: [] for s in b.sides}
            for turn in range(1 if b.p.quick else 3):
                for side in b.turns():
                    side.sql(f"CREATE TABLE target {columns}")
                    side.sql("CHECKPOINT")
                    with Span(side) as span:
                        span_wall = timed(side, statement)
                    walls[side.am].append(span_wall)
                    if turn == 0:
                        b.note(side, f"{way}_wal", span.wal, "bytes")
                        b.note(side, f"{way}_cpu", span.cpu * 1000, "ms")
                        got = side.sql("SELECT count(*), sum(aid) FROM target")
                        want = (b.p.rows, b.p.rows * (b.p.rows + 1) // 2)
                        b.check(side, f"{way} wrote all rows", got[0] == want,
                                got)
                        b.check_pages(side, "target")
                    side.sql("DROP TABLE target")
            for side in b.sides:
                b.note(side, way, min(walls[side.am]) * 1000, "ms")
    finally:
        file.unlink(missing_ok=True)


def timed(side: Side, statement: str) -> float:
    with Timed(side) as t:
        return t.run(statement)[0]


def scan(b: Bench) -> None:
    """Warm scans of pgbench_accounts, with 0 and 2 workers."""
    for side in b.sides:
        load(side, b.p.scale)
    questions = {"sum": f"SELECT sum(abalance) FROM {ACCOUNTS}",
                 "count": f"SELECT count(*) FROM {ACCOUNTS}"}
    for workers in (0, 2):
        for name, question in questions.items():
            for side in b.turns():
                with Timed(side) as t:
                    t.set(enable_indexonlyscan="off", enable_indexscan="off",
                          max_parallel_workers_per_gather=workers,
                          parallel_setup_cost=0, parallel_tuple_cost=0,
                          min_parallel_table_scan_size=0)
                    t.run(question)
                    walls, rows = t.best(question, 3 if b.p.quick else 9)
                b.note(side, name, middle(walls) * 1000, "ms",
                       f"{workers} workers")
                b.check(side, f"{name} with {workers} workers",
                        rows[0][0] == (0 if name == "sum" else b.p.rows), rows)


def full_update(b: Bench) -> None:
    """UPDATE of every row, twice."""
    for side in b.turns():
        load(side, b.p.scale)
        begin = size_of(side, ACCOUNTS)
        for time_ in ("first", "second"):
            with Span(side) as span:
                wall = timed(side, f"UPDATE {ACCOUNTS} "
                             "SET abalance = abalance + 1")
            b.note(side, "update", wall * 1000, "ms", time_)
            b.note(side, "cpu", span.cpu * 1000, "ms", time_)
            b.note(side, "wal", span.wal, "bytes", time_)
        end = size_of(side, ACCOUNTS)
        b.note(side, "table_size", end / begin, "times", "after two")
        got = side.sql(f"SELECT sum(abalance), count(*) FROM {ACCOUNTS}")[0]
        b.check(side, "each row was updated twice",
                got == (2 * b.p.rows, b.p.rows), got)
        b.check(side, "the table did not grow", end == begin,
                f"{begin} {end}", ours_only=True)
        b.check_pages(side, ACCOUNTS)


def delete_insert(b: Bench) -> None:
    """Delete every second row and insert as many, without a VACUUM."""
    for snapshot in (False, True):
        for side in b.turns():
            delete_insert_run(b, side, snapshot)


def delete_insert_run(b: Bench, side: Side, snapshot: bool) -> None:
    variant = "old snapshot" if snapshot else "no old snapshot"
    question = f"SELECT count(*), sum(aid) FROM {ACCOUNTS}"
    load(side, b.p.scale)
    begin = size_of(side, ACCOUNTS)
    with Timed(side) as old:
        first = last = None
        if snapshot:
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            first = old.run(question)[2]
        with Span(side) as span:
            wall = timed(side, f"DELETE FROM {ACCOUNTS} WHERE aid % 2 = 0")
        b.note(side, "delete", wall * 1000, "ms", variant)
        b.note(side, "delete_wal", span.wal, "bytes", variant)
        with Span(side) as span:
            wall = timed(side, f"INSERT INTO {ACCOUNTS} "
                         "SELECT g, g / 100000 + 1, 0, '' FROM "
                         f"generate_series(2, {b.p.rows}, 2) g")
        b.note(side, "insert", wall * 1000, "ms", variant)
        b.note(side, "insert_wal", span.wal, "bytes", variant)
        end = size_of(side, ACCOUNTS)
        b.note(side, "table_size", end / begin, "times", variant)
        if snapshot:
            last = old.run(question)[2]
            old.cursor.execute("COMMIT")
    b.check(side, f"the old snapshot saw all rows ({variant})", first == last,
            f"{first} {last}")
    got = side.sql(question)[0]
    want = (b.p.rows, b.p.rows * (b.p.rows + 1) // 2)
    b.check(side, f"all rows are back ({variant})", got == want, got)
    b.check(side, f"the space of deleted rows was used again ({variant})",
            end <= 1.1 * begin, f"{begin} {end}", ours_only=True)
    b.check_pages(side, ACCOUNTS)


def rollback(b: Bench) -> None:
    """ROLLBACK of a large update, and the first scan after it."""
    n = min(500000, b.p.rows // 4)
    for side in b.turns():
        load(side, b.p.scale)
        question = f"SELECT sum(abalance), count(*) FROM {ACCOUNTS}"
        with Timed(side) as t, Timed(side) as reader:
            reader.set(max_parallel_workers_per_gather=0)
            walls, _ = reader.best(question, 5)
            normal = middle(walls)
            t.run("BEGIN")
            t.run(f"UPDATE {ACCOUNTS} SET abalance = abalance + 1 "
                  f"WHERE aid <= {n}")
            answer = t.run("ROLLBACK")[0]
            begin = time.monotonic()
            wall, _, rows = reader.run(question)
            b.note(side, "rollback", answer * 1000, "ms")
            b.note(side, "first_scan", wall * 1000, "ms")
            b.check(side, "nothing of it is seen right after it",
                    rows[0] == (0, b.p.rows), rows)
            while wall > 1.5 * normal and time.monotonic() < begin + 20:
                time.sleep(0.05)
                wall = reader.run(question)[0]
            b.note(side, "normal_after", (time.monotonic() - begin) * 1000,
                   "ms")
            rows = reader.run(question)[2]
        b.check(side, "nothing of it is seen later", rows[0] == (0, b.p.rows),
                rows)
        check_floor(b, side, "undo is at its floor after a rollback")
        b.check_pages(side, ACCOUNTS)


def check_floor(b: Bench, side: Side, text: str) -> None:
    """Undo shrinks to its floor; rolling back may take its time before."""
    if not side.undo:
        return
    begin = time.monotonic()
    while side.undo_size() > UNDO_FLOOR and time.monotonic() < begin + 60:
        time.sleep(0.2)
    b.note(side, "undo_floor_after", time.monotonic() - begin, "s")
    size = side.undo_size()
    b.check(side, text, size <= UNDO_FLOOR, f"{size / MB:.1f} MB")


def index_only(b: Bench) -> None:
    """Index-only scans while other columns are being updated."""
    n = 10000 * b.p.scale
    for side in b.turns():
        load(side, b.p.scale)
        side.sql(f"VACUUM ANALYZE {ACCOUNTS}")
        with Timed(side) as t:
            t.set(enable_seqscan="off", enable_bitmapscan="off",
                  max_parallel_workers_per_gather=0)
            t.run(f"UPDATE {ACCOUNTS} SET abalance = abalance + 1 "
                  f"WHERE aid <= {n}")
            wall, _, rows = t.run(
                "EXPLAIN (ANALYZE, FORMAT JSON) "
                f"SELECT count(aid) FROM {ACCOUNTS} WHERE aid <= {n}")
            node = rows[0][0][0]["Plan"]
            while node["Node Type"] != "Index Only Scan":
                node = node["Plans"][0]
            b.note(side, "heap_fetches", node["Heap Fetches"], "rows")
            b.note(side, "time", wall * 1000, "ms")
            b.check(side, "the index-only scan found all rows",
                    node["Actual Rows"] == n, node["Actual Rows"])
            b.check(side, "no heap fetches after updates of other columns",
                    node["Heap Fetches"] == 0, node["Heap Fetches"],
                    ours_only=True)
