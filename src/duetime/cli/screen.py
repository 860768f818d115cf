"""What is printed: one JSON document for programs, or tables for people. Rich is loaded for people alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from duetime.cli.text import clean, escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")
WIDE = 500
"""Columns where nobody looks: what goes to a file or a program is never cut."""

NARROW = 60
"""Columns below which a table would show nothing but beginnings: each row becomes a few lines instead."""

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


def progress(items: Sequence[T], doing: str) -> Iterable[T]:
    """The same items, with a bar while they are worked off where somebody watches."""
    if not sys.stderr.isatty() or len(items) < 2:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, doing, console=Console(stderr=True), transient=True)


@contextmanager
def bar(doing: str) -> Iterator[Callable[[float], None]]:
    """Takes the part that is done, from 0 to 1, and shows it where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(doing, total=1.0)
        yield lambda done: shown.update(task, completed=done)


def counting(numbers: Iterable[int], doing: str) -> Iterator[int]:
    """The same numbers, with their sum so far where somebody watches."""
    total = 0
    for number in numbers:
        total += number
        if sys.stderr.isatty():
            print(f"\r{doing}: {total:,}", end="", file=sys.stderr, flush=True)
        yield number
    if total and sys.stderr.isatty():
        print(file=sys.stderr)


def note(words: str) -> None:
    """For people, beside what goes to standard output."""
    print(clean(words), file=sys.stderr)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int:
    return console().width


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if is_terminal() else WIDE)


def safe(text: object, style: str = "") -> Text:
    """Text that Rich takes as it is: no markup is read from it."""
    from rich.text import Text

    return Text(clean(text), style=style)


def block(text: str) -> Text:
    """Text of several lines, each shown as it is."""
    from rich.text import Text

    return Text("\n".join(clean(line) for line in text.splitlines()))


def status_text(status: str) -> Text:
    return safe(status, STYLES.get(status, ""))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: int = 1, fold: bool = False) -> None:
    """Columns under headings, or on a narrow terminal a few lines for each row."""
    if width() < NARROW:
        _stacked(columns, rows, whole)
    else:
        console().print(grid(columns, rows, whole=whole, fold=fold))


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: int = 1, fold: bool = False) -> Table:
    """The first `whole` columns are never cut, the others give way to what room there is; with `fold` the last one goes
    on in further lines instead."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(columns):
        made.add_column(heading, no_wrap=number < whole, overflow="fold")
    for row in rows:
        cells = [cell if isinstance(cell, Text) else safe(cell) for cell in row]
        for cell in cells[whole : len(cells) - fold]:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        made.add_row(*cells)
    return made


def _stacked(columns: Sequence[str], rows: Sequence[Sequence[object]], whole: int) -> None:
    """A line for what is never cut, and one below it for each of the others that says something."""
    from rich.text import Text

    for row in rows:
        cells = [cell if isinstance(cell, Text) else safe(cell) for cell in row]
        console().print(Text("  ").join(cells[:whole]))
        below = [
            (f"  {heading.lower()}", cell)
            for heading, cell in zip(columns[whole:], cells[whole:], strict=True)
            if cell.plain not in ("", "-")
        ]
        if below:
            facts(below)


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
