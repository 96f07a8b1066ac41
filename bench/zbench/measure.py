"""What a stretch of work costs the server: time, CPU, WAL, sizes over time.

CPU is that of the postmaster and all its children, gone ones included, so
autovacuum, discard and rollback workers count.  WAL is counted record by
record by pg_waldump, full-page images apart.
"""
from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, field

from .server import BenchError, Side, ask

TICK = 1.0 / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on (a name may hold blanks)."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()


def children_of(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if int(_stat(int(name))[1]) == pid:
                    found.append(int(name))
            except (OSError, IndexError):
                pass
    return found


def process_cpu(pid: int) -> float:
    """CPU seconds of one process, to the nanosecond where they are counted."""
    try:
        with open(f"/proc/{pid}/schedstat") as f:
            ns = int(f.read().split()[0])
        if ns > 0:
            return ns / 1e9
    except (OSError, ValueError, IndexError):
        pass
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * TICK


def server_cpu(side: Side) -> float:
    """CPU seconds of a server since its start, ended processes included."""
    pid = side.postmaster()

    def reaped() -> float:
        fields = _stat(pid)
        return (int(fields[13]) + int(fields[14])) * TICK

    for _ in range(20):
        before = reaped()
        total = process_cpu(pid) + before
        for child in children_of(pid):
            try:
                total += process_cpu(child)
            except OSError:
                pass
        if reaped() == before:			# nobody ended meanwhile
            break
    return total


class Span:
    """with Span(side) as s: ...; then s.wall, s.cpu, s.wal, s.fpi (bytes).

    Starts when it is made; stop() ends it where a block does not fit.
    """

    def __init__(self, side: Side):
        self.side = side
        self.wall = self.cpu = 0.0
        self.wal = self.fpi = self.records = 0
        # what the last work left behind must not be counted here
        self._lsn = self._flushed_lsn()
        self._cpu = server_cpu(side)
        self._start = time.monotonic()

    def __enter__(self) -> "Span":
        return self

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            self.stop()

    def stop(self) -> None:
        self.wall = time.monotonic() - self._start
        self.cpu = server_cpu(self.side) - self._cpu
        self.wal, self.fpi, self.records = wal_between(
            self.side, self._lsn, self._flushed_lsn())

    def _flushed_lsn(self) -> str:
        """The end of WAL, flushed and followed by a record."""
        with self.side.session() as cursor:
            lsn = ask(cursor, "SELECT pg_current_wal_insert_lsn()")[0][0]
            # its commit waits, as it comes with a record of its own
            cursor.execute("SET synchronous_commit = on")
            cursor.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            return lsn


def wal_between(side: Side, start: str, end: str) -> tuple[int, int, int]:
    """Bytes of records without images, bytes of images, number of records."""
    if start == end:
        return 0, 0, 0
    out = side.run("pg_waldump", "--stats", "-p", side.data + "/pg_wal",
                   "-s", start, "-e", end)
    found = re.search(r"^Total\s+(\d+)\s+(\d+)\s+\[[^]]*\]\s+(\d+)", out, re.M)
    if not found:
        raise BenchError(f"pg_waldump said: {out[-500:]}")
    return int(found[2]), int(found[3]), int(found[1])


@dataclass
class Series:
    """Named values over time, in seconds since the start."""
    t: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, t: float, **values: float) -> None:
        self.t.append(round(t, 3))
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)


class Sampler(threading.Thread):
    """Asks the server for numbers every so often, until stopped.

    probe(cursor) returns a dictionary of numbers; it runs in a session of
    its own.  mark() tells the time since the start.
    """

    def __init__(self, side: Side, probe, interval: float = 0.5):
        super().__init__(daemon=True)
        self.series = Series()
        self._connection = side.connect()
        self._probe, self._interval = probe, interval
        self._stopped = threading.Event()
        self.error: Exception | None = None
        self.began = time.monotonic()
        self.start()

    def run(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                while not self._stopped.is_set():
                    values = self._probe(cursor)
                    self.series.add(self.mark(), **values)
                    self._stopped.wait(self._interval)
        except Exception as e:			# reported by stop()
            self.error = e
        finally:
            self._connection.close()

    def mark(self) -> float:
        return time.monotonic() - self.began

    def stop(self) -> Series:
        self._stopped.set()
        self.join(120)
        if self.error is not None:
            raise BenchError(f"sampling failed: {self.error}")
        return self.series


def sizes_probe(side: Side, table: str, index: str | None):
    """A probe for the sizes of a table, an index and of undo."""
    columns = [f"pg_relation_size('{table}')",
               f"pg_relation_size('{index}')" if index else "0",
               "pg_zheap_undo_size()" if side.undo else "0"]
    statement = "SELECT " + ", ".join(columns)

    def probe(cursor) -> dict[str, float]:
        row = ask(cursor, statement)[0]
        return {"table": row[0], "index": row[1], "undo": row[2]}
    return probe


class Disk:
    """Bytes that a server's processes read from storage and wrote to files, by
    /proc.  Not write_bytes: where the kernel keeps files in large folios, each
    page written counts there as all of its folio.  Ended processes count with
    what they had done when they were last looked at."""

    def __init__(self, side: Side):
        self._side = side
        self._last: dict[int, tuple[int, int]] = {}
        self._first = self._look()

    def _look(self) -> tuple[int, int]:
        for pid in children_of(self._side.postmaster()):
            try:
                with open(f"/proc/{pid}/io") as f:
                    found = dict(line.split(": ") for line in f)
            except OSError:
                continue
            self._last[pid] = (int(found["read_bytes"]),
                               int(found["wchar"]))
        return (sum(r for r, _ in self._last.values()),
                sum(w for _, w in self._last.values()))

    def so_far(self) -> tuple[int, int]:
        """(read, written) since it was made"""
        read, written = self._look()
        return read - self._first[0], written - self._first[1]


class Timed:
    """Time and CPU of single statements in one session."""

    def __init__(self, side: Side):
        self.side = side
        self.connection = side.connect()
        self.cursor = self.connection.cursor()
        self.pid = ask(self.cursor, "SELECT pg_backend_pid()")[0][0]

    def __enter__(self) -> "Timed":
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def set(self, **settings: object) -> None:
        for name, value in settings.items():
            self.cursor.execute(f"SET {name} = %s", (str(value),))

    def run(self, statement: str) -> tuple[float, float, object]:
        """(wall, CPU of this backend, rows)"""
        cpu = process_cpu(self.pid)
        start = time.monotonic()
        self.cursor.execute(statement)
        rows = self.cursor.fetchall() if self.cursor.description else None
        wall = time.monotonic() - start
        return wall, process_cpu(self.pid) - cpu, rows

    def best(self, statement: str, times: int, limit: float = 6.0):
        """(list of walls, last rows); stops early after `limit` seconds."""
        walls: list[float] = []
        rows = None
        while len(walls) < times and (not walls or sum(walls) < limit):
            wall, _, rows = self.run(statement)
            walls.append(wall)
        return walls, rows
