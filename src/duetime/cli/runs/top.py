"""`duetime top`: workers, running, retrying, waiting and upcoming work, and failures, refreshed until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

from duetime.cli.runs.runs import run_facts
from duetime.cli.runs.top_frame import Frame, Part, TopRow, frame_of, frame_view, parts_of
from duetime.cli.serve.shutdown import StopButton
from duetime.engine.errors import DuetimeError, NotFound
from duetime.service.lookup import name_of, short_id
from duetime.service.operations.change import Pause, Resume, change
from duetime.service.operations.history import schedule_of
from duetime.service.operations.run import RetryRun, RunNow, retry, run_now
from duetime.service.operations.schedules import Show, show
from duetime.service.operations.waiting import look_again
from duetime.service.vocabulary import LIVE, Schedule, ScheduleState
from duetime.service.workers import is_alive
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.declarations import option, reading_if, single
from duetime.terminal.input import DOWN, ENTER, ESCAPE, UP, Keys
from duetime.terminal.output import clean, clock_time, plural, span
from duetime.terminal.schedules.display import schedule_facts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


Key = tuple[object, object]


class Actions:
    """The selected row, which stays selected as long as its run or schedule is shown, and the last message."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._rows: Sequence[TopRow] = ()
        self._selected: Key | None = None
        self._place = 0
        self._open = False
        self.message = ""
        self.quit = False

    def choose(self, rows: Sequence[TopRow]) -> TopRow | None:
        """Return the selected row among those that are shown now."""
        self._rows = [row for row in rows if row.schedule is not None]
        if self._selected is None or not self._rows:
            return None
        places = [place for place, row in enumerate(self._rows) if _key(row) == self._selected]
        self._place = places[0] if places else min(self._place, len(self._rows) - 1)
        self._selected = _key(self._rows[self._place])
        return self._rows[self._place]

    def press(self, key: str) -> None:
        act: dict[str, Callable[[], None]] = {
            UP: lambda: self._move(-1),
            "k": lambda: self._move(-1),
            DOWN: lambda: self._move(1),
            "j": lambda: self._move(1),
            ENTER: self._toggle,
            ESCAPE: self._leave,
            "q": self._leave,
            "r": self._retry,
            "p": self._pause,
        }
        if key in act:
            self.message = ""
            act[key]()

    def details(self) -> RenderableType | None:
        """Return the details of the selected row, if they are open."""
        row = self._row() if self._open else None
        if row is None or row.schedule is None:
            return None
        from rich.console import Group
        from rich.text import Text

        app = self._app
        run = None if row.run is None else look_again(app.call, row.run)
        schedule = _schedule(app, row) if run is None else schedule_of(app.call, run)
        pairs: list[tuple[object, object]] = []
        if run is not None:
            pairs += run_facts(app, run, schedule)
        if schedule is not None and run is None:
            pairs += schedule_facts(app, schedule)
        labelled = [(output.safe(label, "dim"), value) for label, value in pairs]
        grid = output.grid(["", ""], labelled, whole=1, fold=True, show_header=False)
        hint = "r retry · p pause · esc back" if run is not None else "r run now · p pause · esc back"
        return Group(grid, Text(), output.safe(self.message or hint, "dim"))

    def _row(self) -> TopRow | None:
        return self._rows[self._place] if self._selected is not None and self._place < len(self._rows) else None

    def _move(self, step: int) -> None:
        if self._rows:
            self._place = (self._place + step) % len(self._rows) if self._selected is not None else 0
            self._selected = _key(self._rows[self._place])

    def _toggle(self) -> None:
        if self._selected is None:
            self._move(0)
        self._open = not self._open and self._row() is not None

    def _leave(self) -> None:
        self.quit = not self._open
        self._open = False

    def _retry(self) -> None:
        row, call = self._row(), self._app.call
        if row is None or row.schedule is None:
            self.message = "Select a row first, with the arrow keys."
        elif row.run is None:
            schedule = _schedule(self._app, row)
            if schedule is not None:
                request = RunNow(schedule=schedule)
                self._do(partial(run_now, call, request), f"{clean(name_of(schedule.definition))} runs now.")
        elif row.run.status in LIVE:
            self.message = f"Run {row.run.id} has not ended; only a failed run can be retried."
        else:
            self._do(partial(retry, call, RetryRun(run=row.run.id)), f"Requeued run {row.run.id}.")

    def _pause(self) -> None:
        row = self._row()
        schedule = None if row is None else _schedule(self._app, row)
        if schedule is None:
            self.message = "Select a row first, with the arrow keys."
            return
        paused = schedule.progress.state == ScheduleState.PAUSED
        request = Resume(schedule=schedule) if paused else Pause(schedule=schedule)
        definition, name = schedule.definition, clean(name_of(schedule.definition))
        how = f"resume it: duetime resume {short_id(definition)}"
        text = f"Resumed {name}." if paused else f"Paused {name}; {how}"
        self._do(partial(change, self._app.call, request), text)

    def _do(self, act: Callable[[], object], text: str) -> None:
        """Carry out an operation, and show the text or why it was refused."""
        try:
            act()
            self.message = text
        except DuetimeError as error:
            self.message = error.message


