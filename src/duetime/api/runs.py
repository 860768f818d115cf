"""Runs from Python: start one, wait for it, read the history, retry or dismiss failures, read the inbox."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from duetime.api.base import Base
from duetime.api.types import Id, Messages, RunDetails, Runs
from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Run, status_of
from duetime.engine.queries import NO_RUN
from duetime.engine.store import FAILED_OR_LOST, Page, RunQuery
from duetime.service.dead_letters import Action, DeadLetterQuery, change_dead
from duetime.service.errors import error_of, unwrap
from duetime.service.history import STATUSES, deliveries_of, run_details
from duetime.service.inbox import Mark, Show, mark_all_read, mark_messages, message_views, messages
from duetime.service.kind_spec import check_kind
from duetime.service.operations.declaration import Answer
from duetime.service.operations.run import Retry, RunAgain, RunNow, Stop, retry, run_again, run_now, stop
from duetime.service.options import Time
from duetime.service.run_control import has_ended, waited_for
from duetime.service.services import pages_of
from duetime.service.shapes import RunShape, ScheduleShape
from duetime.service.warnings import warning_facts

T = TypeVar("T")
OPEN = frozenset({"pending", "running", "paused"})
"""Statuses of schedules that may still fire."""
_PART = 500
"""Runs that are read at once."""
LOOK = 0.05
"""Seconds between two reads of the store while waiting."""


class Running(Base):
    def run_now(self, id: Id, *, wait: float = 0) -> RunShape:
        """Run a schedule now, in addition to its times. `wait` is how many seconds to wait for the run to end."""
        return self._started(run_now(self._call, RunNow(schedule=id)), wait)

    def wait_for_run(self, run_id: int, seconds: float | None = None) -> RunShape:
        """Wait until a run has ended or the time is up, and return it; `ended` says which, and `reason` why it has not
        ended."""
        run = wait_for(lambda: self._run(run_id), has_ended, seconds)
        return cast("RunShape", {**self._one(run), **waited_for(self.app.services, run)})

    def wait(self, id: Id, seconds: float | None = None) -> ScheduleShape:
        """Wait until a schedule is over or the time is up, and return it; its `status` says which.

        A recurring schedule is over after its `max_runs` or `end`, or when it is cancelled.
        """
        over = wait_for(lambda: self._find(id), lambda found: status_of(found.progress) not in OPEN, seconds)
        return self._view(over)

    def history(
        self,
        id: Id | None = None,
        limit: int = 20,
        *,
        kind: str | None = None,
        status: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Runs:
        """Return the runs of one schedule, which may be deleted, or of all schedules; the latest first.

        `status` is completed, failed (which includes lost), missed, skipped and so on; `live` selects runs that have
        not ended. `since` and `until` are times such as `yesterday`, compared with the times at which runs were due.
        """
        check_kind(kind)
        if status is not None and status not in STATUSES:
            raise InvalidInput(field="status", problem=f"there is no {status!r}; choose from {', '.join(STATUSES)}")
        query = RunQuery(
            schedule=None if id is None else self._find(id, deleted=True).definition.id,
            kind=kind,
            status=FAILED_OR_LOST if status == "failed" else status,
            due_from=self._time(since, "since", past=True),
            due_to=self._time(until, "until", last=True, past=True),
            limit=limit,
        )
        return self._runs(self._page(query).items)

    def run(self, run_id: int) -> RunDetails:
        """Return a run with its input, its earlier attempts, the traceback of an exception, and the messages about its
        end."""
        run = self._run(run_id)
        details = run_details(self.scheduler, self.caller, run, self.zone)
        return cast("RunDetails", details | {"deliveries": deliveries_of(self.scheduler, run)})

    def run_again(
        self,
        run_id: int,
        payload: Mapping[str, Any] | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        wait: float = 0,
    ) -> RunShape:
        """Start a new run of the same schedule with the input of this run, with another whole `payload`, or with some
        `fields` of it changed, such as `{"kwargs": {"account": "test"}}`. The schedule keeps its own input.

        With `wait`, wait up to so many seconds for the run to end.
        """
        return self._started(run_again(self._call, RunAgain(run=run_id, payload=payload, fields=fields)), wait)

    def retry(self, run_id: int) -> RunShape:
        """Retry a run that failed, was lost or was cancelled. It keeps its id."""
        return self._started(retry(self._call, Retry(run=run_id)))

    def cancel_run(self, run_id: int) -> RunShape:
        """Stop one run and leave its schedule alone. A run that has started is asked to stop."""
        return self._one(stop(self._call, Stop(run=run_id)).value.runs[0])

    def stop_runs(self, id: Id) -> Runs:
        """Stop the runs of a schedule that are in progress or wait, and return them; the schedule goes on."""
        return self._runs(stop(self._call, Stop(schedule=id)).value.runs)

    def dead_letters(
        self, *, kind: str | None = None, text: str = "", dismissed: bool = False, limit: int = 100
    ) -> Runs:
        """Return the runs that failed for good or were lost, and were neither retried nor dismissed; or those that were
        dismissed. `text` is part of the name or of the error."""
        asked = DeadLetterQuery(kind=kind, text=text, dismissed=dismissed)
        return self._runs(self._page(asked.runs(limit)).items)

    def dismiss(self, run_id: int) -> RunShape:
        """Take a run off the dead letters. It stays in the history."""
        return self._one(unwrap(self.scheduler.dismiss(self.caller, run_id)))

    def restore(self, run_id: int) -> RunShape:
        """Put a dead letter that was dismissed back on the list."""
        return self._one(unwrap(self.scheduler.dismiss(self.caller, run_id, undo=True)))

    def retry_dead_letters(self, *, kind: str | None = None, text: str = "", every_run: bool = False) -> Runs:
        """Retry all dead letters, or those of a kind or with this text in their name or error, and return them.

        Of a recurring schedule, only the newest one is retried, unless `every_run` is given. Those of a schedule run
        one after the other in the order in which they were due, whatever its overlap policy and its queue limit. Dead
        letters of deleted and cancelled schedules cannot be retried and stay.
        """
        return self._change_dead("retry", kind, text, every_run)

    def dismiss_dead_letters(self, *, kind: str | None = None, text: str = "") -> Runs:
        """Take all dead letters, or those that match, off the list and return them. They stay in the history."""
        return self._change_dead("dismiss", kind, text)

    def restore_dead_letters(self, *, kind: str | None = None, text: str = "") -> Runs:
        """Put all dead letters that were dismissed, or those that match, back on the list and return them."""
        return self._change_dead("restore", kind, text)

    def inbox(self, topic: str | None = None, *, show: Show = "kept", limit: int = 100) -> Messages:
        """Return the notifications that were delivered, through any channel; the latest first. `show` is kept (those
        that were not dismissed), unread or dismissed."""
        query = messages(self.app.services, self.caller, show, topic=topic)
        found = [] if query is None else self._page(replace(query, limit=limit)).items
        return cast("Messages", message_views(self.app.services, self.caller, found, self.zone))

    def mark_messages(self, run_ids: Sequence[int], mark: Mark = "read") -> int:
        """Mark messages of the inbox as read, dismiss them (they stay in the history), or restore dismissed ones.
        `mark` is read, dismiss or restore. Return how many were marked; those of others are not."""
        return mark_messages(self.app.services, self.caller, run_ids, mark)

    def mark_all_read(self) -> int:
        """Mark all unread messages of the inbox as read, and return how many they were."""
        return mark_all_read(self.app.services, self.caller)

    def _started(self, started: Answer[Run], wait: float = 0) -> RunShape:
        run = self.wait_for_run(started.value.id, wait) if wait > 0 else self._one(started.value)
        facts = {**warning_facts(started.warnings), "notes": list(started.notes)}
        return cast("RunShape", {**run, **facts})

    # -- helpers ------------------------------------------------------------------------------------------------

    def _change_dead(self, action: Action, kind: str | None, text: str, every_run: bool = False) -> Runs:
        asked = DeadLetterQuery(kind=kind, text=text, every_run=every_run)
        done = unwrap(change_dead(self.app.services, self.caller, asked, action)).done
        parts = (tuple(done[start : start + _PART]) for start in range(0, len(done), _PART))
        queries = (RunQuery(ids=ids, limit=_PART, count_to=0) for ids in parts)
        pages = (page for query in queries for page in pages_of(self.scheduler.runs, self.caller, query))
        return [run for page in pages for run in self._runs(page.items)]

    def _run(self, run_id: int) -> Run:
        run = self.scheduler.run(self.caller, run_id)
        if run is None:
            raise error_of(NO_RUN)
        return run

    def _one(self, run: Run) -> RunShape:
        return self._runs([run])[0]

    def _page(self, query: RunQuery) -> Page[Run]:
        return unwrap(self.scheduler.runs(self.caller, query))


def wait_for(read: Callable[[], T], is_over: Callable[[T], bool], seconds: float | None) -> T:
    """Read until `is_over` or until the time has passed, in real time, because a settable clock stands still
    meanwhile."""
    clock, pause = SystemClock(), threading.Event()
    deadline = None if seconds is None else clock.monotonic() + seconds
    while not is_over(found := read()):
        left = LOOK if deadline is None else deadline - clock.monotonic()
        if left <= 0:
            break
        pause.wait(min(LOOK, left))
    return found
