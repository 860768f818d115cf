"""Terminal output: one JSON document for programs, or tables for people.

Rich and the engine are imported when they are needed: a command that only shows its help needs neither.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from duetime.engine.clock import Instant, datetime_of, instant_of
from duetime.engine.value_class import NamedTuple, pattern
from duetime.service.text import UNSAFE, ahead, clean, gist, plain_times, plural, relative, span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from duetime.service.vocabulary import Page, Run, Schedule


# Selection of the columns that fit the terminal: a table whose names are cut short would be useless.

READABLE = 16
"""Minimum width at which a cut text is still readable; a shorter text needs only its own width."""
GAP = 2
"""Spaces between two columns, and after the last."""

Spare = Mapping[str, int]
"""Columns that may be left out, in this order, each with the minimum width that the others must keep for it to stay."""


def fitting(
    headings: Sequence[str], widths: Sequence[int], total: int, *, whole: int, spare: Spare
) -> list[int] | None:
    """Return the indexes of the columns to show; None if a row is only readable on several lines."""
    columns = list(range(len(headings)))
    for name, least in spare.items():
        if name in headings and _needed(widths, columns, whole, least) > total:
            columns.remove(headings.index(name))
    return columns if _needed(widths, columns, whole, READABLE) <= total else None


def _needed(widths: Sequence[int], columns: Sequence[int], whole: int, least: int) -> int:
    """Return the total width if the first `whole` columns are never cut and each other one keeps `least`."""
    return sum(GAP + (widths[number] if number < whole else min(widths[number], least)) for number in columns)


# Text for a terminal. Agents write names and errors, so control characters in them are escaped.

__all__ = ["ahead", "clean", "plural", "relative", "span"]  # used by commands from here
LONGEST_NAME = 28
"""Maximum length of a name where other text needs the space."""


def escaped(document: str) -> str:
    """Escape unsafe characters in JSON text, except the newlines of its layout."""
    return UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else json.dumps(match[0])[1:-1], document)


_ISO = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")


def coming(instant: Instant | None, zone: str, now: Instant) -> str:
    from duetime.service.vocabulary import clock_local

    distance = ahead(instant, now)
    return distance if instant is None or distance == "-" else f"{clock_local(instant, zone)} ({distance})"


def in_words(text: str, zone: str) -> str:
    """Rewrite the times of a sentence that programs read, too, as people write them."""
    from duetime.service.vocabulary import clock_local

    return _ISO.sub(lambda match: clock_local(instant_of(datetime.fromisoformat(match[0])), zone), text)


def clock_time(instant: Instant, zone: str) -> str:
    return _in_zone(instant, zone).strftime("%H:%M:%S")


def local_time(instant: Instant, zone: str) -> str:
    return _in_zone(instant, zone).strftime("%Y-%m-%d %H:%M:%S")


def _in_zone(instant: Instant, zone: str) -> datetime:
    from duetime.service.vocabulary import known_zone

    return datetime_of(instant).astimezone(known_zone(zone))


_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_LONG_DATE = rf"\b({_MONTHS}) (\d{{1,2}}), (\d{{4}}) (\d{{1,2}}):(\d\d) ([AP]M) (?=[A-Z+-])"


def one_date_format(text: str) -> str:
    """Rewrite times in messages that agents also read, such as `Feb 10, 2026 3:00 PM PST`, in the format of all other
    times here."""

    def rewritten(date: re.Match[str]) -> str:
        month, day, year, hour, minute, half = date.groups()
        number = _MONTHS.split("|").index(month) + 1
        return f"{year}-{number:02d}-{int(day):02d} {int(hour) % 12 + 12 * (half == 'PM'):02d}:{minute} "

    return re.sub(_LONG_DATE, rewritten, plain_times(text))


def shortened(name: str) -> str:
    """Shorten a name, so that other text fits beside it."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def counted(page: Page[Any]) -> str:
    """Format the total, which is a lower bound if counting stopped early."""
    return f"{page.total:,}" if page.total_exact else f"at least {page.total:,}"


T = TypeVar("T")
WIDE = 500
"""Console width for a file or a program, so that text is not cut there."""

_STATUSES = {
    "green": ("completed", "ok"),
    "cyan": ("info", "running", "waiting"),
    "blue": ("pending", "scheduled", "queued"),
    "yellow": ("retry", "warn", "paused", "missed", "skipped"),
    "bold red": ("failed", "failing", "fail", "broken", "lost"),
    "dim": ("cancelled",),
}
STYLES = {status: style for style, statuses in _STATUSES.items() for status in statuses}


def print_json(document: Any) -> None:
    print(escaped(json.dumps(document, ensure_ascii=False, indent=2)))


