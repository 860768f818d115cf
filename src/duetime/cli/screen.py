"""What is printed: one JSON document for programs, or tables for people. Rich is loaded for people alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duetime.cli.text import clean, escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDE = 500
"""Columns where nobody looks: what goes to a file or a program is never cut."""

STYLES = {
    "completed": "green",
    "ok": "green",
    "running": "cyan",
    "waiting": "cyan",
    "pending": "blue",
    "queued": "blue",
    "retry": "yellow",
    "warn": "yellow",
    "paused": "yellow",
    "missed": "yellow",
    "skipped": "yellow",
    "failed": "bold red",
    "fail": "bold red",
    "broken": "bold red",
    "lost": "bold red",
    "cancelled": "dim",
}


def print_json(document: Any) -> None:
    print(escaped(json.dumps(document, ensure_ascii=False, indent=2)))


def print_json_line(document: Any) -> None:
    print(escaped(json.dumps(document, ensure_ascii=False)), flush=True)


def warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"warning: {clean(warning)}", file=sys.stderr)


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)


def safe(text: object, style: str = "") -> Text:
    """Text that Rich takes as it is: no markup is read from it."""
    from rich.text import Text

    return Text(clean(text), style=style)


def status_text(status: str) -> Text:
    return safe(status, STYLES.get(status, ""))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: int = 1, fold: bool = False) -> None:
    """Columns under headings; the first `whole` ones are never cut, the others give way to a narrow terminal.

    With `fold` the last one goes on in further lines instead.
    """
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(columns):
        grid.add_column(heading, no_wrap=number < whole, overflow="fold")
    for row in rows:
        cells = [cell if isinstance(cell, Text) else safe(cell) for cell in row]
        for cell in cells[whole : len(cells) - fold]:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        grid.add_row(*cells)
    console().print(grid)


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """Labels and what belongs to them, one below the other."""
    lines([(safe(label, "dim"), value) for label, value in pairs])


def lines(rows: Sequence[Sequence[object]]) -> None:
    """Rows without headings; the last column takes what room is left, and folds."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for number in range(len(rows[0])):
        last = number == len(rows[0]) - 1
        grid.add_column(no_wrap=not last, overflow="fold")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else safe(cell) for cell in row))
    console().print(grid)
