"""Reads results.jsonl: medians, ranges, ratios, series, checks."""
from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path


class Results:
    def __init__(self, folder: Path):
        self.folder = folder
        self.meta: dict = {}
        self.skipped: list[str] = []
        self.errors: list[str] = []
        self.checks: list[dict] = []
        self.series: list[dict] = []
        self.beside: list[dict] = []
        self.took: list[tuple[str, int, float]] = []
        # (workload, variant, metric) -> am -> round -> value
        self.values: dict[tuple[str, str, str], dict[str, dict[int, float]]]
        self.values = defaultdict(lambda: defaultdict(dict))
        self.units: dict[tuple[str, str, str], str] = {}
        self.played: set[str] = set()
        with open(folder / "results.jsonl") as f:
            for line in f:
                self._take(json.loads(line))

    def _take(self, r: dict) -> None:
        if "workload" in r:
            self.played.add(r["workload"])
        if "meta" in r:
            meta = r["meta"]
            if "skipped" in meta:
                self.skipped.append(meta["skipped"])
            elif "beside" in meta:
                self.beside.append(meta["beside"])
            elif "seconds" in meta:
                self.took.append((r["workload"], r["round"], meta["seconds"]))
            else:
                self.meta.update(meta)
        elif "metric" in r:
            key = (r["workload"], r["variant"], r["metric"])
            self.values[key][r["am"]][r["round"]] = r["value"]
            self.units[key] = r["unit"]
        elif "series" in r:
            self.series.append(r)
        elif "check" in r:
            self.checks.append(r)
        elif "error" in r:
            self.errors.append(f"{r['workload']}: "
                               + " ".join(r["error"].split())[:300])

    @property
    def ams(self) -> list[str]:
        return self.meta.get("ams", ["heap", "zheap"])

    def median(self, key: tuple[str, str, str], am: str) -> float | None:
        found = self.values.get(key, {}).get(am)
        return statistics.median(found.values()) if found else None

    def spread(self, key: tuple[str, str, str],
               am: str) -> tuple[float, float, float] | None:
        """(median, least, most)"""
        found = self.values.get(key, {}).get(am)
        if not found:
            return None
        values = list(found.values())
        return statistics.median(values), min(values), max(values)

    def ratios(self, key: tuple[str, str, str], ours: str,
               base: str) -> list[float]:
        """Ratios round by round, of runs next to each other."""
        sides = self.values.get(key, {})
        a, b = sides.get(ours, {}), sides.get(base, {})
        return [a[r] / b[r] for r in sorted(a) if r in b and b[r]]

    def wrong(self) -> list[str]:
        return self.errors + [
            f"{c['workload']} {c['am']}: {c['check']} "
            f"({' '.join(c['detail'].split())[:300]})"
            for c in self.checks if not c["holds"]]
