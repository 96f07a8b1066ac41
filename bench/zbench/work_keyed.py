"""One of five indexed columns is updated, where rows stay in place
(zheap.update_indexed_in_place), with and without an old snapshot."""
from __future__ import annotations

import random
import time

from .driver import Bench
from .measure import Span, Timed
from .pgbench import Pgbench
from .server import Side, ask
from .work_pgbench import note_run

INDEXES = ("five_a", "five_b", "five_c", "five_d", "five_pkey")
UPDATE = """\\set id random(1, 25000 * :scale)
\\set a random(1, 1000000)
UPDATE five SET a = :a WHERE id = :id;
"""
OTHER = """\\set id random(1, 25000 * :scale)
UPDATE five SET n = n + 1 WHERE id = :id;
"""
# by the changed index, by an unchanged one
READS = {"select": "SELECT count(n) FROM five WHERE a BETWEEN $1 AND $1 + 2000",
         "index-only": "SELECT count(*) FROM five WHERE b BETWEEN $1 AND $1 + 50"}
QUERIES = 1000


def sizes(side: Side) -> dict[str, int]:
    names = ("five",) + INDEXES
    row = side.sql("SELECT " + ", ".join(f"pg_relation_size('{n}')" for n in names))[0]
    return dict(zip(names, row))


def make(b: Bench, side: Side) -> None:
    side.fresh_database()
    side.sql("CREATE TABLE five (id int PRIMARY KEY, a int, b int, c int, d int, "
             "n int, t text)")
    side.sql("INSERT INTO five SELECT g, (g * 7919::bigint) % 1000000, g, g, g, 0, "
             f"repeat('x', 40) FROM generate_series(1, {25000 * b.p.scale}) g")
    for column in "abcd":
        side.sql(f"CREATE INDEX five_{column} ON five ({column})")
    side.sql("VACUUM ANALYZE")
    if not side.undo:
        return
    side.sql(f"ALTER DATABASE {side.value('SELECT current_database()')} "
             "SET zheap.update_indexed_in_place = on")
    deadline = time.monotonic() + 300
    while "keys_allowed" not in side.value("SELECT zheap_page_flags('five', 0)"):
        side.sql("UPDATE five SET a = a + 1 WHERE id = 1")
        assert time.monotonic() < deadline, "old snapshots don't go"
        time.sleep(0.05)


def reads(b: Bench, side: Side, variant: str, writers: Pgbench | None = None) -> None:
    """CPU of one backend, as long as there are writers, or for QUERIES each."""
    r = random.Random(b.p.scale)
    spent = dict.fromkeys(READS, 0.0)
    n = 0
    with Timed(side) as t:
        t.set(enable_seqscan="off", enable_bitmapscan="off")
        for name, query in READS.items():
            t.cursor.execute(f'PREPARE "{name}" (int) AS {query}')
        while writers.running() if writers else n < QUERIES:
            for name in READS:
                top = 1000000 if name == "select" else 25000 * b.p.scale
                spent[name] += t.run(f'EXECUTE "{name}" ({r.randrange(top)})')[1]
            n += 1
    if writers:
        writers.wait()
    for name, seconds in spent.items():
        b.note(side, "cpu_per_query", seconds / max(n, 1) * 1e6, "us", f"{name} {variant}")
    b.say(f"{side.am:6} {variant}: " + ", ".join(
        f"{name} {seconds / max(n, 1) * 1e6:.1f} us CPU" for name, seconds in spent.items()))


def writes(b: Bench, side: Side, variant: str, script: str = UPDATE,
           seconds: float = 0) -> None:
    begin = sizes(side)
    with Span(side) as span:
        pg = Pgbench(side, b.p.clients, seconds or b.p.short, script=script,
                     scale=b.p.scale).wait()
    note_run(b, side, pg, span, variant)
    end = sizes(side)
    b.note(side, "table_growth", end["five"] / begin["five"] - 1, "share", variant)
    b.note(side, "changed_index_size", end["five_a"], "bytes", variant)
    b.note(side, "changed_index_growth", end["five_a"] / begin["five_a"] - 1,
           "share", variant)
    b.note(side, "other_indexes_growth", sum(end[n] for n in INDEXES[1:]) /
           sum(begin[n] for n in INDEXES[1:]) - 1, "share", variant)


def check(b: Bench, side: Side) -> None:
    with Timed(side) as t:
        t.set(enable_indexscan="off", enable_bitmapscan="off",
              enable_indexonlyscan="off")
        question = "SELECT count(*), sum(a), sum(n) FROM five WHERE a > 0"
        by_table = t.run(question)[2]
        t.set(enable_indexscan="on", enable_seqscan="off")
        by_index = t.run(question)[2]
    b.check(side, "all rows are there, by table and by index",
            by_table == by_index, f"{by_table} {by_index}")
    b.check_pages(side, "five")


def keyed(b: Bench) -> None:
    for side in b.turns():
        make(b, side)
        with b.active(side):
            reads(b, side, "before")
            writes(b, side, "five, other column", OTHER)
            writes(b, side, "five", seconds=b.p.seconds)
            reads(b, side, "in the midst",
                  Pgbench(side, b.p.clients, b.p.short, script=UPDATE, scale=b.p.scale))
            reads(b, side, "behind it")
            for _ in range(3):	# one sweeps, one clears, an xid between them
                side.sql("VACUUM five")
                side.sql("SELECT txid_current()")
            reads(b, side, "vacuumed")
            check(b, side)
        make(b, side)
        question = "SELECT count(*), sum(a) FROM five WHERE a BETWEEN 1000 AND 200000"
        with b.active(side), Timed(side) as old:
            old.set(enable_seqscan="off")
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            first = old.run(question)[2]
            writes(b, side, "five, old snapshot")
            b.check(side, "the old snapshot saw the same", first == old.run(question)[2])
            ask(old.cursor, "COMMIT")
            writes(b, side, "five, snapshot gone")
            check(b, side)
