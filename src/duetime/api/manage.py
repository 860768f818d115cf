"""Finding, listing and changing schedules of every kind from Python, and the state of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, Literal

from duetime.api.edit import check_time
from duetime.api.methods import Opened, Steps, method, waits
from duetime.api.types import Id
from duetime.api.values import Schedule, find, runs_of, schedule_method, schedule_of, schedules_method, schedules_of
from duetime.api.values import wait_for as wait_until
from duetime.engine import model
from duetime.engine.errors import Conflict, NotFound
from duetime.service.answers import EmittedEvent, ServerStatus, Upcoming, WorkerState
from duetime.service.kind_spec import KEPT_ELSEWHERE
from duetime.service.operations import upcoming
from duetime.service.operations.change_many import BulkChange, ChangeMany, change_many, kept_outside
from duetime.service.operations.declaration import MAX_LIMIT, check_type, read_range
from duetime.service.operations.emit import EmitEvent, emit, is_over, look_at_runs
from duetime.service.operations.schedules import ListSchedules, pages_of_schedules
from duetime.service.operations.status import status, workers
from duetime.service.options import Time
from duetime.service.warnings import warning_facts


class Managing:
    @schedule_method
    def get(self: Opened, id: Id) -> Schedule:
        """Return a schedule: what it does, when it fires next and how its last run ended."""
        return schedule_of(self._call, find(self._call, id))

    @schedules_method
    def find(self: Opened, id: Id) -> Schedule | None:
        """Return a schedule, or None if there is none. An ambiguous name raises an error that lists the ids."""
        try:
            return schedule_of(self._call, find(self._call, id))
        except NotFound:
            return None
        except Conflict as error:
            if error.code != KEPT_ELSEWHERE:
                raise
        schedules = (each for each in kept_outside(self._call) if each.definition.public_id == id)
        return next((schedule_of(self._call, each) for each in schedules), None)

    @schedules_method
    def schedules(
        self: Opened,
        status: str | None = None,
        *,
        kind: str | None = None,
        text: str | None = None,
        subject: str | None = None,
        tagged: str | None = None,
        limit: int | None = None,
    ) -> list[Schedule]:
        """Return schedules of one kind, or of all kinds.

        `status` is pending, running, paused, completed, failed, cancelled or broken. `text` is part of the name.
        `subject` is the task, agent, topic or host. `tagged` is a tag.
        """
        check_type("limit", limit, int, NoneType)
        size = MAX_LIMIT if limit is None else max(1, min(limit, MAX_LIMIT))
        request = ListSchedules(
            kind=kind, status=status, text=text, subject=subject, tagged=tagged, order="oldest", limit=size, count_to=0
        )
        schedules: list[model.Schedule] = []
        for page in pages_of_schedules(self._call, request):
            schedules += page.items
            if limit is not None and len(schedules) >= limit:
                break
        return schedules_of(self._call, schedules[:limit])

    @method
    def change_many(
        self: Opened,
        action: Literal["pause", "resume", "cancel", "delete", "restore", "shift"],
        ids: Sequence[Id] = (),
        *,
        kind: str | None = None,
        topic: str | None = None,
        label: str | None = None,
        tagged: str | None = None,
        status: str | None = None,
        older_than: str | None = None,
        everything: bool = False,
        until: Time | None = None,
        note: str | None = None,
        shift: str | None = None,
        dry_run: bool = False,
        expected_count: int | None = None,
    ) -> BulkChange:
        """Pause, resume, cancel, delete, restore or shift many schedules: by id, by filter, or `everything`.

        `topic` is the task, agent, topic or host; `label` is the name; `tagged` is a tag; `status` may be `finished`;
        `older_than` is a duration without a run or a change. `shift` is how much later they fire, such as `30m`. With
        `dry_run`, nothing is changed. To cancel or delete requires `expected_count`, the number that must match.
        """
        request = ChangeMany(
            action=action, ids=ids, kind=kind, topic=topic, label=label, tagged=tagged, status=status,
            older_than=older_than, shift=shift, everything=everything, until=check_time(until, "until"), note=note,
            dry_run=dry_run, expected_count=expected_count,
        )  # fmt: skip
        return change_many(self._call, request).value


class Overview:
    @method
    @waits
    def emit(
        self: Opened, event: str, data: Any = None, *, key: str | None = None, wait: float = 0
    ) -> Steps[EmittedEvent]:
        """Send an event: every schedule that waits for its name runs, and gets `data`, which is any JSON value.

        It is stored when this returns. An event of the same name with the same `key` is sent once. `wait` is how many
        seconds to wait for the runs that it starts to end; they are in `runs` of the result.
        """
        call = self._call
        sent = emit(call, EmitEvent(event=event, data=data, idempotency_key=key, wait_seconds=wait))
        if wait and not is_over(sent):
            sent = yield from wait_until(lambda: look_at_runs(call, sent), is_over, wait)
        runs = [each.as_dict() for each in runs_of(call, sent.value.runs)]
        facts = {**sent.value._asdict(), "runs": runs, "notes": list(sent.notes), **warning_facts(sent.warnings)}
        return EmittedEvent(facts.copy, call.zone)

    @method
    def upcoming(
        self: Opened,
        *,
        start: Time | None = None,
        until: Time | None = None,
        kind: str | None = None,
        topic: str | None = None,
        tagged: str | None = None,
        include_paused: bool = False,
        count: int = 20,
    ) -> Upcoming:
        """Return the next `count` occurrences in a range, of one kind or of all kinds.

        `topic` selects schedules that send or report to it, `tagged` those with a tag.
        """
        times = check_time(start, "start"), check_time(until, "until")
        first, last = read_range(self._call, *times, ("start", "until"))
        request = upcoming.ListUpcoming(
            start=first, until=last, kind=kind, topic=topic, tagged=tagged, include_paused=include_paused, count=count
        )
        occurrences, warnings, _ = upcoming.upcoming(self._call, request)
        return Upcoming(occurrences.facts(self._call.zone, warnings).copy, self._call.zone)

    @method
    def workers(self: Opened) -> list[WorkerState]:
        """Return the workers of this store and whether each is alive."""
        return [WorkerState(each.copy, self._call.zone) for each in workers(self._call).value]

    @method
    def server_status(self: Opened) -> ServerStatus:
        """Return what is set up, whether it works, usage and failures, with an explanation of each warning."""
        return ServerStatus(status(self._call).value.copy, self._call.zone)