def print_json_line(document: Any) -> None:
    print(escaped(json.dumps(document, ensure_ascii=False)), flush=True)


_WHOLE = r"`[^`]*`\S*|(?:python -m duetime|\S*/duetime|\bduetime) [a-z].*$|\S+"
"""A word, or a command line, which has to stay in one piece to be copied."""


def between_words(text: str, stream: TextIO) -> str:
    """Break long lines between words if the stream is a terminal, which would otherwise break them anywhere."""
    if not stream.isatty():
        return text
    import shutil

    columns = shutil.get_terminal_size().columns
    return "\n".join(each if len(each) < columns else _broken(each, columns) for each in text.split("\n"))


def _broken(line: str, columns: int) -> str:
    indent = " " * (len(line) - len(line.lstrip(" ")))
    rows = [""]
    for word in re.findall(_WHOLE, line):
        if rows[-1] and len(indent) + len(rows[-1]) + len(word) + 1 >= columns:
            rows.append(word)
        else:
            rows[-1] += f" {word}" if rows[-1] else word
    return "\n".join(f"{indent}{row}" for row in rows)


def say(text: object) -> None:
    """Print a text for a person."""
    print(between_words(str(text), sys.stdout))


def print_result(json_: bool, document: Any, text: object) -> None:
    """Print the result of a command: the document for a program, or the text for a person."""
    if json_:
        print_json(document)
    else:
        say(text)


def warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        text = f"warning: {one_date_format(in_line(warning))}"
        print(between_words(text, sys.stderr), file=sys.stderr)


def progress(items: Sequence[T], doing: str) -> Iterator[T]:
    """Yield the items, with a progress bar over them if standard error is a terminal."""
    with bar(doing) as show_progress:
        for number, item in enumerate(items, 1):
            yield item
            show_progress(number / len(items))


@contextmanager
def bar(doing: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that receives the completed fraction, from 0 to 1, and shows it if standard error is a
    terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as display:
        task = display.add_task(doing, total=1.0)
        yield lambda done: display.update(task, completed=done)


def counting(numbers: Iterable[int], doing: str) -> Iterator[int]:
    """Yield the numbers, and show their running total if standard error is a terminal."""
    total = 0
    for number in numbers:
        total += number
        if sys.stderr.isatty():
            print(f"\r{doing}: {total:,}", end="", file=sys.stderr, flush=True)
        yield number
    if total and sys.stderr.isatty():
        print(file=sys.stderr)


def note(text: str) -> None:
    """Print a message for people to standard error."""
    print(between_words(clean(text), sys.stderr), file=sys.stderr)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int:
    if not is_terminal():
        return WIDE
    import shutil

    return shutil.get_terminal_size().columns


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if is_terminal() else WIDE)


def safe(text: object, style: str = "") -> Text:
    """Return escaped text in which Rich reads no markup."""
    from rich.text import Text

    return Text(in_line(text), style=style)


_BREAKS = pattern(r"[\t\r\n]\s*")


