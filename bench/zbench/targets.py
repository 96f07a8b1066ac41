"""The targets that zheap was built for, and how each is measured here."""
from __future__ import annotations

import statistics
from dataclasses import dataclass

from .results import Results

MB = 1024 * 1024


@dataclass
class Target:
    label: str
    workload: str
    variant: str
    metric: str
    limit: float
    kind: str = "ratio"			# or "value": ours alone, in `unit`s
    at_least: bool = False
    unit: str = ""
    divide: float = 1.0			# of values shown


@dataclass
class Verdict:
    target: Target
    base: str					# heap's absolute figure
    ours: str					# zheap's absolute figure
    measured: str				# what the limit is about
    wanted: str
    met: bool | None			# None: not measured


def targets_keyed() -> list[Target]:
    """Of five indexed columns one is updated, in place."""
    name, workload = "one of five indexed columns: ", "updates-keyed"
    rows = [
        Target(name + "WAL", workload, "five", "wal_per_xact", 0.42),
        Target(name + "CPU", workload, "five", "cpu_per_xact", 0.75),
    ]
    for variant in ("five", "five, old snapshot"):
        for metric in ("table_growth", "other_indexes_growth"):
            rows.append(Target(f"{variant}: {metric.replace('_', ' ')}", workload,
                               variant, metric, 0, "value", unit="%", divide=0.01))
        rows.append(Target(f"{variant}: size of the changed index", workload,
                           variant, "changed_index_size", 1.0))
    rows += [
        Target(name + "its growth once the snapshot is gone", workload,
               "five, snapshot gone", "changed_index_growth", 0.1, "value", unit="%",
               divide=0.01),
        Target("select by it in the midst", workload, "select in the midst",
               "cpu_per_query", 1.5),
        Target("select by it after VACUUM", workload, "select vacuumed",
               "cpu_per_query", 1.05),
        Target("index-only scan of another one in the midst", workload,
               "index-only in the midst", "cpu_per_query", 1.0),
    ]
    return rows


