"""Workloads that pgbench drives: built-in and own scripts, with and without
an old snapshot, and the recovery after a crash under them."""
from __future__ import annotations

import subprocess
import time

from .driver import MB, Bench
from .measure import (Disk, Sampler, Series, Span, Timed, sizes_probe)
from .pgbench import Pgbench, load
from .server import DATABASE, Side, ask

ACCOUNTS, PKEY = "pgbench_accounts", "pgbench_accounts_pkey"
UNDO_FLOOR = 8 * MB


def note_run(b: Bench, side: Side, pg: Pgbench, span: Span,
             variant: str = "") -> None:
    """What each pgbench run tells."""
    n = max(pg.transactions, 1)
    b.note(side, "tps", pg.tps, "1/s", variant)
    b.note(side, "transactions", pg.transactions, "", variant)
    b.note(side, "cpu_per_xact", span.cpu / n * 1e6, "us", variant)
    b.note(side, "wal_per_xact", span.wal / n, "bytes", variant)
    b.note(side, "fpi_per_xact", span.fpi / n, "bytes", variant)
    b.note(side, "latency", pg.latency, "ms", variant)
    b.say(f"{side.am:6} {variant}: {pg.tps:.0f} tps, "
          f"{span.cpu / n * 1e6:.1f} us CPU and {span.wal / n:.0f} bytes of "
          "WAL per transaction")


def check_sums(b: Bench, side: Side) -> None:
    """Accounts got what history says, tellers what branches got."""
    with side.session() as c:
        a, h, t, r, n = ask(c, f"""
            SELECT (SELECT sum(abalance) FROM {ACCOUNTS}),
                   (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
                   (SELECT sum(tbalance) FROM pgbench_tellers),
                   (SELECT sum(bbalance) FROM pgbench_branches),
                   (SELECT count(*) FROM {ACCOUNTS})""")[0]
    b.check(side, "sum(abalance) = sum of history", a == h, f"{a} {h}")
    b.check(side, "sum(tbalance) = sum(bbalance)", t == r, f"{t} {r}")
    b.check(side, "all accounts are there", n == b.p.rows, n)


def bloat(b: Bench) -> None:
    counts = [b.p.clients] + [c for c in b.p.grid if c > b.p.clients][-1:]
    for clients in counts:
        if b.round > 1 and clients != b.p.clients:
            continue
        for side in b.turns():
            bloat_run(b, side, clients)


def bloat_run(b: Bench, side: Side, clients: int) -> None:
    """simple-update with a snapshot open for the first part of the run."""
    variant = f"{clients} clients"
    question = f"SELECT sum(abalance), count(*) FROM {ACCOUNTS}"
    load(side, b.p.scale)
    with b.active(side), Timed(side) as old:
        old.set(max_parallel_workers_per_gather=0)
        old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        first = old.run(question)[2]
        sampler = Sampler(side, sizes_probe(side, ACCOUNTS, PKEY))
        span = Span(side)
        marks = {"began": sampler.mark()}
        pg = Pgbench(side, clients, b.p.seconds, builtin="simple-update")
        while pg.running() and \
                sampler.mark() < marks["began"] + b.p.snapshot_seconds:
            time.sleep(0.05)
        scans = [old.run(question) for _ in range(3)]
        old.cursor.execute("COMMIT")
        marks["closed"] = sampler.mark()
        pg.wait()
        marks["ended"] = sampler.mark()
        span.stop()
        while side.undo and sampler.mark() < marks["closed"] + 7:
            time.sleep(0.1)
        series = sampler.stop()
        vacuums = side.value(
            "SELECT autovacuum_count FROM pg_stat_all_tables "
            f"WHERE relname = '{ACCOUNTS}'")
    note_run(b, side, pg, span, variant)
    note_sizes(b, side, series, marks, pg, variant)
    b.note(side, "old_scan", middle(s[0] for s in scans) * 1000, "ms", variant)
    b.note(side, "old_scan_cpu", middle(s[1] for s in scans) * 1000, "ms",
           variant)
    b.note(side, "autovacuums", vacuums, "", variant)
    with Timed(side) as t:
        b.note(side, "vacuum", t.run(f"VACUUM {ACCOUNTS}")[0] * 1000, "ms",
               variant)
    check_sums(b, side)
    b.check(side, "the old snapshot saw the same all along",
            all(s[2] == first for s in scans), f"{first} {scans[-1][2]}")
    b.check(side, "history has a row per transaction", side.value(
        "SELECT count(*) FROM pgbench_history") == pg.transactions)
    b.check(side, "no autovacuum of the updated table", vacuums == 0, vacuums,
            ours_only=True)
    b.check_pages(side, ACCOUNTS, "pgbench_history")


