"""report.md and targets.txt out of results.jsonl."""
from __future__ import annotations

from pathlib import Path

from . import plot
from .beside import told
from .results import Results
from .targets import (Verdict, absent_or, beyond, figure, span_text, targets,
                      verdicts)

# metrics of which more is better
MORE = {"tps", "transactions"}
# metrics that no workload wins or loses by
NEUTRAL = {"transactions", "fpi_per_xact", "autovacuums", "undo_peak",
           "undo_peak_per_xact", "undo_floor", "undo_floor_after",
           "recovery_per_wal", "latency"}
NEAR = 0.03						# closer than this is a draw


def write(folder: Path) -> None:
    """Report and pictures of the results in this folder, into it."""
    r = Results(folder)
    pictures = plot.write_all(r)
    main = r.meta["parameters"]["clients"]
    rows = verdicts(r, targets(main, largest(r)))
    more = verdicts(r, beyond())
    parts = [head(r), "## Targets\n", verdict_table(rows),
             "\nBeyond the targets:\n", verdict_table(more),
             "\n## Pictures\n", pictures_part(pictures), losses(r),
             all_numbers(r), answers(r)]
    (folder / "report.md").write_text("\n".join(parts))
    (folder / "targets.txt").write_text(plain_table(rows + more))


def largest(r: Results) -> int:
    """The most clients that the bloat run had."""
    p = r.meta["parameters"]
    return max(p["grid"] + [p["clients"]])


MARKS = ("<!-- run begins -->\n", "<!-- run ends -->\n")


def show_in(readme: Path, folder: Path) -> None:
    """Put pictures, targets and losses of a run between the marks."""
    r = Results(folder)
    main = r.meta["parameters"]["clients"]
    rows = verdicts(r, targets(main, largest(r)))
    rows += verdicts(r, beyond())
    below = folder.resolve().relative_to(readme.resolve().parent)
    pictures = [(f"{below}/{name}", title)
                for name, title in plot.write_all(r)]
    shown = "\n".join([head(r).replace("# ", "### ", 1),
                       f"All numbers: [report.md]({below}/report.md).\n",
                       pictures_part(pictures), verdict_table(rows),
                       losses(r).replace("## ", "### ")])
    before, rest = readme.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    readme.write_text(before + MARKS[0] + shown + MARKS[1] + after)


def head(r: Results) -> str:
    m, p = r.meta, r.meta["parameters"]
    settings = ", ".join(f"{k} = {v}" for k, v in m["settings"].items())
    lines = [
        f"# {r.ams[-1]} beside {r.ams[0]}, {m['started']}", "",
        f"- {m['version']}",
        f"- zheap_am at {m['revision']}",
        f"- {m['processor']}, {m['processors']} processors, "
        f"{m['memory_mb'] // 1024} GB; {m['system']}",
        f"- settings: {settings}",
        f"- pgbench scale {p['scale']}, TPC-H scale {p['tpch_scale']}, "
        f"{p['clients']} clients, {p['seconds']:g} s with a snapshot open for "
        f"the first {p['snapshot_seconds']:g} s; other runs "
        f"{max(2.0, p['seconds'] / 6):g} s; {p['rounds']} rounds where time "
        "allows",
        f"- the whole run took {m.get('finished', 0) / 60:.0f} minutes",
        f"- {told(r.beside)}",
    ]
    if p["quick"]:
        lines += ["", "**A quick run: it checks answers, its times say "
                      "nothing.**"]
    for text in r.skipped:
        lines.append(f"- skipped: {text}")
    for text in r.wrong():
        lines.append(f"- **wrong**: {text}")
    lines += ["", f"Ratios are {r.ams[-1]} / {r.ams[0]}, of runs next to each "
              "other: the median of the rounds, and their range in brackets "
              "where there were several. Below 1 is better, except for tps. "
              "WAL is counted without full-page images; CPU is that of all "
              "server processes.", ""]
    return "\n".join(lines)


