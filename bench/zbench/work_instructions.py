"""Instructions and WAL of one backend, counted by valgrind's callgrind: the
same statements on both sides, in clusters of their own.  No time is measured,
so the machine may be busy and the sides work together."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .driver import Bench
from .server import DATABASE, BenchError, Side

# transactions of pgbench before counting, and between switching on and that
WARM, SETTLE = 100, 3

# one byte of a repeated instruction counts as one: glibc must not use them
TUNABLES = ("glibc.cpu.x86_rep_movsb_threshold=100000000:"
            "glibc.cpu.x86_rep_stosb_threshold=100000000")

SETTINGS = {
    "shared_buffers": "384MB", "max_wal_size": "4GB",
    "checkpoint_timeout": "1h", "full_page_writes": "off",
    "synchronous_commit": "off", "autovacuum": "off", "jit": "off",
    "max_connections": "20", "max_parallel_workers_per_gather": "0",
    "fsync": "off",
}

# of these the report shows what is left without them, too
PRUNE = {"heap_page_prune", "heap_page_prune_and_freeze", "zheap_prune_page"}


@dataclass
class Script:
    """A transaction that pgbench runs many times."""
    name: str
    text: str
    setup: str = ""
    check: str = ""				# a question with one answer on both sides
    count: int = 300


@dataclass
class Statement:
    """One statement, counted by rows."""
    name: str
    rows: int
    text: str
    setup: str = ""
    warm: str = "EXPLAIN {}"	# before it, in the same session
    others: list[str] = field(default_factory=list)	# after its snapshot
    settings: str = ""
    check: str = ""


AID = "\\set aid random(1, 100000)\n\\set delta random(-5000, 5000)\n"
UPDATE = ("UPDATE pgbench_accounts SET abalance = abalance + :delta "
          "WHERE aid = :aid;\n")
READ = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
HISTORY = ("INSERT INTO pgbench_history VALUES "
           "({}, {}, :aid, :delta, '2026-01-01');\n")
BALANCE = "SELECT sum(abalance), count(*) FROM pgbench_accounts"

SCRIPTS = [
    Script("select by key", AID + READ),
    Script("update by key", AID + UPDATE, check=BALANCE),
    Script("simple-update", AID + "BEGIN;\n" + UPDATE + READ
           + HISTORY.format(1, 1) + "END;\n", check=BALANCE),
    Script("tpcb-like", AID + "\\set tid random(1, 10)\nBEGIN;\n" + UPDATE
           + READ
           + "UPDATE pgbench_tellers SET tbalance = tbalance + :delta "
             "WHERE tid = :tid;\n"
             "UPDATE pgbench_branches SET bbalance = bbalance + :delta "
             "WHERE bid = 1;\n" + HISTORY.format(":tid", 1) + "END;\n",
           check="SELECT sum(tbalance) FROM pgbench_tellers"),
    Script("FOR UPDATE by key", AID + READ.replace(";", " FOR UPDATE;")),
    Script("ROLLBACK of an update",
           AID + "BEGIN;\n" + UPDATE + "ROLLBACK;\n", check=BALANCE),
    Script("indexed update",
           "\\set id random(1, 20000)\n\\set a random(1, 100000)\n"
           "UPDATE keyed SET a = :a WHERE id = :id;\n",
           "CREATE TABLE keyed (id int PRIMARY KEY, a int, b int, c int, "
           "d int, e text);"
           "INSERT INTO keyed SELECT g, g, g, g, g, 'some text' "
           "FROM generate_series(1, 20000) g;"
           "CREATE INDEX ON keyed (a); CREATE INDEX ON keyed (b);"
           "CREATE INDEX ON keyed (c); CREATE INDEX ON keyed (d)",
           "SELECT sum(a), count(*) FROM keyed"),
    Script("indexed update in place",
           "\\set id random(1, 20000)\n\\set a random(1, 100000)\n"
           "UPDATE kept SET a = :a WHERE id = :id;\n",
           "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "
           "zheap.update_indexed_in_place_tables = kept', current_database()); "
           "END $$;"
           "CREATE TABLE kept (id int PRIMARY KEY, a int, b int, c int, "
           "d int, e text);"
           "INSERT INTO kept SELECT g, g, g, g, g, 'some text' "
           "FROM generate_series(1, 20000) g;"
           "CREATE INDEX ON kept (a); CREATE INDEX ON kept (b);"
           "CREATE INDEX ON kept (c); CREATE INDEX ON kept (d)",
           "SELECT sum(a), count(*) FROM kept"),
    Script("insert", "INSERT INTO inserted VALUES (:n, :n, 'some text');\n",
           "CREATE TABLE inserted (id int PRIMARY KEY, a int, b text)",
           "SELECT sum(a), count(*) FROM inserted"),
    Script("delete by key",
           "\\set id (:n * 7919) % 20000\nDELETE FROM deleted "
           "WHERE id = :id;\n",
           "CREATE TABLE deleted (id int PRIMARY KEY, a int, b text);"
           "INSERT INTO deleted SELECT g, g, 'some text' "
           "FROM generate_series(0, 19999) g",
           "SELECT sum(a), count(*) FROM deleted"),
    Script("foreign key",
           "\\set p random(1, 1000)\nINSERT INTO child VALUES (:n, :p);\n",
           "CREATE TABLE parent (id int PRIMARY KEY, a int);"
           "INSERT INTO parent SELECT g, g FROM generate_series(1, 1000) g;"
           "CREATE TABLE child (id int PRIMARY KEY, "
           "parent int REFERENCES parent)",
           "SELECT sum(parent), count(*) FROM child"),
    Script("upsert",
           "\\set k random(1, 1000)\nINSERT INTO counter VALUES (:k, 1) "
           "ON CONFLICT (k) DO UPDATE SET n = counter.n + 1;\n",
           "CREATE TABLE counter (k int PRIMARY KEY, n int);"
           "INSERT INTO counter SELECT g, 0 FROM generate_series(1, 1000) g",
           "SELECT sum(n), count(*) FROM counter"),
    Script("wide row",
           "\\set id random(1, 5000)\n"
           "UPDATE wide SET a = a + 1 WHERE id = :id;\n",
           "CREATE TABLE wide (id int PRIMARY KEY, a int, b text);"
           "INSERT INTO wide SELECT g, 0, repeat(md5(g::text), 30) "
           "FROM generate_series(1, 5000) g",
           "SELECT sum(a), count(*) FROM wide"),
]

SOURCE = ("CREATE TABLE source (id int, r int, a int, b text);"
          "INSERT INTO source SELECT g, g * 7919 % 100000, g % 10, "
          "'some text' FROM generate_series(0, 99999) g;"
          "CREATE INDEX ON source (id); CREATE INDEX ON source (r)")
BY_INDEX = ("SET enable_seqscan = off; SET enable_bitmapscan = off; "
            "SET enable_indexonlyscan = off")
BY_BITMAP = "SET enable_seqscan = off; SET enable_indexscan = off"
OLD_ROWS = 20000


def old(name: str, table: str, update: str, times: int = 1) -> Statement:
    """A scan by a snapshot that is older than some updates."""
    return Statement(
        f"old snapshot: {name}", OLD_ROWS, f"SELECT sum(a) FROM {table}",
        f"CREATE TABLE {table} (id int, a int, b text);"
        f"INSERT INTO {table} SELECT g, g % 10, repeat('x', 84) "
        f"FROM generate_series(1, {OLD_ROWS}) g",
        others=[f"UPDATE {table} SET a = a + 1 {update}"] * times)


STATEMENTS = [
    Statement("INSERT .. SELECT", 20000,
              "INSERT INTO target SELECT * FROM source WHERE id < 20000",
              SOURCE + ";CREATE TABLE target (LIKE source)",
              check="SELECT sum(r), count(*) FROM target"),
    Statement("INSERT .. SELECT, primary key", 20000,
              "INSERT INTO keyed_target SELECT * FROM source "
              "WHERE id < 20000",
              "CREATE TABLE keyed_target (id int PRIMARY KEY, r int, a int, "
              "b text)",
              check="SELECT sum(r), count(*) FROM keyed_target"),
    Statement("COPY", 100000, "COPY copied FROM '{file}'",
              "CREATE TABLE copied (LIKE source);"
              "COPY source TO '{file}'",
              "COPY copied FROM '/dev/null'",
              check="SELECT sum(r), count(*) FROM copied"),
    Statement("sum", 100000, "SELECT sum(a) FROM source"),
    Statement("count", 100000, "SELECT count(*) FROM source"),
    Statement("index scan in order", 20000,
              "SELECT sum(a) FROM source WHERE id < 20000",
              settings=BY_INDEX),
    Statement("index scan at random", 20000,
              "SELECT sum(a) FROM source WHERE r < 20000",
              settings=BY_INDEX),
    Statement("bitmap scan", 20000,
              "SELECT sum(a) FROM source WHERE id < 20000",
              settings=BY_BITMAP),
    old("1 % changed", "old1", "WHERE id % 100 = 0"),
    old("30 % changed", "old30", "WHERE id % 10 < 3"),
    old("all changed", "old100", ""),
    old("all changed 5 times", "old500", "", 5),
    Statement("DELETE of 10 %", 10000,
              "DELETE FROM thinned WHERE id % 10 = 0",
              "CREATE TABLE thinned AS SELECT * FROM source",
              check="SELECT sum(r), count(*) FROM thinned"),
    Statement("insert into 1,000 partitions", 5000,
              "INSERT INTO parts SELECT g % 1000, g "
              "FROM generate_series(0, 4999) g",
              "CREATE TABLE parts (id int, a int) PARTITION BY RANGE (id);"
              "DO $$ BEGIN FOR i IN 0..999 LOOP EXECUTE format("
              "'CREATE TABLE part%s PARTITION OF parts FOR VALUES "
              "FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END $$",
              "{}", check="SELECT sum(a), count(*) FROM parts"),
    Statement("DELETE and INSERT of one key", 600,
              "DO $$ BEGIN FOR i IN 1..600 LOOP "
              "DELETE FROM again WHERE id = 1; "
              "INSERT INTO again VALUES (1, i); END LOOP; END $$",
              "CREATE TABLE again (id int PRIMARY KEY, a int);"
              "INSERT INTO again VALUES (1, 0)",
              "SELECT 1", check="SELECT sum(a), count(*) FROM again"),
]


class Counted(Side):
    """A cluster whose postmaster runs under callgrind once it is loaded."""
    counting = False

    def launch(self, *settings: str) -> None:
        if not self.counting:
            super().launch(*settings)
            return
        with open(self.logfile, "a") as log:
            self.process = subprocess.Popen(
                ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no",
                 f"--callgrind-out-file={self.root}/{self.am}.%p",
                 os.path.join(self.bindir, "postgres"), "-D", self.data,
                 "-k", self.socket],
                env=dict(os.environ, GLIBC_TUNABLES=TUNABLES),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)


@dataclass
class Count:
    instructions: int
    prune: int
    wal: int


def read_counts(folder: Path, am: str, name: str) -> Count:
    """What the dump of that name holds."""
    for file in folder.glob(f"{am}.*.*"):
        with open(file, errors="replace") as f:
            head = f.read(2000)
        found = re.search(
            rf"^desc: Trigger: .*: {re.escape(name)} wal=(\d+)$", head, re.M)
        if found:
            text = file.read_text(errors="replace")
            total = int(re.search(r"^(?:summary|totals): (\d+)", text,
                                  re.M)[1])
            return Count(total, calls_of(text, PRUNE), int(found[1]))
    raise BenchError(f"callgrind wrote nothing about {name} on {am}")


def calls_of(text: str, wanted: set[str]) -> int:
    """Instructions of all calls of these functions, what they call included;
    none of them calls another."""
    names: dict[str, str] = {}
    total = 0
    inside = False
    after_calls = False
    for line in text.splitlines():
        if line.startswith(("cfn=", "fn=")):
            number, _, name = line.partition("=")[2].partition(" ")
            if name:
                names[number] = name
            inside = line.startswith("cfn=") and names.get(number) in wanted
        elif line.startswith("calls="):
            after_calls = True
            continue
        elif after_calls and inside:
            total += int(line.split()[1])
            inside = False
        after_calls = False
    return total


def build_module(b: Bench, side: Side) -> Path:
    """The library of callgrind.c, for this server."""
    include = subprocess.run(
        [os.path.join(side.bindir, "pg_config"), "--includedir-server"],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    library = b.work / "callgrind.so"
    subprocess.run(
        ["cc", "-O2", "-fPIC", "-shared", f"-I{include}", "-o", str(library),
         str(Path(__file__).with_name("callgrind.c"))], check=True)
    return library


def load(side: Side, library: Path, file: Path) -> None:
    side.fresh_database()
    side.run("pgbench", "-i", "-q", "-s", "1", DATABASE)
    with side.session() as c:
        for name, arguments in (("on", ""), ("begin", ""), ("end", "text")):
            c.execute(f"CREATE FUNCTION callgrind_{name}({arguments}) RETURNS "
                      f"void LANGUAGE c AS '{library}'")
        for one in [*SCRIPTS, *STATEMENTS]:
            if one.setup:
                c.execute(one.setup.replace("{file}", f"{file}.{side.am}"))
        c.execute("VACUUM ANALYZE")


def fill_cache(side: Side) -> None:
    with side.session() as c:
        c.execute("SELECT oid::regclass, relkind FROM pg_class WHERE relkind "
                  "= 'r' AND relnamespace = 'public'::regnamespace AND "
                  "relname !~ '^part'")
        for table, _ in c.fetchall():
            c.execute(f"SELECT count({table}) FROM {table}")


def run_script(side: Side, s: Script) -> None:
    at = (WARM, WARM + SETTLE, WARM + SETTLE + s.count)
    text = "\\set n :n + 1\n" + s.text
    for n, call in zip(at, ("on()", "begin()", f"end('{s.name}')")):
        text += f"\\if :n = {n}\nSELECT callgrind_{call};\n\\endif\n"
    file = Path(side.root) / f"{side.am}.script"
    file.write_text(text)
    side.run("pgbench", "-n", "-M", "prepared", "-D", "n=0",
             "--random-seed=1", "-t", str(at[2]), "-f", str(file), DATABASE)


def run_statement(side: Side, s: Statement, file: Path) -> None:
    text = s.text.replace("{file}", f"{file}.{side.am}")
    with side.session() as c:
        if s.settings:
            c.execute(s.settings)
        if s.others:
            c.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            for other in s.others:
                side.sql(other)
        c.execute(s.warm.format(text))
        for call in ("on()", "begin()"):
            c.execute(f"SELECT callgrind_{call}")
        c.execute(text)
        c.execute("SELECT callgrind_end(%s)", (s.name,))
        if s.others:
            c.execute(text)
            got = int(c.fetchall()[0][0])
            c.execute("COMMIT")
            if got != OLD_ROWS * 9 // 2:
                raise BenchError(f"{side.am}, {s.name}: {got} is wrong")


def count_side(side: Counted, file: Path, only: str) -> dict[str, tuple]:
    """Operations whose name matches: to what was counted, divisor and answer."""
    found: dict[str, tuple] = {}
    scripts, statements = ([s for s in kind if re.search(only, s.name)]
                           for kind in (SCRIPTS, STATEMENTS))
    if not scripts and not statements:
        raise BenchError(f"no operation matches {only}")
    side.counting = True
    side.start()
    try:
        fill_cache(side)
        for s in scripts:
            run_script(side, s)
        for s in statements:
            run_statement(side, s, file)
        for s in [*scripts, *statements]:
            found[s.name] = (
                read_counts(Path(side.root), side.am, s.name),
                s.count if isinstance(s, Script) else s.rows,
                side.sql(s.check) if s.check else None)
    finally:
        side.stop()
    return found


def instructions(b: Bench) -> None:
    """Instructions and WAL of each operation, one backend."""
    if b.p.quick or not shutil.which("valgrind") \
            or not os.path.exists("/usr/include/valgrind/callgrind.h") \
            or not shutil.which("cc"):
        why = "a quick run" if b.p.quick else "no valgrind or compiler here"
        b.say(f"instructions: skipped, {why}")
        b.meta(skipped=f"instructions: {why}")
        return
    folder = b.work / "counted"
    folder.mkdir(exist_ok=True)
    sides = [Counted(s.am, Path(s.bindir), folder, s.port, SETTINGS)
             for s in b.sides]
    library = build_module(b, sides[0])
    for side in sides:
        side.create()
        load(side, library, folder / "rows")
        side.stop()
    with ThreadPoolExecutor(len(sides)) as pool:
        found = list(pool.map(
            lambda s: count_side(s, folder / "rows", b.p.operations), sides))
    for side, counted in zip(sides, found):
        for name, (count, n, answer) in counted.items():
            b.note(side, "instructions", count.instructions / n, "", name)
            b.note(side, "without_prune",
                   (count.instructions - count.prune) / n, "", name)
            b.note(side, "wal", count.wal / n, "bytes", name)
            if answer is not None:
                b.check(side, f"{name}: the same answer as heap's",
                        answer == found[0][name][2], answer)
    print_table(sides, found)


def print_table(sides: list[Counted], found: list[dict[str, tuple]]) -> None:
    """Instructions and WAL per operation, for the terminal."""
    out = [f"{'per operation or row':34}"
           + "".join(f"{s.am:>10}" for s in sides)
           + f"{'ratio':>7}{'no prune':>10}"
           + "".join(f"{s.am + ' WAL':>10}" for s in sides) + f"{'ratio':>7}"]
    for name in found[0]:
        a, b = found[0][name][0], found[-1][name][0]
        n = found[0][name][1]
        line = f"{name:34}{a.instructions / n:10.0f}{b.instructions / n:10.0f}"
        line += f"{b.instructions / a.instructions:7.2f}"
        line += "          " if not a.prune and not b.prune else (
            f"{(b.instructions - b.prune) / (a.instructions - a.prune):10.2f}")
        line += f"{a.wal / n:10.1f}{b.wal / n:10.1f}"
        if a.wal / n > 1:
            line += f"{b.wal / a.wal:7.2f}"
        out.append(line)
    print("\n".join(out), flush=True)
    sys.stdout.flush()