def in_line(text: object) -> str:
    """Return escaped text with spaces for its tabs and line breaks."""
    return clean(_BREAKS.sub(" ", str(text)))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, escaped, with spaces for tabs."""
    return [clean(line.expandtabs()) for line in text.splitlines()]


def block(text: str) -> Text | Styled:
    """Return escaped text that keeps its line breaks."""
    lines = lines_of(text)
    if len(lines) < 2:
        return Styled("".join(lines), "")
    from rich.text import Text

    return Text("\n".join(lines))


class Styled(NamedTuple):
    """Text whose beginning has a style."""

    word: str
    style: str
    rest: str = ""

    def __str__(self) -> str:
        return self.word + self.rest


def status_text(status: str, rest: str = "") -> Styled:
    return Styled(clean(status), STYLES.get(status, ""), in_line(rest))


_CODES = {"bold": "1", "dim": "2", "bold red": "1;31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_FIRST_ODD = "\u0300"
"""From this character on, some are wider or narrower than others."""


def print_plainly(headings: Sequence[str], rows: Sequence[Sequence[object]], labels: str = "") -> bool:
    """Print a table that fits the terminal and has only characters of one width. Return False if it has to be laid out,
    by Rich, which takes a third of the time of a command. `labels` is the style of the first column."""
    variables, coloured = os.environ, is_terminal()
    if "FORCE_COLOR" in variables or (
        coloured
        and (os.name == "nt" or "NO_COLOR" in variables or variables.get("TERM", "dumb") in ("dumb", "unknown"))
    ):
        return False
    if any(hasattr(each, "plain") for row in rows for each in row):
        return False  # Rich's own text
    cells = [[Styled(each, "bold") for each in headings]] if any(headings) else []
    for row in rows:
        styled = [each if isinstance(each, Styled) else Styled(in_line(each), "") for each in row]
        cells.append([styled[0]._replace(style=styled[0].style or labels), *styled[1:]])
    lengths = [[len(each.word) + len(each.rest) for each in row] for row in cells]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    characters = (max(each.word + each.rest, default="") for row in cells for each in row)
    if sum(widths) + GAP * (len(widths) - 1) > width() or max(characters) >= _FIRST_ODD:
        return False
    for row, own in zip(cells, lengths, strict=True):
        texts = (
            f"{_coloured(each) if coloured else each.word}{each.rest}{' ' * (whole - length)}"
            for each, whole, length in zip(row, widths, own, strict=True)
        )
        print((" " * GAP).join(texts))
    return True


def _coloured(each: Styled) -> str:
    return f"\x1b[{_CODES[each.style]}m{each.word}\x1b[0m" if each.style and each.word else each.word


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    whole: int = 1,
    fold: bool = False,
    spare: Spare | None = None,
) -> None:
    """Print a table without the spare columns that do not fit; on a narrow terminal, print several lines for each row
    instead."""
    if print_plainly(columns, rows):
        return
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(map(safe, columns), *cells, strict=True)]
    fitting_columns = fitting(columns, widths, width() + GAP, whole=whole, spare=spare or {})
    if fitting_columns is None:
        _stacked(columns, cells, widths, whole=whole, fold=fold)
    else:
        fitting_cells = [[row[number] for number in fitting_columns] for row in cells]
        console().print(grid([columns[number] for number in fitting_columns], fitting_cells, whole=whole, fold=fold))


def _text(cell: object) -> Text:
    from rich.text import Text

    if isinstance(cell, Styled):
        return Text(cell.word, style=cell.style).append(cell.rest, style="default" if cell.style else "")
    return cell if isinstance(cell, Text) else safe(cell)


def cell_width(cell: Text) -> int:
    """Return the width of the longest line."""
    return max((line.cell_len for line in cell.split()), default=0)


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    whole: int = 1,
    fold: bool = False,
    show_header: bool = True,
) -> Table:
    """Build a table in which the first `whole` columns are never cut and the others are shortened to fit. With `fold`,
    the last one continues on further lines instead."""
    from rich.table import Table

    rich_table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=show_header)
    for number, heading in enumerate(columns):
        rich_table.add_column(heading, no_wrap=number < whole, overflow="fold")
    for row in rows:
        cells = [_text(cell) for cell in row]
        for cell in cells[whole : len(cells) - fold]:
            cell.no_wrap, cell.overflow = True, "ellipsis"
        rich_table.add_row(*cells)
    return rich_table


def _stacked(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], widths: Sequence[int], *, whole: int, fold: bool
) -> None:
    """Print each row as a line for the columns that are never cut, one for each long column that is not empty, one for
    all short ones, and the folding column at the full width of the terminal."""
    for row in rows:
        filled = [each for each in range(len(columns)) if row[each].plain not in ("", "-")]
        console().print(_joined([row[0], *(row[each] for each in filled if 0 < each < whole)]))
        rest = [each for each in filled if whole <= each < len(columns) - fold]
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
    """Print labels and their values, one pair per line."""
    if not print_plainly(["", ""], pairs, "dim"):
        lines([(safe(label, "dim"), value) for label, value in pairs])


def lines(rows: Sequence[Sequence[object]]) -> None:
    """Print rows without headings. The last column takes the remaining width, and folds."""
    number = len(rows[0])
    if print_plainly([""] * number, rows):
        return
    console().print(grid([""] * number, rows, whole=number - 1, fold=True, show_header=False))


# Schedules and runs with redacted credentials: only `export` writes credentials out.


def schedule_document(schedule: Schedule, zone: str, detail: str | None = None) -> dict[str, Any]:
    from duetime.service.masking import masked_payload
    from duetime.service.presenters import schedule_shape

    view = schedule_shape(schedule, zone, detail, hidden=False)
    return view | {"payload": masked_payload(schedule.definition.kind, view["payload"])}


def run_document(run: Run, zone: str) -> dict[str, Any]:
    from duetime.service.masking import masked
    from duetime.service.presenters import run_view

    view = run_view(run, zone)
    return view | {"result": masked(view["result"])}


def outcome(run: Run) -> str:
    """Summarize a run: its error, its progress report or its result."""
    from duetime.service.masking import masked

    text = gist(run.error, run.report, None if run.result is None else masked(json.loads(run.result)))
    return " ".join(text.split())
