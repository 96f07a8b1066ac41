"""TPC-H Q1, Q6 and Q14 over lineitem and part, 0 and 2 workers, by
sequential and by index scans.  bench/run made the data, or said why not."""
from __future__ import annotations

from .driver import Bench
from .measure import Span, Timed
from .server import Side
from .work_pgbench import middle
from .work_sql import timed

TABLES = {
    "lineitem": "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, "
                "l_linenumber int, l_quantity numeric(12,2), "
                "l_extendedprice numeric(12,2), l_discount numeric(12,2), "
                "l_tax numeric(12,2), l_returnflag char(1), "
                "l_linestatus char(1), l_shipdate date, l_commitdate date, "
                "l_receiptdate date, l_shipinstruct char(25), "
                "l_shipmode char(10), l_comment varchar(44)",
    "part": "p_partkey bigint, p_name varchar(55), p_mfgr char(25), "
            "p_brand char(10), p_type varchar(25), p_size int, "
            "p_container char(10), p_retailprice numeric(12,2), "
            "p_comment varchar(23)",
}
QUERIES = {
    "Q1": """SELECT l_returnflag, l_linestatus, sum(l_quantity),
        sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
        avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        FROM lineitem WHERE l_shipdate <= date '1998-12-01' - 90
        GROUP BY 1, 2 ORDER BY 1, 2""",
    "Q6": """SELECT sum(l_extendedprice * l_discount) FROM lineitem
        WHERE l_shipdate >= date '1994-01-01'
          AND l_shipdate < date '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q14": """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%'
            THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
            / sum(l_extendedprice * (1 - l_discount))
        FROM lineitem JOIN part ON l_partkey = p_partkey
        WHERE l_shipdate >= date '1995-09-01'
          AND l_shipdate < date '1995-10-01'""",
}


def tpch(b: Bench) -> None:
    files = {t: b.work / "tpch" / f"{t}.csv" for t in TABLES}
    if not all(f.exists() for f in files.values()):
        b.say("SKIPPED: TPC-H, there is no data (see above)")
        b.meta(skipped="TPC-H: no generator (tpchgen-cli of PyPI)")
        return
    for side in b.turns():
        side.fresh_database()
        for table, columns in TABLES.items():
            side.sql(f"CREATE TABLE {table} ({columns})")
            with Span(side) as span:
                wall = timed(side, f"COPY {table} FROM '{files[table]}' "
                             "(FORMAT csv, HEADER)")
            b.note(side, "load", wall * 1000, "ms", table)
            b.note(side, "load_wal", span.wal, "bytes", table)
            b.note(side, "size", side.value(
                f"SELECT pg_relation_size('{table}')"), "bytes", table)
        for statement in ("CREATE INDEX ON lineitem (l_shipdate)",
                          "ALTER TABLE part ADD PRIMARY KEY (p_partkey)",
                          "VACUUM ANALYZE lineitem", "VACUUM ANALYZE part"):
            side.sql(statement)
    answers: dict[str, object] = {}
    for access in ("seq", "index"):
        for workers in (0, 2):
            for name in QUERIES:
                for side in b.turns():
                    query(b, side, name, access, workers, answers)
    for side in b.sides:
        b.check_pages(side, *TABLES)


def query(b: Bench, side: Side, name: str, access: str, workers: int,
          answers: dict[str, object]) -> None:
    """One query one way; all ways and sides must agree."""
    index = access == "index"
    with Timed(side) as t:
        t.set(max_parallel_workers_per_gather=workers, jit="off",
              parallel_setup_cost=0, parallel_tuple_cost=0,
              min_parallel_table_scan_size=0, min_parallel_index_scan_size=0,
              work_mem="64MB", enable_seqscan="on", enable_bitmapscan="off",
              enable_indexscan="on" if index else "off",
              enable_indexonlyscan="off")
        # only lineitem is forced to its index; a hash join may read part
        t.set(random_page_cost=0.01 if index else 4,
              seq_page_cost=1000 if index else 1)
        plan = "\n".join(r[0] for r in t.run("EXPLAIN " + QUERIES[name])[2])
        walls, rows = t.best(QUERIES[name], 3, limit=2.0)
    b.note(side, name, middle(walls) * 1000, "ms",
           f"{access}, {workers} workers")
    used = "lineitem_l_shipdate_idx" in plan
    b.check(side, f"{name} {access} {workers}: the plan is what was asked for",
            used == index and ("Gather" in plan) == (workers > 0), plan)
    expected = answers.setdefault(name, rows)
    b.check(side, f"{name} {access} {workers}: the same answer",
            rows == expected, f"{rows} {expected}")
