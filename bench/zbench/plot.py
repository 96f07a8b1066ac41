"""Pictures of results, by matplotlib; none where it is missing."""
from __future__ import annotations

import statistics
from pathlib import Path

from .results import Results

MB = 1024 * 1024
COLOURS = {"heap": "#c0504d", "zheap": "#1f6fb4"}
SHADE = "#f0e2b6"


def write_all(r: Results) -> list[tuple[str, str]]:
    """Draw what there are results for; (file name, title) of each."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return []
    plt.rcParams.update({"font.size": 9, "axes.grid": True,
                         "grid.alpha": 0.3, "axes.spines.top": False,
                         "axes.spines.right": False})
    drawn = []
    for variant in variants(r, "sizes"):
        drawn.append(sizes(plt, r, variant))
        drawn.append(speed(plt, r, variant))
    for draw in (wal, queue, hot_row, documents, cpu, long_run):
        picture = draw(plt, r)
        if picture:
            drawn.append(picture)
    return drawn


def variants(r: Results, name: str) -> list[str]:
    found = dict.fromkeys(s["variant"] for s in r.series
                          if s["series"] == name)
    return list(found)


def first_of(r: Results, name: str, variant: str = "") -> dict[str, dict]:
    """The first round's series of each access method."""
    found: dict[str, dict] = {}
    for s in r.series:
        if s["series"] == name and s["variant"] == variant:
            found.setdefault(s["am"], s)
    return found


def colour(am: str) -> str:
    return COLOURS.get(am, "#6a8f3c")


def shade(axes, marks: dict, origin: float = 0.0) -> None:
    """Where the old transaction was open."""
    axes.axvspan(max(0, marks.get("opened", marks.get("began", 0)) - origin),
                 marks["closed"] - origin, color=SHADE, zorder=0,
                 label="old snapshot open")


def save(plt, r: Results, figure, name: str, title: str) -> tuple[str, str]:
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(Path(r.folder) / name, dpi=90)
    plt.close(figure)
    return name, title


def sizes(plt, r: Results, variant: str) -> tuple[str, str]:
    """Table, index and undo over time."""
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.2))
    found = first_of(r, "sizes", variant)
    for axes, what, title in zip(panels, ("table", "index", "undo"),
                                 ("pgbench_accounts", "its primary key",
                                  "undo")):
        for i, (am, s) in enumerate(found.items()):
            origin = s["marks"]["began"]
            if i == 0:
                shade(axes, s["marks"], origin)
            if what == "undo" and am == "heap":
                continue
            axes.plot([t - origin for t in s["t"]],
                      [v / MB for v in s["values"][what]], color=colour(am),
                      label=am, linewidth=1.6)
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("seconds")
        axes.set_ylabel("MB")
    panels[0].legend(loc="lower right", fontsize=8)
    name = f"sizes-{slug(variant)}.png"
    return save(plt, r, figure, name, f"simple-update, {variant}: sizes")


