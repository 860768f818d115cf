"""Finding, listing and changing schedules of every kind from Python, and the state of the installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack, cast

from duetime.api.base import Base, missing
from duetime.api.create import limits_of
from duetime.api.types import (
    Changed,
    Edited,
    EditOptions,
    Id,
    Schedules,
    ServerStatus,
    Upcoming,
    Workers,
)
from duetime.engine.errors import InvalidInput, NotFound
from duetime.engine.model import Schedule
from duetime.engine.result import Err
from duetime.engine.store import ScheduleQuery
from duetime.service.edits import EditRequest, NextTime, edit_schedule, time_or_rule
from duetime.service.errors import refuse, unwrap
from duetime.service.kind_spec import Window, check_kind
from duetime.service.lookup import find_schedule
from duetime.service.operations.change import (
    BulkChange,
    Cancel,
    ChangeMany,
    ChangeRequest,
    Delete,
    Pause,
    Resume,
    change,
    change_many,
)
from duetime.service.options import PolicyOptions, Time
from duetime.service.presenters import worker_shape
from duetime.service.services import Call, pages_of
from duetime.service.shapes import ScheduleShape
from duetime.service.status import status
from duetime.service.upcoming import upcoming
from duetime.service.warnings import warning_facts
from duetime.service.when import WAYS, When, asked_when, parse_when, read_policy, when_of

PAGE = 1000
_POLICY = frozenset(PolicyOptions.__annotations__)
_STATUSES = ("pending", "running", "paused", "completed", "failed", "cancelled", "broken", "living")
_Found = list[Schedule]


class Managing(Base):
    def get(self, id: Id) -> ScheduleShape:
        """Return a schedule: what it does, when it fires next and how its last run ended."""
        return self._view(self._find(id))

    def find(self, id: Id) -> ScheduleShape | None:
        """Return a schedule, or None if there is none. An ambiguous name raises an error that lists the ids."""
        found = find_schedule(self.scheduler, self.caller, id)
        return None if isinstance(found, Err) and found.code == "not_found" else self._view(unwrap(found))

    def status(self, id: Id) -> ScheduleShape:
        """Return a schedule, as `get` does."""
        return self.get(id)

    def list(
        self,
        status: str | None = None,
        *,
        kind: str | None = None,
        text: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Schedules:
        """Return schedules of one kind, or of all kinds.

        `status` is pending, running, paused, completed, failed, cancelled or broken. `text` is part of the name.
        `subject` is the task, agent, topic or host.
        """
        check_kind(kind)
        if status is not None and status not in _STATUSES:
            raise InvalidInput(field="status", problem=f"there is no {status!r}; choose from {', '.join(_STATUSES)}")
        query = ScheduleQuery(kind=kind, status=status, text=text, subject=subject)
        return self._views(self._search(query, limit))

    def edit(self, id: Id, **changes: Unpack[EditOptions]) -> Edited:
        """Change the times, policy, name or payload of a schedule. Anything not given stays as it is.

        If a recurring schedule is running, the change applies from its next run on; a one-off that is running cannot be
        edited.
        """
        if unknown := changes.keys() - EditOptions.__annotations__.keys():
            known = ", ".join(sorted(EditOptions.__annotations__))
            raise InvalidInput(f"there is no {', '.join(sorted(unknown))}; choose from {known}")
        if not changes.keys() - {"version"}:
            raise InvalidInput("nothing to change; give at least one option, such as name= or at=")
        if "payload" in changes and "fields" in changes:
            raise InvalidInput(field="fields", problem="cannot be combined with payload; give one of the two")
        policy = {name: value for name, value in changes.items() if name in _POLICY}
        when, moved = _new_times(changes)
        if changes.get("next") is not None:
            if moved is not None:
                raise InvalidInput(field="next", problem="cannot be combined with at; give one of the two")
            moved = NextTime(when_of("at", changes["next"]).config["run_at"])
        request = EditRequest(
            name=changes.get("name"),
            when=when,
            limits=limits_of(changes),
            next=moved,
            starting=self._time(changes.get("starting"), "starting"),
            fields=changes.get("fields", {}),
            payload=changes.get("payload"),
            policy=read_policy({**changes.get("policy", {}), **policy}),
            version=changes.get("version"),
            guarded=False,
        )
        done = unwrap(edit_schedule(self.app.services, self.caller, self._find(id), request))
        limits = self.app.services.limits(done.schedule)
        told = {**warning_facts(done.warnings), "running": done.running, "limits": limits}
        return cast("Edited", {**self._view(done.schedule), **told})

    def pause(self, id: Id, *, until: Time | None = None, note: str | None = None) -> Changed:
        """Pause a schedule until it is resumed, or until a time at which it resumes automatically. `note` says why."""
        return self._change(Pause(schedule=id, until=until, note=note))

    def resume(self, id: Id) -> Changed:
        """Resume a paused schedule, starting now."""
        return self._change(Resume(schedule=id))

    def cancel(self, id: Id) -> Changed:
        """End a schedule and ask a run in progress to stop. Cancelling twice is not an error."""
        return self._change(Cancel(schedule=id))

    def delete(self, id: Id) -> Changed:
        """Delete a schedule and return it as it was. Its history remains readable."""
        return self._change(Delete(schedule=id))

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

    def _change(self, request: ChangeRequest) -> Changed:
        try:
            changed = change(self._call, request).value
        except NotFound:
            raise refuse("not_found", missing(request.schedule)) from None
        view = self._view(changed.schedule)
        known = {name: view.get(name) for name in Changed.__annotations__}
        known |= {"id": changed.id, "falls_into_pause": changed.falls_into_pause}
        return cast("Changed", known)

    def _search(self, query: ScheduleQuery, limit: int | None = None) -> _Found:
        size = PAGE if limit is None else max(1, min(limit, PAGE))
        found: _Found = []
        for page in pages_of(self.scheduler.search, self.caller, replace(query, limit=size)):
            found += page.items
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]


def _new_times(changes: EditOptions) -> tuple[When | None, NextTime | None]:
    """Return the rule that an edit requests, without its limits, or the next time that it moves."""
    ways = [name for name in WAYS if name in changes]
    given, zone = cast("Mapping[str, Any]", changes), changes.get("timezone")
    if "trigger_type" in changes and not ways:
        asked = {"trigger_type": changes["trigger_type"], "trigger_config": dict(changes.get("trigger_config", {}))}
        return asked_when(asked)._replace(timezone=zone), None
    if zone is not None and not ways:
        raise InvalidInput(field="timezone", problem="requires new times; give them, too")
    when, moved = time_or_rule(parse_when(**{way: given[way] for way in ways}, timezone=zone) if ways else None)
    return when, moved if moved is None else moved._replace(field=ways[0])


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
        span = self._time(start, "start"), self._time(until, "until", last=True)
        kinds, now = None if kind is None else (kind,), self.scheduler.clock.now()
        window = Window(now, count, *span, kinds, topic, include_paused)
        rows, more, later, warnings = upcoming(self.app.services, self.caller, window, self.zone)
        return cast("Upcoming", {"upcoming": rows, "more": more, "later": later, "warnings": warnings})

    def workers(self) -> Workers:
        """Return the workers of this store and whether each is alive."""
        now = self.scheduler.clock.now()
        return cast("Workers", [worker_shape(each, now, self.zone) for each in self.scheduler.workers()])

    def server_status(self) -> ServerStatus:
        """Return what is set up, whether it works, usage and failures, with an explanation of each warning."""
        return cast("ServerStatus", status(Call(self.app.services, self.caller, self.zone)))
