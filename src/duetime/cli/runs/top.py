"""`duetime top`: workers, running, retrying, waiting and upcoming work, and failures, refreshed until it is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from duetime.cli.runs.top_actions import Actions
from duetime.cli.runs.top_frame import Frame, Part, Row, frame_of, frame_view, parts_of
from duetime.cli.serve.shutdown import StopButton
from duetime.service.presenters import is_alive
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.keys import Keys
from duetime.terminal.output import clean, clock_time, plural, span
from duetime.terminal.typer_ext import PlainCommand, option, single

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NARROW = 72
"""Width of a screen below which less important columns are left out."""
KEYS = "↑↓ select · enter details · r retry or run · p pause · q quit"


def laid_out(frame: Frame, lines: int, actions: Actions | None = None) -> RenderableType:
    """Lay out a frame in at most `lines` lines: each part gives up rows before any part disappears."""
    from rich.console import Group
    from rich.text import Text

    parts = parts_of(frame)
    shares = _shares([len(part.rows) for part in parts], lines)
    shown_rows = [list(part.rows[:most]) for part, most in zip(parts, shares, strict=True)]
    chosen = None if actions is None else actions.choose([row for rows in shown_rows for row in rows])
    shown: list[RenderableType] = [_first_line(frame)]
    for part, rows in zip(parts, shown_rows, strict=True):
        shown.append(Text())
        if rows:
            shown.append(_table(part, rows, chosen))
        else:
            shown.append(Text(f"{part.title}  ", style=part.style) + output.safe(part.nothing, "dim"))
    if actions is not None:
        shown += [Text(), output.safe(actions.message or KEYS, "dim")]
    return Group(*shown)


def _table(part: Part, rows: Sequence[Row], chosen: Row | None) -> RenderableType:
    """Return a table whose first heading is the title; a narrow screen only has space for three columns."""
    columns = [part.title, *part.columns]
    kept = list(range(len(columns))) if output.width() >= NARROW else [0, 1, len(columns) - 1]
    if part.total > len(rows):
        columns[-1] += f"   {part.total:,} in all"
    made = output.grid([columns[each] for each in kept], [[row.cells[each] for each in kept] for row in rows])
    made.header_style = part.style
    for row, drawn in zip(rows, made.rows, strict=True):
        drawn.style = "reverse" if row is chosen else None
    return made


def _shares(wanted: Sequence[int], lines: int) -> list[int]:
    """Return the rows for each part: as many as it has, or else an equal share of what the shorter ones leave."""
    left = max(lines - 2 * len(wanted) - 3, len(wanted))
    shares = [0] * len(wanted)
    for place, number in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        shares[number] = min(wanted[number], left // (len(wanted) - place))
        left -= shares[number]
    return shares


def _first_line(frame: Frame) -> RenderableType:
    health = frame.health
    oldest = "" if health.oldest_due is None else f", the oldest by {span(frame.now - health.oldest_due)}"
    late = f"{health.overdue:,} overdue{oldest}" if health.overdue else "nothing overdue"
    text = f"{clock_time(frame.now, frame.zone)}  {plural(health.schedules, 'schedule')}, {late}  {clean(frame.store)}"
    alive = any(is_alive(worker, frame.now) for worker in frame.workers)
    line = output.safe(text, "bold yellow" if health.overdue and not alive else "bold")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


ENDLESS = 10_000
"""Maximum lines without a terminal: nothing is left out of a file."""

commands = single()


@commands.command(cls=PlainCommand, epilog="duetime top\nduetime top --once --json")
def top(
    once: Annotated[bool, option("--once", "Print once and exit.")] = False,
    interval: Annotated[float, option("--interval SECONDS", "Time between two updates.", min=0.2, max=3600)] = 1.0,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Watch workers, running and upcoming work, and failures. Prints once when output is not a terminal, or with
    --json.

    Keys: arrows select a row, Enter shows its details, r retries a failed run or runs a schedule now, p pauses or
    resumes its schedule, q quits.
    """
    with opened(db) as app:
        if json_:
            output.print_json(frame_view(frame_of(app)))
            return
        console = output.console()
        if once or not console.is_terminal:
            console.print(laid_out(frame_of(app), ENDLESS if not console.is_terminal else console.height))
            return
        button = StopButton()
        with button.installed():
            (_print_again if console.is_dumb_terminal else _watch)(app, console, button, interval)


def _watch(app: Application, console: Console, button: StopButton, interval: float) -> None:
    from rich.live import Live

    actions = Actions(app)
    with Live(console=console, screen=True, auto_refresh=False) as live, Keys() as keys:
        while not actions.quit and not button.asked.is_set():
            shown = actions.details() or laid_out(frame_of(app), console.height, actions)
            live.update(shown, refresh=True)
            if button.asked.wait_or_read(interval, keys.descriptor):
                for key in keys.pressed():
                    actions.press(key)


def _print_again(app: Application, console: Console, button: StopButton, interval: float) -> None:
    """Print frames one below the other, for a terminal that cannot move its cursor."""
    while True:
        console.print(laid_out(frame_of(app), console.height))
        if button.asked.wait(interval):
            return
        console.print()