def middle(values) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def note_sizes(b: Bench, side: Side, series: Series, marks: dict[str, float],
               pg: Pgbench, variant: str) -> None:
    """Growth of table and index, the course of undo, tps over time."""
    b.series(side, "sizes", series, variant, **marks)
    course = Series()
    for second, tps in pg.progress:
        course.add(marks["began"] + second, tps=tps)
    b.series(side, "tps", course, variant, **marks)
    for what in ("table", "index"):
        sizes = series.values[what]
        b.note(side, f"{what}_growth", sizes[-1] / sizes[0] - 1, "share",
               variant)
        b.check(side, f"the {what} did not grow", sizes[-1] == sizes[0],
                f"{sizes[0]} to {sizes[-1]}", ours_only=True)
    if not side.undo:
        return
    undo = series.values["undo"]
    peak = max(undo)
    b.note(side, "undo_peak", peak, "bytes", variant)
    before = sum(1 for t, _ in pg.progress
                 if t <= marks["closed"] - marks["began"])
    share = sum(tps for _, tps in pg.progress[:before])
    b.note(side, "undo_peak_per_xact", peak / max(share, 1), "bytes", variant)
    floor = [size for t, size in zip(series.t, undo)
             if marks["closed"] + 5 <= t] or undo[-1:]
    b.note(side, "undo_floor", max(floor), "bytes", variant)
    reached = next((t for t, size in zip(series.t, undo)
                    if t > marks["closed"] and size <= UNDO_FLOOR), None)
    b.note(side, "undo_floor_after",
           reached - marks["closed"] if reached else float("inf"), "s",
           variant)
    b.check(side, "undo is at its floor 5 s after the snapshot closed",
            max(floor) <= UNDO_FLOOR, f"{max(floor)} bytes")


def pgbench(b: Bench) -> None:
    """The three built-in scripts, by number of clients."""
    for side in b.sides:
        load(side, b.p.scale)
        side.sql(f"SELECT count(*) FROM {ACCOUNTS}")
    for clients in b.p.grid:
        if b.round > 1 and clients != b.p.clients:
            continue
        seconds = b.p.short if clients == b.p.clients else 0.6 * b.p.short
        for script in ("select-only", "simple-update", "tpcb-like"):
            for side in b.turns():
                with b.active(side):
                    with Span(side) as span:
                        pg = Pgbench(side, clients, seconds, script).wait()
                note_run(b, side, pg, span, f"{script}, {clients} clients")
    for side in b.sides:
        check_sums(b, side)
        b.check_pages(side, ACCOUNTS, "pgbench_tellers", "pgbench_branches",
                      "pgbench_history")


SINGLE = """INSERT INTO single (a, b, c)
    VALUES (1, 0, 'a row of some length') RETURNING id \\gset
DELETE FROM single WHERE id = :id - 100;
"""


def logical(b: Bench) -> None:
    """wal_level = logical and a subscriber, pg_recvlogical, that keeps up."""
    for side in b.sides:
        side.sql("ALTER SYSTEM SET wal_level = logical", "postgres")
        side.stop()
        side.start()
    try:
        for side in b.turns():
            logical_of(b, side)
    finally:
        for side in b.sides:
            side.sql("ALTER SYSTEM RESET wal_level", "postgres")
            side.stop()
            side.start()


