"""Workloads of one large transaction that meets its own changes over and over:
the same key deleted and inserted again, rows moved through levels of
partitions."""
from __future__ import annotations

from .driver import Bench
from .measure import Timed

SAME_KEY = """
DO $$
BEGIN
	FOR i IN 1..{n} LOOP
		DELETE FROM same_key;
		INSERT INTO same_key SELECT 1, i;
	END LOOP;
END $$"""


def own_changes(b: Bench) -> None:
    """One transaction among the rows that it has ended itself."""
    same_key(b)
    row_by_row(b)
    partitions(b)


def same_key(b: Bench) -> None:
    """DELETE and INSERT of one key: each uniqueness check passes them all."""
    n = 200 if b.p.quick else 1350
    for side in b.turns():
        side.fresh_database()
        side.sql("CREATE TABLE same_key (a int, n int)")
        side.sql("CREATE UNIQUE INDEX ON same_key (a)")
        side.sql("CREATE UNIQUE INDEX ON same_key (a) "
                 "WITH (deduplicate_items = off)")
        with Timed(side) as t:
            wall, cpu, _ = t.run(SAME_KEY.format(n=n))
        b.note(side, "time", wall * 1000, "ms", "same key")
        b.note(side, "cpu", cpu * 1000, "ms", "same key")
        rows = side.sql("SELECT * FROM same_key")
        b.check(side, "the last row is left", rows == [(1, n)], rows)
        b.check_pages(side, "same_key")


ROW_BY_ROW = (
    "INSERT INTO rows VALUES (i, 0, 'x')",
    "UPDATE rows SET v = v + 1 WHERE id = 1 + (i * 7919) % {n}",
    "UPDATE rows SET v = v + 1 WHERE id = 1 + i / 10",
    "DELETE FROM rows WHERE id = 2 * i",
)


def row_by_row(b: Bench) -> None:
    """One transaction, a statement for each row, in several orders."""
    n = 2000 if b.p.quick else 60000
    for side in b.turns():
        side.fresh_database()
        side.sql("CREATE TABLE rows (id int PRIMARY KEY, v int, t text)")
        wall = cpu = 0.0
        with Timed(side) as t:
            t.run("BEGIN")
            for statement in ROW_BY_ROW:
                took = t.run(f"DO $$ BEGIN FOR i IN 1..{n} LOOP "
                             f"{statement.format(n=n)}; END LOOP; END $$")
                wall += took[0]
                cpu += took[1]
            t.run("COMMIT")
        b.note(side, "time", wall * 1000, "ms", "row by row")
        b.note(side, "cpu", cpu * 1000, "ms", "row by row")
        rows = side.sql("SELECT count(*) FROM rows")
        b.check(side, "half of the rows are left", rows == [(n // 2,)], rows)
        b.check_pages(side, "rows")


def partitions(b: Bench) -> None:
    """Move rows from a table to its children, to their children, and back."""
    n = 4000 if b.p.quick else 100000
    large, small = n // 10, n // 100
    for side in b.turns():
        side.fresh_database()
        side.sql("CREATE TABLE p (id int PRIMARY KEY, t text, "
                 "at timestamptz DEFAULT now())")
        for i in range(0, n, large):
            side.sql(f"CREATE TABLE p{i} (LIKE p INCLUDING ALL) INHERITS (p)")
            for j in range(i, i + large, small):
                side.sql(f"CREATE TABLE p{i}_{j} (LIKE p INCLUDING ALL) "
                         f"INHERITS (p{i})")
        with Timed(side) as t:
            whole = Sums(t)
            t.run("BEGIN")
            whole.run("INSERT INTO p SELECT g, 'stuff' "
                      f"FROM generate_series(1, {n}) g")
            whole.steps("down", [("p", f"p{i}", i + 1, i + large)
                                 for i in range(0, n, large)], small)
            whole.steps("down again", [(f"p{i}", f"p{i}_{j}", j + 1, j + small)
                                       for i in range(0, n, large)
                                       for j in range(i, i + large, small)],
                        small)
            whole.steps("back", [(f"p{i}_{j}", "p", j + 1, j + small)
                                 for i in range(0, n // 2, large)
                                 for j in range(i, i + large, small)], small)
            rows = t.run("SELECT count(*), sum(id) FROM p")[2]
            ends = t.run("SELECT min(id), max(id) FROM ONLY p")[2]
            whole.run("COMMIT")
        for name, wall, cpu in whole.parts():
            b.note(side, "time", wall * 1000, "ms", name)
            b.note(side, "cpu", cpu * 1000, "ms", name)
        b.check(side, "all rows are there", rows == [(n, n * (n + 1) // 2)],
                rows)
        b.check(side, "half of them came back", ends == [(1, n // 2)], ends)
        b.check_pages(side, "p", "p0", "p0_0")


class Sums:
    """Wall time and CPU of the parts of a transaction."""

    def __init__(self, t: Timed):
        self.t = t
        self.named: list[tuple[str, float, float]] = []
        self.wall = self.cpu = 0.0

    def run(self, statement: str) -> None:
        wall, cpu, _ = self.t.run(statement)
        self.wall += wall
        self.cpu += cpu

    def steps(self, name: str, moves: list[tuple[str, str, int, int]],
              batch: int) -> None:
        """Move by batches, each under a savepoint, as psql's
        ON_ERROR_ROLLBACK makes one; count everything now and then."""
        begin = self.wall, self.cpu
        for k, (source, target, first, last) in enumerate(moves):
            for at in range(first, last + 1, batch):
                self.run("SAVEPOINT batch")
                self.run(f"SELECT min(id) FROM ONLY {source}")
                self.run(f"WITH moved AS (DELETE FROM ONLY {source} WHERE id "
                         f"BETWEEN {at} AND {at + batch - 1} RETURNING *) "
                         f"INSERT INTO {target} SELECT * FROM moved")
                self.run("RELEASE batch")
            if k % 10 == 0:
                self.run("SELECT count(*) FROM p")
        self.named.append((name, self.wall - begin[0], self.cpu - begin[1]))

    def parts(self) -> list[tuple[str, float, float]]:
        return self.named + [("partitions", self.wall, self.cpu)]
