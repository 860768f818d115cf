"""Writes what was measured: a table for the terminal, JSON, and a page with a plot for the documentation."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from bench.lines import BUSY, Figure, Goal, Line
from bench.plot import plot

HEADINGS = ("workload", "store", "Duetime", "beside", "ratio", "bar", "aim", "verdict")
PAGE, PLOT, DATA = "performance.md", "performance.svg", "performance.json"


def rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    return [_row(line) for line in lines]


def _row(line: Line) -> tuple[str, ...]:
    ours = _shown(line.ours, line.unit) if line.ours.name == "Duetime" else _named(line.ours, line.unit)
    beside = "" if line.beside is None else _named(line.beside, line.unit)
    ratio = "" if line.beside is None or line.value is None else f"{line.value:.2f}x"
    verdict = "; ".join(part for part in (line.verdict, line.note, _busy(line), _uneven(line)) if part)
    return line.workload, line.store, ours, beside, ratio, _goal(line, "bar"), _goal(line, "aim"), verdict


def _busy(line: Line) -> str:
    return f"UNSURE, others used {line.busy:.0f} % of the processors" if line.busy > BUSY else ""


def _uneven(line: Line) -> str:
    if line.beside is None or not line.uneven:
        return ""
    return f"uneven disk: an fsync took {line.ours.fsync:.2f} ms and {line.beside.fsync:.2f} ms"


def _named(figure: Figure, unit: str) -> str:
    return f"{figure.name}: {_shown(figure, unit)}"


def _shown(figure: Figure, unit: str) -> str:
    if figure.median is None:
        return f"not measured: {figure.reason}"
    ended = f" (ended after {len(figure.samples)}: {figure.reason})" if figure.reason else ""
    return f"{number(figure.median)} {unit}{ended}"


def _goal(line: Line, which: str) -> str:
    value = None if line.goal is None else getattr(line.goal, which)
    if line.goal is None or value is None:
        return ""
    sign = "≥" if line.goal.higher else "≤"
    return f"{sign} {value:g}x" if line.beside is not None else f"{sign} {value:,g}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def text_table(lines: Sequence[Line]) -> str:
    table = [HEADINGS, *rows(lines)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def settings_of(lines: Sequence[Line]) -> list[str]:
    """Return with which settings and which durability each program was measured, and for which workloads."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for figure in (line.ours, line.beside):
            if figure is not None and (figure.settings or figure.durability):
                how = "; ".join(part for part in (figure.settings, figure.durability) if part)
                workloads = found.setdefault(f"{figure.program} on {line.store}: {how}", [])
                if line.workload not in workloads:
                    workloads.append(line.workload)
    return [f"{how} ({', '.join(workloads)})" for how, workloads in found.items()]


def machine() -> dict[str, Any]:
    return {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }


def write_json(path: Path, lines: Sequence[Line], about: dict[str, Any]) -> None:
    shown = [asdict(line) | {"value": line.value, "verdict": line.verdict} for line in lines]
    path.write_text(json.dumps({**about, "lines": shown}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> tuple[list[Line], dict[str, Any]]:
    """Return the lines of an earlier run, and where and when it was measured."""
    about = json.loads(path.read_text(encoding="utf-8"))
    return [_line(entry) for entry in about.pop("lines")], about


def merged(runs: Sequence[Sequence[Line]]) -> list[Line]:
    """Return the lines of several runs as one: a later measurement of a comparison replaces an earlier one."""
    latest: dict[tuple[str, ...], Line] = {}
    for line in (line for lines in runs for line in lines):
        latest[_compared(line)] = line
    return list(latest.values())


def _compared(line: Line) -> tuple[str, ...]:
    """Return what a line compares, without versions, which may differ between runs."""
    beside = () if line.beside is None else (line.beside.name.split(" ")[0],)
    return line.workload, line.store, line.ours.name, *beside


def _line(entry: dict[str, Any]) -> Line:
    goal = entry["goal"] and Goal(**entry["goal"])
    beside = entry["beside"] and _figure(entry["beside"])
    return Line(entry["workload"], entry["store"], entry["unit"], _figure(entry["ours"]), beside, goal, entry["note"])


def _figure(entry: dict[str, Any]) -> Figure:
    return Figure(**{**entry, "samples": tuple(entry["samples"])})


def write_page(folder: Path, lines: Sequence[Line], about: dict[str, Any]) -> None:
    """Write the page, its plot and its figures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / DATA, lines, about)
    (folder / PLOT).write_text(plot(lines), encoding="utf-8")
    (folder / PAGE).write_text(_page(lines, about), encoding="utf-8")


def _page(lines: Sequence[Line], about: dict[str, Any]) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in about.items())
    table = [HEADINGS, ("---",) * len(HEADINGS), *rows(lines)]
    return "\n".join(
        [
            "# Performance\n",
            "<!-- Written by `make bench`. -->\n",
            "Duetime compared with other schedulers on one machine. The sides of a comparison are measured in one run,",
            "in alternating rounds, and the table shows the medians. Every side writes durably, and each peer uses the",
            f"fastest of the settings tried. [{DATA}]({DATA}) has the figures.\n",
            f"![Throughput and lateness beside other schedulers]({PLOT})\n",
            f"{facts}.\n",
            *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table),
            "\n## Settings\n",
            *(f"- {each}" for each in settings_of(lines)),
            "",
        ]
    )