def targets(clients: int, largest: int) -> list[Target]:
    main = f"{clients} clients"
    rows = [
        Target("bytes per row, pgbench_accounts", "rows", "accounts",
               "bytes_per_row", 0.80),
        Target("bytes per row, pgbench_history", "rows", "history",
               "bytes_per_row", 0.66),
        Target("bytes per row, (int, int, bool, timestamptz, text)", "rows",
               "mixed", "bytes_per_row", 0.50),
        # core's bitmaps hold 291 rows a page at most, which is 0.77 of heap's
        Target("bytes per row, (int); at most 291 a page", "rows", "int",
               "bytes_per_row", 0.42),
    ]
    for variant in dict.fromkeys((main, f"{largest} clients")):
        name = f"bloat run, {variant}: "
        rows += [
            Target(name + "table growth", "bloat", variant, "table_growth", 0,
                   "value", unit="%", divide=0.01),
            Target(name + "primary key growth", "bloat", variant,
                   "index_growth", 0, "value", unit="%", divide=0.01),
            # 80 MB for 1.3 million transactions
            Target(name + "undo at its peak, per transaction", "bloat",
                   variant, "undo_peak_per_xact", 80 * MB / 1.3e6, "value",
                   unit="bytes"),
            Target(name + "undo from 5 s after the snapshot closed on",
                   "bloat", variant, "undo_floor", 8 * MB, "value", unit="MB",
                   divide=MB),
            Target(name + "tps", "bloat", variant, "tps", 1.15,
                   at_least=True),
            Target(name + "server CPU per transaction", "bloat", variant,
                   "cpu_per_xact", 0.90),
            Target(name + "WAL per transaction", "bloat", variant,
                   "wal_per_xact", 0.75),
            Target(name + "full scan by the old snapshot", "bloat", variant,
                   "old_scan", 2.0),
            Target(name + "VACUUM after it", "bloat", variant, "vacuum", 0.2),
        ]
    rows += [
        Target("documents: growth after the first minute", "documents", "",
               "growth_after_a_minute", 0.05, "value", unit="%", divide=0.01),
        Target("documents: undo from 5 s after the snapshot closed on",
               "documents", "", "undo_floor", 8 * MB, "value", unit="MB",
               divide=MB),
        Target("documents: tps", "documents", "", "tps", 1.0, at_least=True),
        Target("documents: WAL per transaction", "documents", "",
               "wal_per_xact", 1.0),
    ]
    simple, tpcb = f"simple-update, {main}", f"tpcb-like, {main}"
    rows += [
        Target("simple-update: tps", "pgbench", simple, "tps", 1.10,
               at_least=True),
        Target("simple-update: WAL per transaction", "pgbench", simple,
               "wal_per_xact", 1.0),
        Target("tpcb-like: tps", "pgbench", tpcb, "tps", 1.15, at_least=True),
        Target("tpcb-like: server CPU per transaction", "pgbench", tpcb,
               "cpu_per_xact", 0.95),
        Target("select-only: server CPU per transaction", "pgbench",
               f"select-only, {main}", "cpu_per_xact", 1.0),
    ] + [
        Target(f"logical subscriber, {script}: {text}", "logical", script,
               metric, 1.0)
        for script in ("simple-update", "tpcb-like", "single rows")
        for metric, text in (("wal_per_xact", "WAL per transaction"),
                             ("cpu_per_xact", "server CPU per transaction"))
    ] + [
        Target("COPY, best", "bulk", "", "copy", 0.90),
        Target("INSERT .. SELECT, best", "bulk", "", "insert_select", 1.0),
        Target("INSERT .. SELECT: WAL", "bulk", "", "insert_select_wal", 0.95),
        Target("scan: sum(abalance), serial", "scan", "0 workers", "sum",
               0.90),
        Target("scan: count(*), serial", "scan", "0 workers", "count", 0.85),
        Target("scan: count(*), 2 workers", "scan", "2 workers", "count",
               0.90),
        Target("full-table UPDATE: CPU", "full-update", "first", "cpu", 0.50),
        Target("full-table UPDATE: WAL", "full-update", "first", "wal", 0.30),
        Target("table size after two of them", "full-update", "after two",
               "table_size", 1.0, "value", unit="times"),
        Target("DELETE of half the rows", "delete-insert", "no old snapshot",
               "delete", 1.0),
        Target("delete half, insert as many: size", "delete-insert",
               "no old snapshot", "table_size", 1.05, "value", unit="times"),
        Target("the same with an old snapshot: size", "delete-insert",
               "old snapshot", "table_size", 1.05, "value", unit="times"),
        Target("the same key deleted and inserted 1,350 times: CPU",
               "own-changes", "same key", "cpu", 1.5),
        Target("a statement for each of 60,000 rows, one transaction: CPU",
               "own-changes", "row by row", "cpu", 1.5),
        Target("rows moved through partitions, one transaction: CPU",
               "own-changes", "partitions", "cpu", 1.5),
        Target("ROLLBACK of 500,000 updates: answer", "rollback", "",
               "rollback", 20, "value", unit="ms"),
        Target("first full scan right after it", "rollback", "", "first_scan",
               1.5),
        Target("crash recovery under simple-update", "recovery", "",
               "recovery", 1.0),
        Target("index-only scan behind updates: heap fetches", "index-only",
               "", "heap_fetches", 0, "value", unit="rows"),
    ]
    rows += targets_keyed()
    for name, limit in INSTRUCTIONS.items():
        rows.append(Target(f"instructions: {name}", "instructions", name,
                           "instructions", limit))
    for name in ("simple-update", "tpcb-like"):
        rows.append(Target(f"instructions without pruning: {name}",
                           "instructions", name, "without_prune",
                           0.95 if name == "simple-update" else 0.90))
    for name in ("foreign key", "upsert", "delete by key", "indexed update",
                 "ROLLBACK of an update"):
        rows.append(Target(f"WAL: {name}", "instructions", name, "wal", 1.0))
    return rows


# by operation (work_instructions.py), one backend
INSTRUCTIONS = {
    "old snapshot: all changed": 1.8,
    "old snapshot: all changed 5 times": 3.0,
    "old snapshot: 30 % changed": 1.2,
    "index scan in order": 1.02,
    "index scan at random": 1.02,
    "select by key": 0.98,
    "insert": 1.0,
    "insert into 1,000 partitions": 1.05,
    "delete by key": 1.0,
    "indexed update": 1.05,
    "indexed update in place": 0.75,
    "foreign key": 1.05,
    "ROLLBACK of an update": 1.0,
    "INSERT .. SELECT": 0.90,
    "COPY": 0.90,
    "DELETE and INSERT of one key": 1.5,
}


