"""Documents of 4 to 20 kB, of which one key changes at a time: what becomes of
the space of large values, with an old snapshot open and after it."""
from __future__ import annotations

import time

from .driver import MB, Bench
from .measure import Sampler, Span, Timed
from .pgbench import Pgbench
from .server import Side, ask
from .work_pgbench import UNDO_FLOOR, note_run

DIGEST = """SELECT count(*), sum((doc ->> 'n')::int),
    sum(hashtextextended(doc ->> 'body', 0)::numeric) FROM documents"""
CHANGE = """\\set id random(1, %d)
UPDATE documents SET doc = jsonb_set(doc, '{n}',
    to_jsonb((doc ->> 'n')::int + 1)) WHERE id = :id;
"""


def load(side: Side, rows: int) -> None:
    """Bodies that don't compress well, as most documents of that size."""
    side.fresh_database()
    side.sql("CREATE TABLE documents (id int PRIMARY KEY, doc jsonb)")
    side.sql(f"""INSERT INTO documents
        SELECT d, jsonb_build_object('n', 0, 'body',
            (SELECT string_agg(md5(d || '.' || g), '')
             FROM generate_series(1, 125 + d * 7919 % 500) g))
        FROM generate_series(1, {rows}) d""")
    side.sql("VACUUM ANALYZE documents")


def probe_of(side: Side):
    toast = side.value("SELECT reltoastrelid::regclass FROM pg_class "
                       "WHERE relname = 'documents'")
    statement = f"""SELECT pg_total_relation_size('documents'),
        pg_relation_size('{toast}'), pg_indexes_size('{toast}'),
        {"pg_zheap_undo_size()" if side.undo else "0"}"""

    def probe(cursor) -> dict[str, float]:
        row = ask(cursor, statement)[0]
        return {"total": row[0], "toast": row[1], "index": row[2],
                "undo": row[3]}
    return probe


def documents(b: Bench) -> None:
    for side in b.turns():
        documents_run(b, side)


def documents_run(b: Bench, side: Side) -> None:
    rows = b.p.rows // 40
    load(side, rows)
    with b.active(side), Timed(side) as old:
        old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        first = old.run(DIGEST)[2]
        sampler = Sampler(side, probe_of(side))
        span = Span(side)
        began = sampler.mark()
        pg = Pgbench(side, b.p.clients, b.p.seconds, script=CHANGE % rows)
        while pg.running() and sampler.mark() < began + b.p.snapshot_seconds:
            time.sleep(0.05)
        wall, _, seen = old.run(DIGEST)
        old.cursor.execute("COMMIT")
        closed = sampler.mark()
        pg.wait()
        span.stop()
        # writers make more than the floor between two passes of the launcher
        rested = max(closed + 5, sampler.mark() + 1)
        while side.undo and sampler.mark() < rested + 2:
            time.sleep(0.1)
        series = sampler.stop()
    note_run(b, side, pg, span)
    b.note(side, "fpi_and_wal_per_xact",
           (span.wal + span.fpi) / max(pg.transactions, 1), "bytes")
    b.note(side, "old_scan", wall * 1000, "ms")
    b.series(side, "documents", series, began=began, closed=closed)
    for what in ("total", "toast", "index"):
        sizes = series.values[what]
        b.note(side, f"{what}_growth", sizes[-1] / max(sizes[0], 1) - 1,
               "share")
    total = series.values["total"]
    minute = next((v for t, v in zip(series.t, total) if t > began + 60),
                  total[-1])
    b.note(side, "growth_after_a_minute", total[-1] / minute - 1, "share")
    b.say(f"{side.am:6} {total[0] / MB:.0f} MB became {total[-1] / MB:.0f} MB,"
          f" undo at most {max(series.values['undo']) / MB:.0f} MB")
    if side.undo:
        undo = series.values["undo"]

        def most(since: float) -> float:
            return max([size for t, size in zip(series.t, undo)
                        if since <= t] or undo[-1:])

        b.note(side, "undo_peak", max(undo), "bytes")
        b.note(side, "undo_floor", most(closed + 5), "bytes")
        floor = most(rested)
        b.check(side, "undo is at its floor when snapshot and writers are gone",
                floor <= UNDO_FLOOR, f"{floor} bytes")
    b.check(side, "the old snapshot saw the same all along", seen == first,
            f"{first} {seen}")
    with Timed(side) as t:
        last = t.run(DIGEST)[2]
    b.check(side, "each transaction counted, bodies are unchanged",
            last[0] == (rows, pg.transactions, first[0][2]), last)
    b.check_pages(side, "documents")
