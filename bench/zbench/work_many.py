"""More clients than processors: pgbench's scripts with 64 and 200 clients, and
what they wait for."""
from __future__ import annotations

from collections import Counter

from .driver import Bench
from .measure import Sampler, Span
from .pgbench import Pgbench, load
from .server import Side, ask
from .work_pgbench import check_sums, note_run

SCRIPTS = ("tpcb-like", "simple-update", "select-only")
CLIENTS = (64, 200)
OUR_LOCKS = ("zheap", "undo")

WAITS = """SELECT wait_event_type || '.' || wait_event, count(*)
    FROM pg_stat_activity WHERE state = 'active' AND application_name = 'pgbench'
    GROUP BY 1"""


def many(b: Bench) -> None:
    for script in SCRIPTS:
        for clients in CLIENTS:
            for side in b.turns():
                many_run(b, side, script, clients)


def many_run(b: Bench, side: Side, script: str, clients: int) -> None:
    variant = f"{script}, {clients} clients"
    load(side, b.p.scale)
    seen: Counter[str] = Counter()

    def probe(cursor) -> dict[str, float]:
        for event, n in ask(cursor, WAITS):
            seen[event or "running"] += n
        return {}
    with b.active(side):
        sampler = Sampler(side, probe, 0.1)
        with Span(side) as span:
            pg = Pgbench(side, clients, b.p.short, script)
            pg.wait()
        sampler.stop()
    note_run(b, side, pg, span, variant)
    for table in ("tellers", "branches"):
        b.note(side, f"{table}_pages", side.value(
            f"SELECT pg_relation_size('pgbench_{table}') / 8192"), "pages", variant)
    total = max(sum(seen.values()), 1)
    del seen["running"]
    top = seen.most_common(5)
    for event, n in top:
        b.note(side, f"waits for {event}", n / total, "share", variant)
    b.say("    " + ", ".join(f"{event} {n / total:.1%}" for event, n in top))
    b.check(side, "no lock of ours among the five that are waited for most",
            not any(event.partition(".")[2].lower().startswith(OUR_LOCKS)
                    for event, _ in top), top, ours_only=True)
    if script != "select-only":
        check_sums(b, side)
