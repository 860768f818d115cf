"""Actions of the keys of `duetime top`: select a row, show its details, retry a run, pause a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from duetime.cli.runs.run import run_facts
from duetime.cli.runs.top_frame import Row
from duetime.engine.model import LIVE, ScheduleState
from duetime.engine.result import Err, Result
from duetime.service.changes import ChangeRequest, change_found
from duetime.service.presenters import next_instants
from duetime.service.services import OPERATOR
from duetime.service.state_details import detail_of
from duetime.terminal import output
from duetime.terminal.context import Application
from duetime.terminal.keys import DOWN, ENTER, ESCAPE, UP
from duetime.terminal.output import clean
from duetime.terminal.schedules.display import schedule_facts
from duetime.terminal.schedules.kind_view import ANY_KIND

if TYPE_CHECKING:
    from rich.console import RenderableType

Key = tuple[object, object]


class Actions:
    """The selected row, which stays selected while its run or schedule is shown, and the last message."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._rows: Sequence[Row] = ()
        self._selected: Key | None = None
        self._place = 0
        self._open = False
        self.message = ""
        self.quit = False

    def choose(self, rows: Sequence[Row]) -> Row | None:
        """Return the selected one of the rows that are shown now."""
        self._rows = [row for row in rows if row.schedule is not None]
        if self._selected is None or not self._rows:
            return None
        found = [place for place, row in enumerate(self._rows) if _key(row) == self._selected]
        self._place = found[0] if found else min(self._place, len(self._rows) - 1)
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
        run = None if row.run is None else app.scheduler.run(OPERATOR, row.run.id)
        schedule = app.store.get(row.schedule) if run is None else app.scheduler.schedule_of(OPERATOR, run)
        pairs: list[tuple[object, object]] = []
        if run is not None:
            pairs += run_facts(app, run, schedule)
        if schedule is not None and run is None:
            now = app.clock.now()
            detail = detail_of(app.scheduler, schedule)
            times = next_instants(schedule, now, 5)
            pairs += schedule_facts(ANY_KIND, schedule, times, app.scheduler.zone, now, detail)
        labelled = [(output.safe(label, "dim"), value) for label, value in pairs]
        shown = output.grid(["", ""], labelled, whole=1, fold=True, show_header=False)
        hint = "r retry · p pause · esc back" if run is not None else "r run now · p pause · esc back"
        return Group(shown, Text(), output.safe(self.message or hint, "dim"))

    def _row(self) -> Row | None:
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
        row, scheduler = self._row(), self._app.scheduler
        if row is None or row.schedule is None:
            self.message = "Select a row first, with the arrow keys."
        elif row.run is None:
            schedule = self._app.store.get(row.schedule)
            if schedule is not None:
                made = scheduler.run_now(OPERATOR, schedule.definition.public_id)
                self._tell(made, f"{clean(schedule.definition.name)} runs now.")
        elif row.run.status in LIVE:
            self.message = f"Run {row.run.id} has not ended; only a failed run can be retried."
        else:
            self._tell(scheduler.retry(OPERATOR, row.run.id), f"Requeued run {row.run.id}.")

    def _pause(self) -> None:
        row = self._row()
        schedule = None if row is None or row.schedule is None else self._app.store.get(row.schedule)
        if schedule is None:
            self.message = "Select a row first, with the arrow keys."
            return
        paused = schedule.progress.state == ScheduleState.PAUSED
        done = change_found(self._app.services, OPERATOR, schedule, ChangeRequest("resume" if paused else "pause"))
        definition, spec = schedule.definition, self._app.services.specs.get(schedule.definition.kind)
        short = f"{definition.kind[0]}{definition.id}"
        command = f"change resume {definition.public_id}" if spec is None else f"{spec.command} resume {short}"
        how = f"resume it: duetime {command}"
        name = clean(definition.name)
        self._tell(done, f"Resumed {name}." if paused else f"Paused {name}; {how}")

    def _tell(self, result: Result[Any], text: str) -> None:
        self.message = (result.message or result.code) if isinstance(result, Err) else text


def _key(row: Row) -> Key:
    return row.schedule, None if row.run is None else row.run.id
