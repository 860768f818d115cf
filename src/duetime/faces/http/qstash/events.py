"""The logs: what happened to messages, told from their runs and attempts, latest first."""

from __future__ import annotations

from functools import partial
from typing import Any

from duetime.core.kind import Caller
from duetime.core.model import Run, Schedule
from duetime.core.requesting import ONCE
from duetime.core.scheduler import Scheduler
from duetime.core.store import Page
from duetime.faces.http.qstash.asking import Asking
from duetime.faces.http.qstash.filtering import Filter, Source, walk
from duetime.faces.http.qstash.finding import Finder, Message
from duetime.faces.http.qstash.refusing import Answer
from duetime.faces.http.qstash.telling import told
from duetime.faces.http.qstash.views import View

MOST = 1000
_IN_PROGRESS = frozenset({"ACTIVE", "RETRY", "ERROR"})


class Events:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._finder = scheduler, Finder(scheduler)

    def listed(self, asking: Asking) -> Answer:
        wanted = Filter(asking.query)
        states = wanted.values("state")
        states |= _IN_PROGRESS if "IN_PROGRESS" in states else set()

        def fits(row: View) -> bool:
            return (not states or row["state"] in states) and wanted.fits(row)

        sources = self._sources(asking.caller, wanted)
        rows, cursor = walk(sources, wanted.cursor, wanted.count(MOST), fits)
        rows.sort(key=lambda row: -row["time"])
        return Answer({"events": rows, **({} if cursor is None else {"cursor": cursor})})

    def _sources(self, caller: Caller, wanted: Filter) -> list[Source[Any]]:
        named = wanted.values("messageId") | wanted.values("messageIds")
        if named:
            found = [each for id in sorted(named) if (each := self._finder.message(caller, id)) is not None]
            return [Source(lambda _at, _limit: Page(found, None, len(found)), partial(self._of_message, caller))]
        # A message that has not begun, or never will, has no run.
        unbegun = [
            Source(partial(self._finder.schedules, caller, status), partial(_of_unbegun, caller.depth))
            for status in ("pending", "cancelled")
        ]
        begun = Source(
            lambda at, limit: self._finder.runs(caller, cursor=at, limit=limit), partial(self._of_run, caller)
        )
        return [*unbegun, begun]

    def _of_run(self, caller: Caller, run: Run) -> list[View]:
        found = self._finder.of_run(caller, run)
        return [] if found is None else self._of_message(caller, found)

    def _of_message(self, caller: Caller, message: Message) -> list[View]:
        attempts = [] if message.run is None else self._scheduler.attempts(caller, message.run.id)
        return told(message, attempts, caller.depth)


def _of_unbegun(depth: int, schedule: Schedule) -> list[View]:
    is_message = schedule.definition.public_id.startswith(ONCE) and not schedule.progress.run_count
    return told(Message(schedule, None), [], depth) if is_message else []