def verdict_table(rows: list[Verdict]) -> str:
    lines = ["| What | heap | zheap | target | measured | met? |",
             "| --- | ---: | ---: | ---: | ---: | --- |"]
    for v in rows:
        lines.append(f"| {v.target.label} | {v.base} | {v.ours} | {v.wanted} "
                     f"| {v.measured} | {said(v.met)} |")
    return "\n".join(lines) + "\n"


def said(met: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "not measured"}[met]


def plain_table(rows: list[Verdict]) -> str:
    """The same for a terminal."""
    lines = []
    for v in rows:
        lines.append(f"  {said(v.met).strip('*'):13}"
                     f"{v.target.label[:58]:60}{v.wanted:>16}  {v.measured}")
    met = sum(v.met is True for v in rows)
    known = sum(v.met is not None for v in rows)
    lines.append(f"  {met} of {known} met")
    return "\n".join(lines)


def pictures_part(pictures: list[tuple[str, str]]) -> str:
    lines = []
    if not pictures:
        lines.append("None (python3-matplotlib was not there).\n")
    for name, title in pictures:
        lines.append(f"![{title}]({name})\n")
    return "\n".join(lines)


def losses(r: Results) -> str:
    """All measures by which zheap is worse than heap, worst first."""
    base, ours = r.ams[0], r.ams[-1]
    found = []
    for key in r.values:
        ratios = r.ratios(key, ours, base)
        if not ratios or key[2] in NEUTRAL or "growth" in key[2] or \
                r.median(key, base) < 1:	# next to nothing on either side
            continue
        middle = sorted(ratios)[len(ratios) // 2]
        worse = 1 / middle if key[2] in MORE and middle else middle
        if worse > 1 + NEAR:
            found.append((worse, key, ratios))
    lines = [f"\n## Where {ours} loses\n",
             f"Every measure worse than {base}'s by more than {NEAR:.0%}, "
             "worst first.\n"]
    if not found:
        lines.append("None.\n")
    else:
        lines += [f"| Workload | Measure | {base} | {ours} | ratio |",
                  "| --- | --- | ---: | ---: | ---: |"]
        for _, key, ratios in sorted(found, key=lambda f: -f[0]):
            unit = r.units[key]
            lines.append(
                f"| {key[0]} {key[1]} | {key[2]} "
                f"| {absent_or(r.median(key, base), unit)} "
                f"| {absent_or(r.median(key, ours), unit)} "
                f"| {span_text(ratios)} |")
        lines.append("")
    return "\n".join(lines)


def all_numbers(r: Results) -> str:
    """Every measure, by workload."""
    base, ours = r.ams[0], r.ams[-1]
    lines = ["## All numbers\n"]
    previous = None
    for key in r.values:
        workload, variant, metric = key
        if workload != previous:
            lines += [f"\n### {workload}\n",
                      f"| Variant | Measure | {base} | {ours} | ratio |",
                      "| --- | --- | ---: | ---: | ---: |"]
            previous = workload
        ratios = r.ratios(key, ours, base)
        lines.append(f"| {variant} | {metric} | {cell(r, key, base)} "
                     f"| {cell(r, key, ours)} "
                     f"| {span_text(ratios) if ratios else '-'} |")
    took = ", ".join(f"{w} {s:g}" for w, _, s in r.took)
    lines.append(f"\nSeconds that the workloads took: {took}.\n")
    return "\n".join(lines)


def cell(r: Results, key: tuple[str, str, str], am: str) -> str:
    found = r.spread(key, am)
    if found is None:
        return "-"
    middle, least, most = found
    unit = r.units[key]
    text = figure(middle, unit)
    return text if least == most else \
        f"{text} ({figure(least, unit)} to {figure(most, unit)})"


def answers(r: Results) -> str:
    right = sum(c["holds"] for c in r.checks)
    lines = ["## Answers\n",
             f"{right} answers were checked and right (sums, row counts, old "
             "snapshots, pages, undo floor, equal results of both access "
             f"methods); {len(r.wrong())} were wrong.\n"]
    lines += [f"- {text}" for text in r.wrong()]
    return "\n".join(lines) + "\n"
