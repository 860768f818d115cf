"""`duetime top`: workers, running, retrying, waiting and upcoming work, and failures, refreshed until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from duetime.cli.runs.runs import run_facts
from duetime.cli.runs.top_frame import Frame, Part, TopRow, frame_of, frame_view, parts_of, schedule_now
from duetime.cli.serve.shutdown import StopButton
from duetime.engine.errors import DuetimeError
from duetime.engine.model import ScheduleId
from duetime.service.lookup import name_of
from duetime.service.operations.change import Pause, Resume, change
from duetime.service.operations.history import schedule_of
from duetime.service.operations.run import RetryRun, RunNow, retry, run_now
from duetime.service.operations.waiting import look_again
from duetime.service.vocabulary import LIVE, ScheduleState
from duetime.service.workers import is_alive
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.declarations import option, single
from duetime.terminal.input import BACKSPACE, DOWN, ENTER, ESCAPE, UP, Keys
from duetime.terminal.output import clean, clock_time, plural, span
from duetime.terminal.schedules.display import schedule_facts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


class Actions:
    """The selected row, which keeps its place and stays selected while its run or schedule is shown; the filter; what
    can be undone; and the last message."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._rows: Sequence[TopRow] = ()
        self._selected: object = None
        self._place = 0
        self._undo: list[tuple[Callable[[], object], str, ScheduleId]] = []
        self._open = self._helps = self._types = False
        self.places: dict[ScheduleId, int] = {}
        """Schedules whose rows keep their place among the next ones: the selected one, and those that are paused."""
        self.filter = ""
        self.message = ""
        self.quit = False

    def visible(self, rows: Sequence[TopRow], most: int) -> Sequence[TopRow]:
        """Return at most so many rows, among them the selected one."""
        beyond = [row for row in rows[most:] if row.key == self._selected][:most]
        return [*rows[: most - len(beyond)], *beyond]

    def choose(self, rows: Sequence[TopRow]) -> TopRow | None:
        """Return the selected row among those that are shown now. If it is gone, none is selected: the next key would
        change what nobody selected."""
        self._rows = [row for row in rows if row.schedule is not None]
        chosen = self._row()
        self._place = self._place if chosen is None else self._rows.index(chosen)
        self._selected = None if chosen is None else chosen.key
        for place, (schedule, row) in enumerate(self._coming().items()):
            self.places.pop(schedule, None)
            if row.is_paused or row is chosen:
                self.places[schedule] = place
        return chosen

    def _coming(self) -> dict[ScheduleId, TopRow]:
        return {row.schedule: row for row in self._rows if row.run is None and row.schedule is not None}

    def press(self, key: str) -> None:
        if self._helps or (self._types and self._type(key)):
            self._helps = False
            return
        self._helps, self._types = key == "?", key == "/"
        self._open = self._open and not self._types
        act: dict[str, Callable[[], None]] = {
            **dict.fromkeys((UP, "k"), partial(self._move, -1)),
            **dict.fromkeys((DOWN, "j"), partial(self._move, 1)),
            ENTER: self._toggle,
            ESCAPE: self._back,
            "q": self._leave,
            "r": self._retry,
            "p": self._pause,
            "u": self._undo_last,
        }
        if key in act:
            self.message = ""
            act[key]()

    def last_line(self) -> Text:
        if self._types:
            return output.safe(f"/{self.filter}▏ enter keeps the filter · esc clears it")
        line = output.safe(f"Filter: {self.filter} (esc clears) · " if self.filter else "")
        line += output.safe(self.message or KEYS, "dim")
        line.no_wrap, line.overflow = not self.message, "ellipsis"
        return line

    def details(self) -> RenderableType | None:
        """Return the keys, or the details of the selected row, if they are open."""
        if self._helps:
            return output.grid(["KEY", "WHAT IT DOES (any key goes back)"], list(HELP.items()), fold=True)
        row = self._row() if self._open else None
        if row is None or row.schedule is None:
            return None
        from rich.console import Group
        from rich.text import Text

        app = self._app
        if row.run is None:
            schedule, key = schedule_now(app, row.schedule), "r run now"
            pairs = [] if schedule is None else schedule_facts(app, schedule)
        else:
            run, key = look_again(app.call, row.run), "r retry"
            pairs = run_facts(app, run, schedule_of(app.call, run))
        labelled = [(output.safe(label, "dim"), value) for label, value in pairs]
        grid = output.grid(["", ""], labelled, whole=1, fold=True, show_header=False)
        hint = f"{key} · p pause or resume · u undo · esc back"
        return Group(grid, Text(), output.safe(self.message or hint, "dim"))

    def _row(self) -> TopRow | None:
        return next((row for row in self._rows if row.key == self._selected), None)

    def _move(self, step: int) -> None:
        if self._rows:
            place = (self._place + step) % len(self._rows)
            self._place = place if self._selected is not None else min(self._place, len(self._rows) - 1)
            self._selected = self._rows[self._place].key

    def _toggle(self) -> None:
        if self._selected is None:
            self._move(0)
        self._open = not self._open and self._row() is not None

    def _leave(self) -> None:
        self.quit = not self._open
        self._open = False

    def _back(self) -> None:
        if self.filter and not self._open:
            self.filter = ""
        else:
            self._leave()

    def _type(self, key: str) -> bool:
        """Take a key as a part of the filter. Return whether it was one, or ended the input."""
        self._types, self._place = key not in (ENTER, ESCAPE, UP, DOWN), 0
        if key in (ESCAPE, BACKSPACE):
            self.filter = "" if key == ESCAPE else self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter = (self.filter + key)[:MAX_FILTER]
        return key not in (UP, DOWN)

    def _retry(self) -> None:
        row, call = self._row(), self._app.call
        if row is None or row.schedule is None:
            self.message = "Select a row first, with the arrow keys."
        elif row.run is None:
            schedule = schedule_now(self._app, row.schedule)
            if schedule is not None:
                request = RunNow(schedule=schedule)
                self._do(partial(run_now, call, request), f"{clean(name_of(schedule.definition))} runs now.")
        elif row.run.status in LIVE:
            self.message = f"Run {row.run.id} has not ended; only a failed run can be retried."
        else:
            self._do(partial(retry, call, RetryRun(run=row.run.id)), f"Requeued run {row.run.id}.")

    def _pause(self) -> None:
        row = self._row()
        schedule = None if row is None else schedule_now(self._app, row.schedule)
        if schedule is None:
            self.message = "Select a row first, with the arrow keys."
            return
        (definition, progress), call = schedule, self._app.call
        id, name = definition.id, clean(name_of(definition))
        is_paused = progress.state == ScheduleState.PAUSED
        pause = Pause(schedule=id, until=definition.resume_at, note=progress.note) if is_paused else Pause(schedule=id)
        changes = [(partial(change, call, Resume(schedule=id)), f"Resumed {name}", id)]
        changes.insert(is_paused, (partial(change, call, pause), f"Paused {name}", id))
        (act, text, _), undo = changes
        if self._do(act, f"{text}; u undoes it.", id):
            self._undo.append(undo)

    def _undo_last(self) -> None:
        self.message = "There is no pause or resume to undo; u undoes those that p did here."
        if self._undo:
            act, text, id = self._undo.pop()
            self._do(act, f"{text} again.", id)

    def _do(self, act: Callable[[], object], text: str, schedule: ScheduleId | None = None) -> bool:
        """Carry out an operation, and show the text or why it was refused. Return whether it was carried out. The row
        of a schedule that is changed keeps its place."""
        coming = list(self._coming())
        if schedule is not None and schedule in coming:
            self.places.setdefault(schedule, coming.index(schedule))
        try:
            act()
        except DuetimeError as error:
            self.message = error.message
            return False
        self.message = text
        return True


