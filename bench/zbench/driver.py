"""The run: clusters, rounds, turns, and the file of results.

A workload is a function of the Bench that takes turns between the sides and
notes numbers, series and checks; each lands as one JSON line in
results.jsonl.  Not here: what the workloads do.
"""
from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

from .beside import Beside
from .measure import Series
from .server import Side

MB = 1024 * 1024


@dataclass
class Parameters:
    scale: int
    clients: int
    grid: list[int]
    seconds: float
    snapshot_seconds: float
    rounds: int
    budget: float				# seconds for the whole run
    tpch_scale: float
    quick: bool
    long_seconds: float = 900
    operations: str = ""		# those of work_instructions that match it
    changes: list[int] = field(default_factory=lambda: [1, 5, 13])

    @property
    def short(self) -> float:
        """Seconds of the runs beside the main one."""
        return max(2.0, self.seconds / 6)

    @property
    def rows(self) -> int:
        return self.scale * 100000


@dataclass
class Workload:
    name: str
    run: Callable[["Bench"], None]
    title: str
    rounds: int = 1				# worth this many repetitions
    again: float = 1.0			# share of its time that a repetition takes
    asked: bool = False			# only where it is named


class Bench:
    """What a workload gets."""

    def __init__(self, parameters: Parameters, sides: list[Side], out: Path,
                 work: Path, spent: float = 0.0):
        self.p = parameters
        self.sides = sides
        self.work = work
        self.began = time.monotonic() - spent
        self.round = 1
        self.workload = ""
        self.failed: list[str] = []
        self.passed = 0
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / "results.jsonl"
        self._file = open(self.path, "w")

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)

    # turns

    def turns(self) -> Iterator[Side]:
        """The sides one after another; each round starts with another one."""
        first = (self.round - 1) % len(self.sides)
        for side in self.sides[first:] + self.sides[:first]:
            yield side

    # results

    def _line(self, **fields: object) -> None:
        json.dump({"workload": self.workload, "round": self.round, **fields},
                  self._file)
        self._file.write("\n")
        self._file.flush()

    def meta(self, **fields: object) -> None:
        self._line(meta=fields)

    def note(self, side: Side, metric: str, value: float, unit: str = "",
             variant: str = "") -> None:
        self._line(am=side.am, variant=variant, metric=metric, value=value,
                   unit=unit)

    def series(self, side: Side, name: str, series: Series, variant: str = "",
               **marks: object) -> None:
        self._line(am=side.am, variant=variant, series=name, t=series.t,
                   values=series.values, marks=marks)

    def check(self, side: Side, text: str, holds: bool, detail: object = "",
              ours_only: bool = False) -> None:
        """An answer that must be right; `ours_only` asks nothing of heap."""
        if ours_only and not side.undo:
            return
        self._line(am=side.am, check=text, holds=bool(holds),
                   detail=str(detail))
        if holds:
            self.passed += 1
        else:
            name = f"{self.workload} {side.am}: {text} ({detail})"
            self.failed.append(name)
            self.say(f"BROKEN  {name}")

    def check_pages(self, side: Side, *tables: str) -> None:
        """zheap_check finds nothing in these tables."""
        if not side.undo:
            return
        for table in tables:
            rows = side.sql(f"SELECT * FROM zheap_check('{table}') LIMIT 3")
            self.check(side, f"zheap_check({table}) is clean", not rows, rows)

    # the run

    def run(self, workloads: list[Workload]) -> None:
        """Round by round; repetitions only as far as the budget goes."""
        took: dict[str, float] = {}
        broken: set[str] = set()
        for self.round in range(1, self.p.rounds + 1):
            for w in workloads:
                self.workload = w.name
                if self.round > w.rounds or w.name in broken:
                    continue
                if self.round > 1 and \
                        self.elapsed() + w.again * took[w.name] \
                        > self.p.budget:
                    self.say(f"{w.name}: no time for round {self.round}")
                    self.meta(skipped=f"round {self.round} of {w.name}: "
                              "the time budget")
                    continue
                self.say(f"=== {w.name}, round {self.round}: {w.title}")
                start = time.monotonic()
                if not self._run_one(w):
                    broken.add(w.name)
                seconds = time.monotonic() - start
                took.setdefault(w.name, seconds)
                self.meta(seconds=round(seconds, 1))
                self.say(f"=== {w.name} took {seconds:.0f} s")

    def _run_one(self, w: Workload) -> bool:
        """One workload; a failure is noted and the next one goes on."""
        try:
            w.run(self)
            return True
        except Exception as e:
            what = f"{type(e).__name__}: {e}".strip()
            self._line(error=what)
            self.failed.append(f"{w.name}: {what}")
            self.say(f"BROKEN  {w.name}: {what}")
            self._recover()
            return False

    def _recover(self) -> None:
        """Bring servers that a failed workload left dead back to life."""
        for side in self.sides:
            try:
                side.sql("SELECT 1", "postgres")
            except Exception:
                side.kill()
                side.start()

    def active(self, side: Side) -> "Turn":
        return Turn(self, side)

    def close(self) -> None:
        self._file.close()


class Turn:
    """with Turn(bench, side): autovacuum works there while the block runs, and
    what runs elsewhere is noted."""

    def __init__(self, bench: Bench, side: Side):
        self.bench = bench
        self.side = side

    def __enter__(self) -> Side:
        self.side.resume()
        self.beside = Beside(self.side, self.bench.sides)
        return self.side

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            found = self.beside.stop()
            if found:
                self.bench.meta(beside=found)
            self.side.pause()


def ratio(ours: float, base: float) -> float:
    return ours / base if base else float("nan")


def mega(size: float) -> str:
    return f"{size / MB:.1f} MB"
