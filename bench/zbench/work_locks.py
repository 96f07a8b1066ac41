"""Many clients that lock rows of one full page: children of a hundred parents, and a
queue of jobs that is worked off."""
from __future__ import annotations

from .driver import Bench
from .measure import Sampler, Span, Timed
from .pgbench import Pgbench
from .server import Side, ask
from .work_pgbench import note_run

CLIENTS = 64
PARENTS = 100					# rows of 79 bytes that fill a page of ours
JOBS = 200						# rows of 37 bytes that do

KEY = f"\\set k random(1, {PARENTS})\n"
SCRIPTS = {
    "children": KEY + "INSERT INTO children (parent) VALUES (:k);\n",
    # of which an old snapshot keeps all undo: how much is that per lock?
    "key share": KEY + "SELECT 1 FROM parents WHERE k = :k FOR KEY SHARE;\n",
    # heap finds none once in some 50,000 times: job 0
    "workers": "BEGIN;\nSELECT coalesce((SELECT k FROM jobs "
               "WHERE k > :client_id * 3 FOR UPDATE SKIP LOCKED LIMIT 1), 0) "
               "AS job \\gset\n"
               "UPDATE jobs SET n = n + 1 WHERE k = :job;\nCOMMIT;\n",
}
# entries of the lock table that rows have, those waited for left out
LOCKS = """SELECT count(*) FILTER (WHERE granted AND locktype NOT IN
                        ('virtualxid', 'transactionid', 'relation')), count(*)
    FROM pg_locks"""


def locks(b: Bench) -> None:
    for variant, script in SCRIPTS.items():
        for side in b.turns():
            locks_run(b, side, variant, script)


def make(side: Side) -> None:
    side.fresh_database()
    side.sql("CREATE TABLE parents (k int PRIMARY KEY, v int, t text)")
    side.sql("CREATE TABLE children (id bigserial PRIMARY KEY, "
             "parent int NOT NULL REFERENCES parents)")
    side.sql("CREATE TABLE jobs (k int PRIMARY KEY, n int, t text)")
    side.sql("INSERT INTO parents SELECT g, g, repeat('x', 61) "
             f"FROM generate_series(1, {PARENTS}) g")
    side.sql("INSERT INTO jobs SELECT g, 0, repeat('x', 22) "
             f"FROM generate_series(1, {JOBS}) g")
    for table in ("parents", "children", "jobs"):
        side.sql(f"VACUUM ANALYZE {table}")


def locks_run(b: Bench, side: Side, variant: str, script: str) -> None:
    make(side)

    def probe(cursor) -> dict[str, float]:
        of_rows, n = ask(cursor, LOCKS)[0]
        return {"row_locks": of_rows, "all_locks": n}
    with b.active(side), Timed(side) as old:
        if variant == "key share":
            old.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            old.run("SELECT count(*) FROM parents")
        before = side.undo_size()
        sampler = Sampler(side, probe, 0.1)
        with Span(side) as span:
            pg = Pgbench(side, CLIENTS, b.p.short, script=script)
            pg.wait()
        series = sampler.stop()
        after = side.undo_size()
        if variant == "key share":
            old.cursor.execute("COMMIT")
    note_run(b, side, pg, span, variant)
    for what in ("row_locks", "all_locks"):
        b.note(side, f"{what}_peak", max(series.values[what], default=0), "",
               variant)
    if variant == "key share" and side.undo:
        per_lock = (after - before) / max(pg.transactions, 1)
        b.note(side, "undo_per_lock", per_lock, "bytes", variant)
        b.say(f"    {per_lock:.1f} bytes of undo per lock")
    if variant == "children":
        n = side.value("SELECT count(*) FROM children")
        b.check(side, "each child is there", n == pg.transactions,
                f"{n} {pg.transactions}")
    elif variant == "workers":
        n = side.value("SELECT sum(n) FROM jobs")
        b.check(side, "each job done counted",
                0.99 * pg.transactions < n <= pg.transactions,
                f"{n} {pg.transactions}")
    b.note(side, "parents_end", side.value(
        "SELECT pg_relation_size('parents')"), "bytes", variant)
    b.check_pages(side, "parents", "children", "jobs")
