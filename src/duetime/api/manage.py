"""Finding, listing and changing schedules of every kind from Python, and the state of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Unpack

from duetime.api.base import Base
from duetime.api.edit import read_time_of
from duetime.api.types import EditOptions, Id, ServerStatus, Upcoming
from duetime.api.values import Schedule, changed, edit, find, pause, schedule_of, schedules_of
from duetime.engine import model
from duetime.engine.errors import InvalidInput, NotFound
from duetime.engine.store import ScheduleQuery
from duetime.service.answers import WorkerState
from duetime.service.kind_spec import Window, check_kind
from duetime.service.operations.change import BulkChange, Cancel, ChangeMany, Delete, Resume, change_many
from duetime.service.options import Time
from duetime.service.presenters import worker_shape
from duetime.service.services import pages_of
from duetime.service.status import status
from duetime.service.upcoming import upcoming

PAGE = 1000
_STATUSES = ("pending", "running", "paused", "completed", "failed", "cancelled", "broken", "living")


class Managing(Base):
    def get(self, id: Id) -> Schedule:
        """Return a schedule: what it does, when it fires next and how its last run ended."""
        return schedule_of(self._call, find(self._call, id))

    def find(self, id: Id) -> Schedule | None:
        """Return a schedule, or None if there is none. An ambiguous name raises an error that lists the ids."""
        try:
            return self.get(id)
        except NotFound:
            return None

    def schedules(
        self,
        status: str | None = None,
        *,
        kind: str | None = None,
        text: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> list[Schedule]:
        """Return schedules of one kind, or of all kinds.

        `status` is pending, running, paused, completed, failed, cancelled or broken. `text` is part of the name.
        `subject` is the task, agent, topic or host.
        """
        check_kind(kind)
        if status is not None and status not in _STATUSES:
            raise InvalidInput(field="status", problem=f"there is no {status!r}; choose from {', '.join(_STATUSES)}")
        query = ScheduleQuery(kind=kind, status=status, text=text, subject=subject)
        return schedules_of(self._call, self._search(query, limit))

    def edit(self, id: Id, **changes: Unpack[EditOptions]) -> Schedule:
        """Change the times, policy, name or payload of a schedule. Anything not given stays as it is.

        If a recurring schedule is running, the change applies from its next run on; a one-off that is running cannot be
        edited.
        """
        return edit(self._call, id, changes)

    def pause(self, id: Id, *, until: Time | None = None, note: str | None = None) -> Schedule:
        """Pause a schedule until it is resumed, or until a time at which it resumes automatically. `note` says why."""
        return pause(self._call, id, until, note)

    def resume(self, id: Id) -> Schedule:
        """Resume a paused schedule, starting now."""
        return changed(self._call, Resume(schedule=id))

    def cancel(self, id: Id) -> Schedule:
        """End a schedule and ask a run in progress to stop. Cancelling twice is not an error."""
        return changed(self._call, Cancel(schedule=id))

    def delete(self, id: Id) -> Schedule:
        """Delete a schedule and return it as it was. Its history remains readable."""
        return changed(self._call, Delete(schedule=id))

    def change_many(
        self,
        action: Literal["pause", "resume", "cancel", "delete"],
        ids: Sequence[Id] = (),
        *,
        kind: str | None = None,
        topic: str | None = None,
        label: str | None = None,
        everything: bool = False,
        until: Time | None = None,
        note: str | None = None,
        dry_run: bool = False,
        expected_count: int | None = None,
    ) -> BulkChange:
        """Pause, resume, cancel or delete many schedules: by id, by filter, or `everything`.

        `topic` is the task, agent, topic or host; `label` is the name. With `dry_run`, nothing is changed. To cancel or
        delete requires `expected_count`, the number of schedules that must match.
        """
        request = ChangeMany(
            action=action, ids=ids, kind=kind, topic=topic, label=label, everything=everything, until=until, note=note,
            dry_run=dry_run, expected_count=expected_count,
        )  # fmt: skip
        return change_many(self._call, request).value

    def _search(self, query: ScheduleQuery, limit: int | None = None) -> list[model.Schedule]:
        size = PAGE if limit is None else max(1, min(limit, PAGE))
        found: list[model.Schedule] = []
        for page in pages_of(self.scheduler.search, self.caller, replace(query, limit=size)):
            found += page.items
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]


class Overview(Base):
    def upcoming(
        self,
        *,
        start: Time | None = None,
        until: Time | None = None,
        kind: str | None = None,
        topic: str | None = None,
        include_paused: bool = False,
        count: int = 20,
    ) -> Upcoming:
        """Return the next `count` occurrences in a range, of one kind or of all kinds.

        `topic` selects schedules that send or report to it.
        """
        span = read_time_of(self._call, None, start, "start"), read_time_of(self._call, None, until, "until", last=True)
        kinds, now = None if kind is None else (kind,), self.scheduler.clock.now()
        window = Window(now, count, *span, kinds, topic, include_paused)
        rows, more, later, warnings = upcoming(self.app.services, self.caller, window, self.zone)
        return Upcoming({"upcoming": rows, "more": more, "later": later, "warnings": warnings}.copy, self.zone)

    def workers(self) -> list[WorkerState]:
        """Return the workers of this store and whether each is alive."""
        now = self.scheduler.clock.now()
        return [WorkerState(worker_shape(each, now, self.zone).copy, self.zone) for each in self.scheduler.workers()]

    def server_status(self) -> ServerStatus:
        """Return what is set up, whether it works, usage and failures, with an explanation of each warning."""
        return ServerStatus(status(self._call).copy, self.zone)
