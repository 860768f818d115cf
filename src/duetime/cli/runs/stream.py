"""Live output of what happens in a store: a line for every run that ends, is retried, or takes long."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

from duetime.engine.clock import SECOND, Instant
from duetime.engine.model import LIVE, Run, RunId, RunStatus
from duetime.engine.store import RunQuery
from duetime.service.errors import unwrap
from duetime.service.services import OPERATOR
from duetime.terminal import output
from duetime.terminal.application import Application
from duetime.terminal.output import clean, clock_time, outcome, plural, relative, run_document, shortened, span

PAGE = 500
"""Runs that are read per refresh. If more were created since the last one, the oldest are only counted."""
LONG = 1 * SECOND
"""A run that takes longer than this is reported as running."""
MORE = "more"
NAME = 16
"""Minimum width of a name, so that what follows is aligned in most lines."""
ROOMY = 100
"""Width from which there is space for a run's duration beside its outcome."""


class Tail:
    """Polls new and live runs, and reports which of them changed."""

    def __init__(self, app: Application, *, kinds: tuple[str, ...] = (), long: int = LONG) -> None:
        self._app, self._kinds, self._long = app, kinds, long
        self._seen: dict[RunId, tuple[str, int]] = {}
        self._open: set[RunId] = set()
        self._top = app.store.newest_run()
        self.unseen = 0
        """Number of runs that were not read because there were too many, since the caller last reset it."""
        self.news()

    def news(self) -> list[tuple[str, Run]]:
        now = self._app.clock.now()
        found = self._look()
        changed = []
        for run in sorted(found.values(), key=lambda run: run.finished or now):
            word = _word(run, now, self._long)
            if word is not None and self._seen.get(run.id) != (word, run.attempt):
                self._seen[run.id] = (word, run.attempt)
                changed.append((word, run))
        self._open = {run.id for run in found.values() if run.status in LIVE}
        self._seen = {id: seen for id, seen in self._seen.items() if id in self._open}
        return changed

    def _look(self) -> dict[RunId, Run]:
        """Return new runs, live runs (also an old one that is retried), and runs that were live at the last call."""
        before, self._top = self._top, self._app.store.newest_run()
        fresh = self._runs(RunQuery(above=before, limit=PAGE)) if self._top > before else []
        if len(fresh) == PAGE:
            self.unseen += max(0, fresh[-1].id - before - 1)
        found = {run.id: run for run in (*fresh, *self._runs(RunQuery(status="live", limit=PAGE)))}
        gone = tuple(self._open - set(found))
        return found | {run.id: run for run in (self._runs(RunQuery(ids=gone, limit=len(gone))) if gone else ())}

    def _runs(self, query: RunQuery) -> list[Run]:
        return unwrap(self._app.scheduler.runs(OPERATOR, replace(query, kinds=self._kinds, count_to=0))).items

    def lately(self, number: int) -> list[tuple[str, Run]]:
        """Return the last runs that have something to report, oldest first, as if they had just been seen."""
        now = self._app.clock.now()
        words = [(_word(run, now, self._long), run) for run in reversed(self._runs(RunQuery(limit=number)))]
        return [(word, run) for word, run in words if word is not None]


def _word(run: Run, now: Instant, long: int) -> str | None:
    """Return the event to report for a run, or None while it only waits in the queue."""
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
        for word, run in self._tail.lately(last) if last else ():
            self._print(word, run)

    def refresh(self) -> None:
        for word, run in self._tail.news():
            if word != "running":
                self.counts[word] += 1
            self._print(word, run)
        if self._tail.unseen:
            self._tell_unseen(self._tail.unseen)
            self._tail.unseen = 0
        if self._live is not None:
            bar = output.safe(self._next(), "dim")
            bar.no_wrap, bar.overflow = True, "ellipsis"
            self._live.update(bar, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, word: str, run: Run) -> None:
        if self._console is None:
            view = run_document(run, self._app.scheduler.zone)
            output.print_json_line({"event": word, "kind": run.kind, "name": run.name, **view})
            return
        moment = run.finished or run.started or self._app.clock.now()
        line = output.safe(clock_time(moment, self._app.scheduler.zone), "dim")
        line.append(f"  {word:<9}", output.STYLES.get(word, ""))
        terminal = self._console.is_terminal
        name = shortened(clean(run.name)) if terminal else clean(run.name)
        line.append(f"  {name:<{NAME}}", "bold")
        if self._console.width >= ROOMY:
            line.append(f"  {_measures(run):<20}", "dim")
        line.append(f"  {clean(_said(word, run))}", output.STYLES.get(word, "") if run.error else "")
        self._console.print(line, no_wrap=terminal, overflow="ellipsis", crop=terminal, soft_wrap=not terminal)

    def _tell_unseen(self, number: int) -> None:
        self.counts[MORE] += number
        if self._console is None:
            output.print_json_line({"event": MORE, "runs": number})
        else:
            self._console.print(output.safe(f"... and {plural(number, 'run')} more, too many to show", "dim"))

    def _next(self) -> str:
        now = self._app.clock.now()
        wanted = (
            each for each in self._app.scheduler.coming(OPERATOR, None, 20) if self._is_shown(each.definition.kind)
        )
        found = list(islice(wanted, 3))
        coming = [
            f"{shortened(clean(each.definition.name))} {relative(each.progress.next or now, now)}" for each in found
        ]
        return f"Ctrl-C stops  |  next: {', '.join(coming) or 'nothing'}  |  {self.summary()}"

    def _is_shown(self, kind: str) -> bool:
        return not self._kinds or kind in self._kinds

    def summary(self) -> str:
        return ", ".join(f"{number:,} {word}" for word, number in sorted(self.counts.items())) or "nothing yet"


def _measures(run: Run) -> str:
    if run.started is None:
        return ""
    late = f"{span(run.started - run.due)} late" if run.attempt <= 1 else f"attempt {run.attempt}"
    return late if run.finished is None else f"{span(run.finished - run.started)}, {late}"


def _said(word: str, run: Run) -> str:
    if word == "retry":
        return f"{run.error}"
    if run.last is not None:
        return f"{plural(abs(run.number), 'occurrence')}: {run.error}"
    return outcome(run)