NARROW = 72
"""Width of a screen below which less important columns are left out."""
MAX_FILTER = 100
KEYS = "? help · q quit · ↑↓ select · enter details · p pause · u undo · r run · / filter"
HELP = {
    "↑ ↓ k j": "Select a row; it keeps its place and stays selected while the list changes.",
    "enter": "Show the details of the row.",
    "p": "Pause the schedule of the row; resume it if it is paused.",
    "u": "Undo the last pause or resume that was done here; again: the one before.",
    "r": "Retry a failed run, or run a schedule now. This cannot be undone.",
    "/": "Show only what has a text in its name or error; enter keeps the filter, esc clears it.",
    "q esc": "Go back, or quit.",
}


def laid_out(frame: Frame, lines: int, actions: Actions | None = None) -> RenderableType:
    """Lay out a frame in at most `lines` lines: each part gives up rows before any part disappears."""
    from rich.console import Group
    from rich.text import Text

    parts = [part for part in parts_of(frame) if part.rows or part.nothing]
    shares = _shares([len(part.rows) for part in parts], lines)
    shown_rows = [
        part.rows[:most] if actions is None else actions.visible(part.rows, most)
        for part, most in zip(parts, shares, strict=True)
    ]
    chosen = None if actions is None else actions.choose([row for rows in shown_rows for row in rows])
    blocks: list[RenderableType] = [_first_line(frame)]
    for part, rows in zip(parts, shown_rows, strict=True):
        blocks.append(Text())
        if rows:
            blocks.append(_table(part, rows, chosen))
        else:
            blocks.append(Text(f"{part.title}  ", style=part.style) + output.safe(part.nothing, "dim"))
    if actions is not None:
        blocks += [Text(), actions.last_line()]
    return Group(*blocks)


def _table(part: Part, rows: Sequence[TopRow], chosen: TopRow | None) -> RenderableType:
    """Return a table whose first heading is the title; a narrow screen has no space for the spare columns."""
    columns = [part.title, *part.columns]
    spare = () if output.width() >= NARROW else part.spare
    places = [number for number, name in enumerate(columns) if name not in spare]
    if part.total.number > len(rows):
        columns[1] += f" ({len(rows)} of {part.total})"
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


@commands.command(reads_if={"once": True}, epilog="duetime top\nduetime top --once --json")
def top(
    once: Annotated[bool, option("--once", "Print once and exit.")] = False,
    interval: Annotated[float, option("--interval SECONDS", "Time between two updates.", min=0.2, max=3600)] = 1.0,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Watch workers, running and upcoming work, and failures. Prints once when output is not a terminal, or with
    --json.

    Keys: arrows select a row, Enter shows its details, p pauses or resumes its schedule, u undoes that, r retries a
    failed run or runs a schedule now, / filters by name or error, ? explains the keys, q quits.
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
            screen = actions.details()
            if screen is None:
                screen = laid_out(frame_of(app, actions.filter, actions.places), console.height, actions)
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
