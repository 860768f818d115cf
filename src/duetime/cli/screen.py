"""What is printed: one JSON document for programs, or tables for people. Rich is loaded for people alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from duetime.cli.columns import GAP, READABLE, Spare, fitting
from duetime.cli.text import clean, escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")
WIDE = 500
"""Columns where nobody looks: what goes to a file or a program is never cut."""

NOTHING_SPARE: Spare = {}

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


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    whole: int = 1,
    fold: bool = False,
    spare: Spare = NOTHING_SPARE,
) -> None:
    """Columns under headings: without those to spare where there is no room for them, and on a narrow terminal a few
    lines for each row instead."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(map(safe, columns), *cells, strict=True)]
    shown = fitting(columns, widths, width() + GAP, whole=whole, spare=spare)
    if shown is None:
        _stacked(columns, cells, widths, whole=whole, fold=fold)
    else:
        kept = [[row[number] for number in shown] for row in cells]
        console().print(grid([columns[number] for number in shown], kept, whole=whole, fold=fold))


def _text(cell: object) -> Text:
    from rich.text import Text

    return cell if isinstance(cell, Text) else safe(cell)


def cell_width(cell: Text) -> int:
    """Of its longest line."""
    return max((line.cell_len for line in cell.split()), default=0)


def grid(columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: int = 1, fold: bool = False) -> Table:
    """The first `whole` columns are never cut, the others give way to what room there is; with `fold` the last one goes
    on in further lines instead."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for number, heading in enumerate(columns):
        made.add_column(heading, no_wrap=number < whole, overflow="fold")
    for row in rows:
        cells = [_text(cell) for cell in row]
        for cell in cells[whole : len(cells) - fold]:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        made.add_row(*cells)
    return made


def _stacked(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], widths: Sequence[int], *, whole: int, fold: bool
) -> None:
    """A line for what is never cut, one for each of the others that says something, one for all that are short; below
    them what folds, as wide as the terminal is."""
    for row in rows:
        said = [each for each in range(len(columns)) if row[each].plain not in ("", "-")]
        console().print(_joined([row[0], *(row[each] for each in said if 0 < each < whole)]))
        rest = [each for each in said if whole <= each < len(columns) - fold]
        long = [(f"  {columns[each].lower()}", row[each]) for each in rest if widths[each] >= READABLE]
        if long:
            facts(long)
        short = [safe(f"{columns[each].lower()} ", "dim") + row[each] for each in rest if widths[each] < READABLE]
        below = [_joined(short)] if short else []
        for line in [*below, row[-1]] if fold else below:
            lines([("", line)])


def _joined(cells: Sequence[Text]) -> Text:
    from rich.text import Text

    return Text(" " * GAP).join(cells)


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
