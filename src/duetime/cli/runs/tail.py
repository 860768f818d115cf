"""Live output of what happens in a store: a line for every run that ends, is retried, or takes long."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any

from duetime.cli.runs.kind_option import KIND_NAMES, KINDS, known_kind
from duetime.cli.serve.shutdown import LOOK, StopButton
from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import RunId
from duetime.engine.store import RunQuery
from duetime.service.change_feed import BATCH, RunFollower
from duetime.service.operations.upcoming import coming
from duetime.service.services import OPERATOR
from duetime.service.vocabulary import Page, Run, RunStatus
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.declarations import option, single
from duetime.terminal.output import clean, clock_time, outcome, plural, relative, run_document, shortened, span
from duetime.terminal.schedules.display import of_occurrences, retry_text

LONG = 1 * SECOND
"""A run that takes longer than this is reported as running."""
MORE = "more"
NAME, NARROW_NAME, MEASURES = 28, 16, 26
"""Widths of columns on a terminal, so that the following columns are aligned."""
WIDE = 108
"""Width from which there is space for a run's duration beside its outcome."""


class Tail:
    """Reports which runs changed, out of those that the change feed reads."""

    def __init__(self, app: Application, *, kinds: tuple[str, ...] = (), long: int = LONG) -> None:
        self._app, self._long = app, long
        self._query = RunQuery(kinds=kinds, limit=BATCH, count_to=0)
        self._follower = RunFollower(self._ask, app.clock, app.store.newest_run(), resumed=False)
        self._seen: dict[RunId, tuple[str, int, Instant | None]] = {}
        self.unseen = 0
        """Number of runs that were not read because there were too many, since the caller last reset it."""
        self.news()

    def _ask(self, **changes: Any) -> Page[Run]:
        return self._app.scheduler.runs(OPERATOR, replace(self._query, **changes))

    def news(self) -> list[tuple[str, Run]]:
        now = self._app.clock.now()
        news = self._follower.look((), now)
        self.unseen += news.skipped
        self._seen = {run.id: self._seen[run.id] for run in news.known if run.id in self._seen}
        changed = []
        for run in sorted(news.known, key=lambda run: run.finished or now):
            event = _event(run, now, self._long)
            if event is not None and self._seen.get(run.id) != (event, run.attempt, run.finished):
                self._seen[run.id] = (event, run.attempt, run.finished)
                changed.append((event, run))
        return changed

    def lately(self, number: int) -> list[tuple[str, Run]]:
        """Return the last runs that have something to report, oldest first, as if they had just been read."""
        now = self._app.clock.now()
        events = [(_event(run, now, self._long), run) for run in reversed(self._ask(limit=number).items)]
        return [(event, run) for event, run in events if event is not None]


def _event(run: Run, now: Instant, long: int) -> str | None:
    """Return the event to report for a run, or None while the run only waits in the queue."""
    if run.status == RunStatus.RUNNING:
        return "running" if run.started is not None and now - run.started > long else None
    if run.status == RunStatus.PENDING:
        return "retry" if run.attempt and run.error else None
    return None if run.status == RunStatus.QUEUED else run.status


class Stream:
    """Prints changes; on a terminal, a last line below them shows what comes next."""

    def __init__(
        self, app: Application, *, json_: bool, bar: bool, kinds: tuple[str, ...] = (), long: int = LONG, last: int = 0
    ) -> None:
        self._app, self._json, self._kinds = app, json_, kinds
        self._tail = Tail(app, kinds=kinds, long=long)
        self.counts: Counter[str] = Counter()
        self._console = None if json_ else output.console()
        self._live: Any = None
        if bar and self._console is not None and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        for event, run in self._tail.lately(last) if last else ():
            self._print(event, run)

    def refresh(self) -> None:
        for event, run in self._tail.news():
            if event != "running":
                self.counts[event] += 1
            self._print(event, run)
        if number := self._tail.unseen:
            self._tail.unseen = 0
            self.counts[MORE] += number
            if self._console is None:
                output.print_json_line({"event": MORE, "runs": number})
            else:
                self._console.print(output.safe(f"... and {plural(number, 'run')} more, too many to show", "dim"))
        if self._live is not None:
            bar = output.safe(self._next(), "dim")
            bar.no_wrap, bar.overflow = True, "ellipsis"
            self._live.update(bar, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, event: str, run: Run) -> None:
        if self._console is None:
            view = run_document(run, self._app.call.zone)
            about = {"kind": run.kind, "name": run.name, "schedule_short_id": run.schedule_short_id}
            output.print_json_line({"event": event, **about, **view})
            return
        moment = run.finished or run.started or self._app.clock.now()
        line = output.safe(clock_time(moment, self._app.call.zone), "dim")
        line.append(f"  {event:<9}", output.STYLES.get(event, ""))
        terminal = self._console.is_terminal
        wide = self._console.width >= WIDE
        name = _column(clean(run.name), NAME if wide else NARROW_NAME) if terminal else f"{clean(run.name):<{NAME}}"
        line.append(f"  {run.schedule_short_id:<5}", "dim")
        line.append(f"  {name}", "bold")
        if wide:
            line.append(f"  {_measures(run):<{MEASURES}}", "dim")
        detail = "; ".join(filter(None, (of_occurrences(run, outcome(run)), retry_text(self._app, run))))
        line.append(f"  {output.in_line(detail)}", output.STYLES.get(event, "") if run.error else "")
        self._console.print(line, no_wrap=terminal, overflow="ellipsis", crop=terminal, soft_wrap=not terminal)

    def _next(self) -> str:
        now = self._app.clock.now()
        names = [
            f"{shortened(clean(each.definition.name))} {relative(each.progress.next or now, now)}"
            for each in coming(self._app.call, 20)
            if not self._kinds or each.definition.kind in self._kinds
        ][:3]
        return f"Ctrl-C stops  |  next: {', '.join(names) or 'nothing'}  |  {self.summary()}"

    def summary(self) -> str:
        return ", ".join(f"{number:,} {event}" for event, number in sorted(self.counts.items())) or "nothing yet"


def _column(text: str, width: int) -> str:
    """Return the text in exactly this many columns, even if some characters take two."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def _measures(run: Run) -> str:
    if run.started is None:
        return ""
    late = f"{span(run.started - run.due)} late" if run.attempt <= 1 else f"attempt {run.attempt}"
    return late if run.finished is None else f"{span(run.finished - run.started)}, {late}"


# `duetime tail`: show live which runs start, end, fail or are retried, whichever process runs them.

commands = single()


_TAIL_EXAMPLES = """\
duetime tail
duetime tail --kind prompt -n 50
"""


@commands.command(reads=True, epilog=_TAIL_EXAMPLES)
def tail(
    kind: Annotated[
        list[str] | None, option("--kind KIND", f"Only this kind: {KIND_NAMES}. Repeatable.", **KINDS)
    ] = None,
    last: Annotated[int, option("-n --last", "Number of earlier runs to show first.", min=0, max=500)] = 10,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Follow runs as they start, end and fail, in all processes on the store, until Ctrl-C. With --json, print a line
    for each."""
    for name in kind or ():
        known_kind(name)
    button = StopButton()
    with opened(db) as app, button.installed():
        stream = Stream(app, json_=json_, bar=True, kinds=tuple(kind or ()), long=0, last=last)
        try:
            while not button.stop.wait(LOOK):
                stream.refresh()
        finally:
            stream.close()