def speed(plt, r: Results, variant: str) -> tuple[str, str]:
    """Transactions per second over time."""
    figure, axes = plt.subplots(figsize=(7, 3))
    for i, (am, s) in enumerate(first_of(r, "tps", variant).items()):
        origin = s["marks"]["began"]
        if i == 0:
            shade(axes, s["marks"], origin)
        axes.plot([t - origin for t in s["t"]], s["values"]["tps"],
                  color=colour(am), label=am, linewidth=1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("transactions per second")
    axes.legend(loc="lower right", fontsize=8)
    return save(plt, r, figure, f"tps-{slug(variant)}.png",
                f"simple-update, {variant}: speed")


def slug(variant: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in variant).strip("-")


def bars(plt, r: Results, metric: str, unit: str, name: str, title: str,
         skip: tuple[str, ...] = ()) -> tuple[str, str] | None:
    """One group of bars for each run that has this metric."""
    keys = [k for k in r.values if k[2] == metric and k[0] not in skip]
    keys = [k for k in keys
            if all(r.median(k, am) is not None for am in r.ams)]
    if not keys:
        return None
    figure, axes = plt.subplots(figsize=(9, 0.34 * len(keys) + 1.1))
    height = 0.8 / len(r.ams)
    for i, am in enumerate(r.ams):
        values = [r.median(k, am) or 0 for k in keys]
        axes.barh([n + i * height for n in range(len(keys))], values, height,
                  color=colour(am), label=am)
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(keys))])
    axes.set_yticklabels([f"{k[0]} {k[1]}".strip() for k in keys], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.legend(loc="lower right", fontsize=8)
    return save(plt, r, figure, name, title)


def wal(plt, r: Results) -> tuple[str, str] | None:
    return bars(plt, r, "wal_per_xact", "bytes", "wal.png",
                "WAL per transaction, without full-page images")


def cpu(plt, r: Results) -> tuple[str, str] | None:
    return bars(plt, r, "cpu_per_xact", "microseconds", "cpu.png",
                "server CPU per transaction",
                skip=("queue", "hot-row"))


def documents(plt, r: Results) -> tuple[str, str] | None:
    """Table, TOAST and indexes together, and undo, over time."""
    found = first_of(r, "documents")
    if not found:
        return None
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.2))
    for i, (am, s) in enumerate(found.items()):
        origin = s["marks"]["began"]
        for axes, what in zip(panels, ("total", "undo")):
            if i == 0:
                shade(axes, s["marks"], origin)
            if what == "undo" and am == "heap":
                continue
            axes.plot([t - origin for t in s["t"]],
                      [v / MB for v in s["values"][what]], color=colour(am),
                      label=am, linewidth=1.6)
    for axes, title in zip(panels, ("table, TOAST and indexes", "undo")):
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("seconds")
        axes.set_ylabel("MB")
    panels[0].legend(loc="lower right", fontsize=8)
    return save(plt, r, figure, "documents.png",
                "documents of 4 to 20 kB, one key changed")


def queue(plt, r: Results) -> tuple[str, str] | None:
    """Latency of min(id) over time, and how large the queue became."""
    found = first_of(r, "queue")
    if not found:
        return None
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.2))
    for i, (am, s) in enumerate(found.items()):
        for axes in panels:
            if i == 0:
                shade(axes, s["marks"])
        panels[0].plot(s["t"], s["values"]["min"], color=colour(am), label=am)
        total = [(a + b) / MB for a, b in zip(s["values"]["table"],
                                              s["values"]["index"])]
        panels[1].plot(s["t"], total, color=colour(am), label=am)
    panels[0].set_yscale("log")
    panels[0].set_ylabel("ms for SELECT min(id)")
    panels[1].set_ylabel("MB of table and index")
    for axes in panels:
        axes.set_xlabel("seconds")
        axes.legend(loc="best", fontsize=8)
    return save(plt, r, figure, "queue.png", "queue table")


def hot_row(plt, r: Results) -> tuple[str, str] | None:
    """The old snapshot's read of a row that all the world updates."""
    found = first_of(r, "old_read")
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(7, 3))
    for am, s in found.items():
        axes.plot(s["t"], s["values"]["read"], color=colour(am), label=am)
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("ms for one row")
    axes.legend(loc="best", fontsize=8)
    tps = {am: statistics.median(v.values()) for am, v in
           r.values.get(("hot-row", "", "tps"), {}).items()}
    said = ", ".join(f"{am} {t:,.0f} tps" for am, t in tps.items())
    return save(plt, r, figure, "hot-row.png",
                f"hot row read by an old snapshot ({said})")


def long_run(plt, r: Results) -> tuple[str, str] | None:
    """Speed, and what went from and to storage, over a long run."""
    speeds, disk = first_of(r, "long-tps"), first_of(r, "long-io")
    if not speeds:
        return None
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.2))
    for i, (am, s) in enumerate(speeds.items()):
        origin = s["marks"]["began"]
        for axes in panels if i == 0 else ():
            shade(axes, s["marks"], origin)
        panels[0].plot([t - origin for t in s["t"]], s["values"]["tps"],
                       color=colour(am), label=am, linewidth=1.2)
        for axes, what in zip(panels[1:], ("read", "written")):
            axes.plot([t - origin for t in disk[am]["t"]],
                      [v / MB for v in disk[am]["values"][what]],
                      color=colour(am), label=am)
    panels[0].set_ylabel("transactions per second")
    panels[1].set_ylabel("MB read so far")
    panels[2].set_ylabel("MB written so far")
    for axes in panels:
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds")
        axes.legend(loc="best", fontsize=8)
    return save(plt, r, figure, "long.png", "a long run")