def beyond() -> list[Target]:
    """What is wished for, without being a row of the table."""
    return [
        Target("long run: tps of its last third", "long", "", "late_tps",
               1.5, at_least=True),
        Target("long run: pages written per transaction", "long", "",
               "pages_written_per_xact", 0.5),
        Target("hot row, 16 clients, old snapshot: tps", "hot-row", "", "tps",
               1.0, at_least=True),
        Target("64 clients, a row of one page each: tps", "one-page", "own row",
               "tps", 1.0, at_least=True),
        Target("64 clients, random rows of one page: tps", "one-page", "any row",
               "tps", 1.0, at_least=True),
        Target("64 clients, children of 100 parents on a page: tps",
               "row-locks", "children", "tps", 0.9, at_least=True),
        Target("64 workers, SKIP LOCKED on a page: tps", "row-locks",
               "workers", "tps", 0.9, at_least=True),
        Target("queue under an old snapshot: tps", "queue", "", "tps", 1.0,
               at_least=True),
        Target("queue: min(id) late in the run", "queue", "", "min_late", 1.0),
        Target("shared_buffers a tenth: tps", "small-cache", "", "tps", 1.5,
               at_least=True),
        Target("shared_buffers a tenth: p99.9 latency", "small-cache", "",
               "latency_p999", 1.0),
    ] + [
        Target(f"rows changed {n} times, undo out of memory: {what}", "cold-undo",
               f"{n} changes, {variant}", "wall", limit)
        for n in (1, 5, 13) for what, variant, limit in (
            ("scan by an old snapshot", "scan", 3.0),
            ("a second one", "scan again", 2.0), ("by an index", "range", 3.0))
    ] + [
        Target(f"TPC-H {query}, sequential, {workers} workers", "tpch",
               f"seq, {workers} workers", query, 1.0)
        for query in ("Q1", "Q6", "Q14") for workers in (0, 2)
    ]


def verdicts(r: Results, rows: list[Target]) -> list[Verdict]:
    """Of the workloads that were asked for: those that ran, or failed."""
    base, ours = r.ams[0], r.ams[-1]
    return [judge(r, t, base, ours) for t in rows if t.workload in r.played]


def judge(r: Results, t: Target, base: str, ours: str) -> Verdict:
    key = (t.workload, t.variant, t.metric)
    unit = t.unit or r.units.get(key, "")
    a, b = r.median(key, base), r.median(key, ours)
    sign = ">=" if t.at_least else "<="
    absolute = [absent_or(v, unit, t.divide) for v in (a, b)]
    if t.kind == "value":
        wanted = f"{sign} {number(t.limit / t.divide)} {unit}"
        measured, figure = b, absolute[1]
    else:
        wanted = f"{sign} {t.limit:.2f}"
        found = r.ratios(key, ours, base)
        measured = statistics.median(found) if found else None
        figure = "-" if not found else span_text(found)
    met = None
    if measured is not None:
        if t.kind == "ratio":			# limits have two digits, too
            measured = round(measured, 2)
        met = measured >= t.limit if t.at_least else measured <= t.limit
    return Verdict(t, absolute[0], absolute[1], figure, wanted, met)


def absent_or(value: float | None, unit: str, divide: float = 1.0) -> str:
    return "-" if value is None else figure(value / divide, unit)


def figure(value: float, unit: str) -> str:
    if unit == "bytes" and abs(value) >= MB:
        value, unit = value / MB, "MB"
    return f"{number(value)} {unit}".strip()


def span_text(values: list[float]) -> str:
    """Median, and the range where there is one."""
    text = f"{statistics.median(values):.2f}"
    if len(values) > 1:
        text += f" ({min(values):.2f}-{max(values):.2f})"
    return text


def number(value: float) -> str:
    """Three significant digits or all before the point."""
    if value == float("inf"):
        return "never"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
