"""Lookup of messages by id. A message is a one-off schedule or one run of a recurring schedule."""

from __future__ import annotations

from typing import Any, NamedTuple

from duetime.engine.kind import Caller
from duetime.engine.model import LIVE, Run, RunStatus, Schedule, ScheduleId, ScheduleState
from duetime.engine.policy.follow_ups import NO_PAYLOAD
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Page, RunQuery, ScheduleQuery
from duetime.kinds.requests.qstash_api.call import value_of
from duetime.kinds.requests.qstash_api.filters import PAGE
from duetime.kinds.requests.wire import KIND, ONCE, failed_run, schedule_and_run

_LIVING = frozenset({ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.BROKEN})


class Message(NamedTuple):
    schedule: Schedule
    run: Run | None
    """None for a one-off that has not started."""

    @property
    def is_once(self) -> bool:
        return self.schedule.definition.public_id.startswith(ONCE)

    @property
    def is_living(self) -> bool:
        if self.is_once:
            return self.schedule.progress.state in _LIVING
        return self.run is not None and self.run.status in LIVE


class Failure(NamedTuple):
    """A message whose attempts are used up."""

    schedule: Schedule
    run: Run


class Finder:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def message(self, caller: Caller, id: str) -> Message | None:
        made_by = schedule_and_run(id)
        if made_by is not None:
            return self._made_by_schedule(caller, *made_by)
        if not id.startswith(ONCE):
            return None
        number = self._scheduler.number_of(caller, id)
        run = None if number is None else self.latest_run(caller, number)
        if run is not None:
            return self.of_run(caller, run)
        schedule = self._scheduler.find(caller, id, KIND)
        return None if schedule is None else Message(schedule, None)

    def _made_by_schedule(self, caller: Caller, schedule_id: str, run_id: int) -> Message | None:
        run = self._scheduler.run(caller, run_id)
        found = None if run is None or run.kind != KIND else self.of_run(caller, run)
        return found if found is not None and found.schedule.definition.public_id == schedule_id else None

    def living(self, caller: Caller, id: str) -> Message | None:
        found = self.message(caller, id)
        return found if found is not None and found.is_living else None

    def failed(self, caller: Caller, dlq: str) -> Failure | None:
        number = failed_run(dlq)
        run = None if number is None else self._scheduler.run(caller, number)
        return None if run is None or run.kind != KIND else self.failure(caller, run)

    def failure(self, caller: Caller, run: Run) -> Failure | None:
        """Return the failure of a run, or None if it has not failed or was dismissed."""
        found = None if run.status != RunStatus.FAILED or run.stop else self.of_run(caller, run)
        return None if found is None else Failure(found.schedule, run)

    def of_run(self, caller: Caller, run: Run) -> Message | None:
        """Return the message of a run, even if its schedule was deleted, because the history outlives it."""
        schedule = self._scheduler.schedule_of(caller, run, deleted=True)
        if schedule is None or schedule.definition.payload == NO_PAYLOAD:  # deleted by a version that kept nothing
            return None
        return Message(schedule, run)

    def latest_run(self, caller: Caller, schedule: ScheduleId) -> Run | None:
        runs = self.runs(caller, schedule=schedule, limit=1).items
        return runs[0] if runs else None

    def runs(self, caller: Caller, **more: Any) -> Page[Run]:
        page: Page[Run] = value_of(self._scheduler.runs(caller, RunQuery(kind=KIND, **{"limit": PAGE, **more})))
        return page

    def schedules(self, caller: Caller, status: str, cursor: str | None = None, limit: int = PAGE) -> Page[Schedule]:
        query = ScheduleQuery(kind=KIND, status=status, newest_first=True, limit=limit, cursor=cursor)
        page: Page[Schedule] = value_of(self._scheduler.search(caller, query))
        return page

    def all_schedules(self, caller: Caller, status: str) -> list[Schedule]:
        page = self.schedules(caller, status)
        found = page.items
        while page.cursor is not None:
            page = self.schedules(caller, status, page.cursor)
            found += page.items
        return found

    def all_runs(self, caller: Caller, status: str) -> list[Run]:
        page = self.runs(caller, status=status)
        found = page.items
        while page.cursor is not None:
            page = self.runs(caller, status=status, cursor=page.cursor)
            found += page.items
        return found
