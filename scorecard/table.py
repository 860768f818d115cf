"""The table: printed as lines end, and kept in docs/scorecard.md when the full counts were run."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from scorecard.line import Line
from scorecard.running import Row

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "scorecard.md"
SHOWN_FAILURES = 5

HEADINGS = ("line", "count", "measured", "bound", "verdict", "seconds")
WIDTHS = (12, 24, 44, 36, 7, 7)

INTRODUCTION = """\
# Scorecard
What the promises come to when processes are killed, disks fail and clients misbehave. `make scorecard` runs a tenth of
these counts in at most 15 minutes; `FULL=1 make scorecard` runs all of them and writes this page, and
`FULL=1 LINE=power-cut make scorecard` runs one line. A row is replaced when its line ends.

"""
COLUMNS = ("line", "what is tried", "count", "measured", "bound", "verdict", "seconds", "commit", "date")


def print_head() -> None:
    _print_cells(HEADINGS)
    print("  ".join("-" * width for width in WIDTHS), flush=True)


def print_row(row: Row) -> None:
    _print_cells(
        (row.line.name, row.count, row.result.measured, row.line.bound, row.verdict, f"{row.seconds:.1f}"),
    )
    for failure in row.result.failures[:SHOWN_FAILURES]:
        print(textwrap.indent(failure.rstrip(), "    ! "), flush=True)
    if (more := len(row.result.failures) - SHOWN_FAILURES) > 0:
        print(f"    ! and {more} more", flush=True)


def _print_cells(cells: Sequence[str]) -> None:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS, strict=True)]
    for number in range(max(map(len, wrapped))):
        parts = [lines[number] if number < len(lines) else "" for lines in wrapped]
        print("  ".join(part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True)).rstrip(), flush=True)


def write_row(row: Row, lines: Sequence[Line], document: Path = DOCUMENT) -> None:
    """Replace the row of a line in the document, in the order of `lines`; the others stay as they are."""
    rows = _rows_of(document)
    rows[row.line.name] = _markdown(row)
    names = [line.name for line in lines]
    kept = sorted((name for name in rows if name in names), key=names.index)
    table = [_cells(COLUMNS), _cells(["---"] * len(COLUMNS)), *(rows[name] for name in kept)]
    document.write_text(INTRODUCTION + "\n".join(table) + "\n", encoding="utf-8")


def _rows_of(document: Path) -> dict[str, str]:
    if not document.exists():
        return {}
    found = [text for text in document.read_text(encoding="utf-8").splitlines() if text.startswith("| `")]
    return {text.split("`")[1]: text for text in found}


def _markdown(row: Row) -> str:
    shown = [row.line.title, row.count, row.result.measured, row.line.bound, row.verdict, f"{row.seconds:.0f}"]
    return _cells([f"`{row.line.name}`", *shown, _commit(), f"{datetime.now(UTC):%Y-%m-%d}"])


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