def _schedule(app: Application, row: TopRow) -> Schedule | None:
    """Return the schedule of a row as it is now; None if the row has none."""
    if row.schedule is None:
        return None
    with suppress(NotFound):
        return show(app.call, Show(schedule=row.schedule, deleted=True)).value
    return None


def _key(row: TopRow) -> Key:
    return row.schedule, None if row.run is None else row.run.id


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
    blocks: list[RenderableType] = [_first_line(frame)]
    for part, rows in zip(parts, shown_rows, strict=True):
        blocks.append(Text())
        if rows:
            blocks.append(_table(part, rows, chosen))
        else:
            blocks.append(Text(f"{part.title}  ", style=part.style) + output.safe(part.nothing, "dim"))
    if actions is not None:
        blocks += [Text(), output.safe(actions.message or KEYS, "dim")]
    return Group(*blocks)


def _table(part: Part, rows: Sequence[TopRow], chosen: TopRow | None) -> RenderableType:
    """Return a table whose first heading is the title; a narrow screen has no space for the spare columns."""
    columns = [part.title, *part.columns]
    spare = () if output.width() >= NARROW else part.spare
    places = [number for number, name in enumerate(columns) if name not in spare]
    if part.total > len(rows):
        columns[1] += f" ({part.total:,} in total)"
    table = output.grid([columns[each] for each in places], [[row.cells[each] for each in places] for row in rows])
    table.header_style = part.style
    for row, drawn in zip(rows, table.rows, strict=True):
        drawn.style = "reverse" if row is chosen else None
    return table


def _shares(numbers: Sequence[int], lines: int) -> list[int]:
    """Return the number of rows for each part: as many as it has, or an equal share of what the shorter ones leave."""
    left = max(lines - 2 * len(numbers) - 3, len(numbers))
    shares = [0] * len(numbers)
    for place, number in enumerate(sorted(range(len(numbers)), key=lambda each: numbers[each])):
        shares[number] = min(numbers[number], left // (len(numbers) - place))
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


@commands.command(cls=reading_if(once=True), epilog="duetime top\nduetime top --once --json")
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
        while not actions.quit and not button.stop.is_set():
            screen = actions.details() or laid_out(frame_of(app), console.height, actions)
            live.update(screen, refresh=True)
            if button.stop.wait_or_read(interval, keys.descriptor):
                for key in keys.pressed():
                    actions.press(key)


def _print_again(app: Application, console: Console, button: StopButton, interval: float) -> None:
    """Print frames one below the other, for a terminal that cannot move its cursor."""
    while True:
        console.print(laid_out(frame_of(app), console.height))
        if button.stop.wait(interval):
            return
        console.print()
