"""What happens in a store, as it happens: a line for every run that ends, is tried again, or takes its time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from duetime.api import LOCAL, taken
from duetime.cli import screen
from duetime.cli.text import clean, clock_time, plural, relative, span
from duetime.compose import App
from duetime.core.clock import SECOND, Instant
from duetime.core.model import LIVE, Run, RunId, RunStatus
from duetime.core.store import RunQuery, ScheduleQuery
from duetime.faces.present import run_view

PAGE = 200
LONG = 1 * SECOND
"""A run that takes longer than this is said to be running."""


class Tail:
    """Reads the latest runs again and again, and tells which of them have news."""

    def __init__(self, room: App) -> None:
        self._room = room
        self._seen: dict[RunId, tuple[str, int]] = {}
        self._open: set[RunId] = set()
        self.news()

    def news(self) -> list[tuple[str, Run]]:
        scheduler, now = self._room.scheduler, self._room.clock.now()
        latest = taken(scheduler.runs(LOCAL, RunQuery(limit=PAGE))).items
        shown = {run.id for run in latest}
        older = [run for id in self._open - shown if (run := scheduler.run(LOCAL, id)) is not None]
        changed = []
        for run in sorted([*older, *latest], key=lambda run: run.finished or now):
            word = _word(run, now)
            if word is not None and self._seen.get(run.id) != (word, run.attempt):
                self._seen[run.id] = (word, run.attempt)
                changed.append((word, run))
        self._open = {run.id for run in (*older, *latest) if run.status in LIVE}
        kept = shown | self._open
        self._seen = {id: seen for id, seen in self._seen.items() if id in kept}
        return changed


def _word(run: Run, now: Instant) -> str | None:
    """What there is to say about a run; nothing while it only stands in line."""
    if run.status == RunStatus.RUNNING:
        return "running" if run.started is not None and now - run.started > LONG else None
    if run.status == RunStatus.PENDING:
        return "retry" if run.attempt and run.error else None
    return None if run.status == RunStatus.QUEUED else run.status


class Stream:
    """Prints the news; on a terminal a last line below them says what comes next."""

    def __init__(self, room: App, *, json_: bool, bar: bool) -> None:
        self._room, self._json = room, json_
        self._tail = Tail(room)
        self.counts: Counter[str] = Counter()
        self._console = None if json_ else screen.console()
        self._live: Any = None
        if bar and self._console is not None and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def refresh(self) -> None:
        for word, run in self._tail.news():
            if word != "running":
                self.counts[word] += 1
            self._print(word, run)
        if self._live is not None:
            bar = screen.safe(self._next(), "dim")
            bar.no_wrap, bar.overflow = True, "ellipsis"
            self._live.update(bar, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, word: str, run: Run) -> None:
        if self._console is None:
            screen.print_json_line({"event": word, "name": run.name, **run_view(run, self._room.scheduler.zone)})
            return
        line = screen.safe(clock_time(run.finished or self._room.clock.now(), self._room.scheduler.zone), "dim")
        line.append(f"  {word:<9}", screen.STYLES.get(word, ""))
        line.append(f"  {clean(run.name):<10}", "bold").append(f"  {_measures(run):<20}", "dim")
        line.append(f"  {clean(_said(word, run))}", screen.STYLES.get(word, "") if run.error else "")
        terminal = self._console.is_terminal
        self._console.print(line, no_wrap=terminal, overflow="ellipsis", crop=terminal, soft_wrap=not terminal)

    def _next(self) -> str:
        now = self._room.clock.now()
        query = ScheduleQuery(kind="job", status="pending", due_from=now, by_time=True, limit=3)
        found = taken(self._room.scheduler.search(LOCAL, query)).items
        coming = [f"{clean(each.definition.name)} {relative(each.progress.next or now, now)}" for each in found]
        return f"next: {', '.join(coming) or 'nothing'}  |  {self.summary()}  |  Ctrl-C stops"

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
    return run.error or run.report or run.result or ""