def logical_of(b: Bench, side: Side) -> None:
    load(side, b.p.scale)
    side.sql("CREATE TABLE single "
             "(id bigserial PRIMARY KEY, a int, b int, c text)")
    side.sql("INSERT INTO single (a) SELECT 0 FROM generate_series(1, 100)")
    side.sql("ALTER TABLE pgbench_history REPLICA IDENTITY FULL")
    side.sql("CREATE PUBLICATION bench FOR ALL TABLES")
    side.sql("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    subscriber = side.program(
        "pg_recvlogical", "-d", "bench", "--slot", "bench", "--start",
        "-o", "proto_version=1", "-o", "publication_names=bench",
        "-f", "/dev/null", "-s", "1", "-F", "1",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for name in ("simple-update", "tpcb-like", "single rows"):
            with b.active(side):
                span = Span(side)
                pg = Pgbench(
                    side, b.p.clients, b.p.short,
                    builtin=None if name == "single rows" else name,
                    script=SINGLE).wait()
                behind = follow(b, side)
                span.stop()
            note_run(b, side, pg, span, name)
            b.note(side, "behind", behind, "s", name)
    finally:
        subscriber.terminate()
        subscriber.wait()
    sent = side.value("SELECT total_txns FROM pg_stat_replication_slots "
                      "WHERE slot_name = 'bench'")
    b.check(side, "transactions were decoded", sent > 0, sent)
    side.sql("SELECT pg_drop_replication_slot('bench')")
    check_sums(b, side)
    b.check_pages(side, ACCOUNTS, "pgbench_tellers", "pgbench_branches",
                  "pgbench_history", "single")


def follow(b: Bench, side: Side) -> float:
    """Wait until the subscriber has all; how long that took."""
    began = time.monotonic()
    lsn = side.value("SELECT pg_current_wal_lsn()")
    while not side.value(f"SELECT confirmed_flush_lsn >= '{lsn}' FROM "
                         "pg_replication_slots WHERE slot_name = 'bench'"):
        if time.monotonic() > began + 300:
            b.check(side, "the subscriber keeps up", False)
            break
        time.sleep(0.1)
    return time.monotonic() - began


COUNTER = "UPDATE counter SET n = n + 1 WHERE id = 1;\n"


def hot_row(b: Bench) -> None:
    """One row, 16 clients, read all along by an old snapshot."""
    for side in b.turns():
        side.fresh_database()
        side.sql("CREATE TABLE counter (id int PRIMARY KEY, n bigint)")
        side.sql("INSERT INTO counter VALUES (1, 0)")
        with b.active(side), Timed(side) as old:
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            seen = [old.run("SELECT n FROM counter WHERE id = 1")[2][0][0]]
            sampler = Sampler(side, sizes_probe(side, "counter",
                                                "counter_pkey"))
            series = Series()
            with Span(side) as span:
                pg = Pgbench(side, 16, b.p.short, script=COUNTER)
                while pg.running():
                    wall, _, rows = old.run("SELECT n FROM counter "
                                            "WHERE id = 1")
                    seen.append(rows[0][0])
                    series.add(time.monotonic() - pg.began, read=wall * 1000)
                    time.sleep(0.25)
                pg.wait()
            walls, rows = old.best("SELECT n FROM counter WHERE id = 1", 5)
            seen.append(rows[0][0])
            old.cursor.execute("COMMIT")
            sizes = sampler.stop()
        note_run(b, side, pg, span)
        b.note(side, "old_read", middle(walls) * 1000, "ms")
        b.note(side, "table_end", sizes.values["table"][-1], "bytes")
        b.note(side, "undo_peak", max(sizes.values["undo"]), "bytes")
        b.series(side, "old_read", series)
        n = side.value("SELECT n FROM counter")
        b.check(side, "the counter counted every update",
                n == pg.transactions, f"{n} {pg.transactions}")
        b.check(side, "the old snapshot saw 0", set(seen) == {0}, set(seen))
        b.check_pages(side, "counter")


ONE_PAGE = 200					# rows that fill a page of ours
ONE_PAGE_CLIENTS = 64
ONE_PAGE_SCRIPTS = {
    "own row": "UPDATE one_page SET n = n + 1 WHERE k = :client_id + 1;\n",
    "own row, open a while":
        "BEGIN;\nUPDATE one_page SET n = n + 1 WHERE k = :client_id + 1;\n"
        "SELECT 1;\nCOMMIT;\n",
    "any row": f"\\set k random(1, {ONE_PAGE})\n"
               "UPDATE one_page SET n = n + 1 WHERE k = :k;\n",
}
# who waits for the end of a transaction, and for the page
WAITING = """
    SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'
                            AND wait_event IN ('transactionid', 'tuple')),
           count(*) FILTER (WHERE wait_event IN ('BufferContent',
                                                 'buffer_content')),
           count(*)
    FROM pg_stat_activity WHERE state = 'active' AND query ~ '^UPDATE'"""


def one_page(b: Bench) -> None:
    """64 clients update rows of one full page."""
    for variant, script in ONE_PAGE_SCRIPTS.items():
        for side in b.turns():
            one_page_run(b, side, variant, script)


def one_page_run(b: Bench, side: Side, variant: str, script: str) -> None:
    side.fresh_database()
    side.sql("CREATE TABLE one_page (k int PRIMARY KEY, n int, t text)")
    side.sql("INSERT INTO one_page SELECT g, 0, repeat('x', 22) "
             f"FROM generate_series(1, {ONE_PAGE}) g")
    side.sql("VACUUM ANALYZE one_page")
    # heap's table grows, and nobody wants to know how fast it is scanned
    side.sql(f"ALTER DATABASE {DATABASE} SET enable_seqscan = off")

    def probe(cursor):
        for_xact, for_page, n = ask(cursor, WAITING)[0]
        return {"for_xact": for_xact, "for_page": for_page, "active": n}
    with b.active(side):
        sampler = Sampler(side, probe, 0.1)
        with Span(side) as span:
            pg = Pgbench(side, ONE_PAGE_CLIENTS, b.p.short, script=script)
            pg.wait()
        waits = sampler.stop()
    note_run(b, side, pg, span, variant)
    active = max(sum(waits.values["active"]), 1)
    for what in ("for_xact", "for_page"):
        b.note(side, f"waits_{what}", sum(waits.values[what]) / active, "share",
               variant)
    b.note(side, "table_end", side.value(
        "SELECT pg_relation_size('one_page')"), "bytes", variant)
    n = side.value("SELECT sum(n) FROM one_page")
    b.check(side, "each update counted", n == pg.transactions,
            f"{n} {pg.transactions}")
    if variant != "any row":
        b.check(side, "nobody waited for a transaction",
                sum(waits.values["for_xact"]) == 0)
    if side.undo:
        b.note(side, "xact_slots_shared", side.value(
            "SELECT xact_slots_shared FROM pg_stat_zheap_tables "
            "WHERE relname = 'one_page'"), "changes", variant)
    b.check_pages(side, "one_page")


QUEUE = """INSERT INTO queue (payload) VALUES (repeat('x', 100));
DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id
    FOR UPDATE SKIP LOCKED LIMIT 1);
"""


def queue(b: Bench) -> None:
    """Insert at one end, delete at the other, under an old snapshot."""
    for side in b.turns():
        side.fresh_database()
        side.sql("CREATE TABLE queue (id bigserial PRIMARY KEY, payload text)")
        side.sql("INSERT INTO queue (payload) SELECT repeat('x', 100) "
                 "FROM generate_series(1, 1000)")
        side.sql("VACUUM ANALYZE queue")

        def probe(cursor, side=side):
            start = time.monotonic()
            cursor.execute("SELECT min(id) FROM queue")
            cursor.fetchall()
            wall = time.monotonic() - start
            return {"min": wall * 1000,
                    **sizes_probe(side, "queue", "queue_pkey")(cursor)}
        with b.active(side), Timed(side) as old:
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            first = old.run("SELECT min(id), max(id), count(*) FROM queue")[2]
            sampler = Sampler(side, probe)
            opened = sampler.mark()
            seconds = 2 * b.p.short
            with Span(side) as span:
                pg = Pgbench(side, b.p.clients, seconds, script=QUEUE)
                while pg.running() and \
                        sampler.mark() < opened + seconds * 2 / 3:
                    time.sleep(0.05)
                last = old.run("SELECT min(id), max(id), count(*) "
                               "FROM queue")[2]
                old.cursor.execute("COMMIT")
                closed = sampler.mark()
                pg.wait()
            series = sampler.stop()
        note_run(b, side, pg, span)
        note_queue(b, side, series, opened, closed)
        left = side.value("SELECT count(*) FROM queue")
        b.check(side, "the old snapshot saw the same queue", first == last,
                f"{first} {last}")
        # SKIP LOCKED on a queue this long always finds one
        b.check(side, "each transaction took one and left one", left == 1000,
                left)
        b.check_pages(side, "queue")


def note_queue(b: Bench, side: Side, series: Series, opened: float,
               closed: float) -> None:
    under = [v for t, v in zip(series.t, series.values["min"])
             if opened < t <= closed] or [0.0]
    b.note(side, "min_early", middle(under[:max(1, len(under) // 4)]), "ms")
    b.note(side, "min_late", middle(under[-max(1, len(under) // 4):]), "ms")
    b.note(side, "table_end", series.values["table"][-1], "bytes")
    b.note(side, "index_end", series.values["index"][-1], "bytes")
    b.series(side, "queue", series, opened=opened, closed=closed)


WIDE = """\\set id random(1, 5000 * :scale)
UPDATE wide SET small = small + 1 WHERE id = :id;
"""
INDEXED = """\\set id random(1, 50000 * :scale)
\\set k random(1, 1000000)
UPDATE keyed SET k = :k WHERE id = :id;
"""


def updates(b: Bench) -> None:
    """A small column of wide rows; a column with an index."""
    rows = 5000 * b.p.scale
    columns = ", ".join(f"c{i} text DEFAULT repeat('{i % 10}', 48)"
                        for i in range(20))
    make = {
        "wide": ["CREATE TABLE wide (id int PRIMARY KEY, small int, "
                 f"{columns})",
                 "INSERT INTO wide SELECT g, 0 "
                 f"FROM generate_series(1, {rows}) g"],
        "keyed": ["CREATE TABLE keyed (id int PRIMARY KEY, k int, t text)",
                  "INSERT INTO keyed SELECT g, g, repeat('x', 40) "
                  f"FROM generate_series(1, {rows * 10}) g",
                  "CREATE INDEX keyed_k ON keyed (k)"],
    }
    asks = {"wide": "SELECT sum(small), count(*) FROM wide",
            "keyed": "SELECT count(*), count(*) FROM keyed"}
    for side in b.sides:
        side.fresh_database()
        for statements in make.values():
            for statement in statements:
                side.sql(statement)
        side.sql("VACUUM ANALYZE")
    for table, script, index in (("wide", WIDE, "wide_pkey"),
                                 ("keyed", INDEXED, "keyed_k")):
        for side in b.turns():
            probe = sizes_probe(side, table, index)
            with b.active(side), side.session() as c:
                begin = probe(c)
                with Span(side) as span:
                    pg = Pgbench(side, b.p.clients, b.p.short,
                                 script=script, scale=b.p.scale).wait()
                end = probe(c)
            note_run(b, side, pg, span, table)
            for what in ("table", "index"):
                b.note(side, f"{what}_growth", end[what] / begin[what] - 1,
                       "share", table)
            total, count = side.sql(asks[table])[0]
            if table == "wide":
                b.check(side, "wide rows counted every update",
                        (total, count) == (pg.transactions, rows),
                        f"{total} {count}")
                b.check(side, "wide did not grow",
                        end["table"] == begin["table"],
                        f"{begin['table']} {end['table']}", ours_only=True)
            else:
                check_keyed(b, side, rows * 10)
            b.check_pages(side, table)


def check_keyed(b: Bench, side: Side, rows: int) -> None:
    """A sequential and an index scan see the same rows."""
    with Timed(side) as t:
        t.set(enable_indexscan="off", enable_bitmapscan="off",
              enable_indexonlyscan="off")
        question = "SELECT count(*), sum(k) FROM keyed WHERE k > 0"
        by_table = t.run(question)[2]
        t.set(enable_indexscan="on", enable_seqscan="off")
        by_index = t.run(question)[2]
    b.check(side, "keyed has all its rows, by table and by index",
            by_table == by_index and by_table[0][0] == rows,
            f"{by_table} {by_index}")


def small_cache(b: Bench) -> None:
    """simple-update with shared_buffers a tenth of the table."""
    for side in b.sides:
        load(side, b.p.scale)
    for side in b.turns():
        size = side.value(f"SELECT pg_relation_size('{ACCOUNTS}')")
        base = b.sides[0].value(f"SELECT pg_relation_size('{ACCOUNTS}')")
        buffers = max(2 * MB, base // 10)		# the same for all sides
        side.stop()
        side.start(f"shared_buffers={buffers // 1024}kB")
        with b.active(side), Timed(side) as old:
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            first = old.run(f"SELECT sum(abalance) FROM {ACCOUNTS}")[2]
            with Span(side) as span:
                pg = Pgbench(side, b.p.clients, 1.5 * b.p.short,
                             "simple-update", log=True).wait()
            last = old.run(f"SELECT sum(abalance) FROM {ACCOUNTS}")[2]
            old.cursor.execute("COMMIT")
        end = side.value(f"SELECT pg_relation_size('{ACCOUNTS}')")
        note_run(b, side, pg, span)
        b.note(side, "latency_p999", pg.percentile(0.999), "ms")
        b.note(side, "table_growth", end / size - 1, "share")
        b.check(side, "the old snapshot saw the same", first == last)
        check_sums(b, side)
        side.stop()
        side.start()


def long_run(b: Bench) -> None:
    """simple-update for a quarter of an hour, under an old snapshot for four
    fifths of it; meant for tables that do not fit into memory, which the
    other side's shared buffers may not take.  What the snapshot sees is asked
    of a sample of blocks: a scan of all versions, out of memory, takes minutes
    of the speed that is measured."""
    seen = f"SELECT sum(abalance) FROM {ACCOUNTS} TABLESAMPLE SYSTEM (2) " \
        "REPEATABLE (1)"
    for side in b.turns():
        others = [other for other in b.sides if other is not side]
        for other in others:
            other.stop()
        load(side, b.p.scale)
        probe = sizes_probe(side, ACCOUNTS, PKEY)
        with b.active(side), Timed(side) as old:
            old.cursor.execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            first = old.run(seen)[2]
            disk = Disk(side)

            def look(cursor) -> dict[str, float]:
                read, written = disk.so_far()
                return dict(probe(cursor), read=read, written=written)
            sampler = Sampler(side, look, 1.0)
            span = Span(side)
            marks = {"began": sampler.mark()}
            pg = Pgbench(side, b.p.clients, b.p.long_seconds, "simple-update")
            while pg.running() and \
                    sampler.mark() < marks["began"] + 0.8 * b.p.long_seconds:
                time.sleep(0.5)
            last = old.run(seen)[2]
            old.cursor.execute("COMMIT")
            marks["closed"] = sampler.mark()
            pg.wait()
            marks["ended"] = sampler.mark()
            span.stop()
            series = sampler.stop()
        note_run(b, side, pg, span)
        note_long(b, side, series, marks, pg)
        b.check(side, "the old snapshot saw the same", first == last)
        check_sums(b, side)
        b.check_pages(side, ACCOUNTS, "pgbench_history")
        for other in others:
            other.start()


def note_long(b: Bench, side: Side, series: Series, marks: dict[str, float],
              pg: Pgbench) -> None:
    """Speed of the last third, and pages from and to storage."""
    course = Series()
    for second, tps in pg.progress:
        course.add(marks["began"] + second, tps=tps)
    b.series(side, "long-tps", course, **marks)
    b.series(side, "long-io", series, **marks)
    late = [tps for second, tps in pg.progress
            if second > 2 / 3 * b.p.long_seconds]
    b.note(side, "late_tps", sum(late) / max(len(late), 1), "1/s")
    for what in ("read", "written"):
        b.note(side, f"pages_{what}_per_xact", series.values[what][-1] / 8192
               / max(pg.transactions, 1), "pages")


def recovery(b: Bench) -> None:
    """kill -9 under simple-update, and how long until it answers again."""
    for side in b.turns():
        load(side, b.p.scale)
        side.sql("CHECKPOINT")
        with Span(side) as span:
            pg = Pgbench(side, b.p.clients, 2 * b.p.short,
                         "simple-update").wait()
        note_run(b, side, pg, span)
        # again a little, to be killed amid writes
        side.sql("SELECT txid_current()")
        late = Pgbench(side, b.p.clients, 60, "simple-update")
        time.sleep(1.5)
        side.kill()
        late.wait_killed()
        start = time.monotonic()
        side.launch()
        side.connect(retry=120).close()
        wall = time.monotonic() - start
        b.note(side, "recovery", wall * 1000, "ms")
        b.note(side, "recovery_per_wal",
               wall * 1e9 / max(span.wal + span.fpi, 1), "ms/MB")
        n = side.value("SELECT count(*) FROM pgbench_history")
        b.check(side, "flushed transactions survived",
                n >= pg.transactions, f"{n} {pg.transactions}")
        check_sums(b, side)
        b.check_pages(side, ACCOUNTS, "pgbench_history")
