"""The Python API: `with Duetime("my.db") as duetime: duetime.schedule(...)`."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from duetime.app import App, build
from duetime.engine.clock import Clock, Instant, datetime_of, instant_of
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import Run, Schedule, status_of
from duetime.engine.result import Err, Result
from duetime.engine.store import ScheduleQuery
from duetime.engine.times import read_time
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.service.bulk_changes import BulkChange, Selection, change_schedules
from duetime.service.changes import ChangeRequest, change_schedule
from duetime.service.errors import Refused, unwrap
from duetime.service.history import HistoryQuery, history
from duetime.service.kind_spec import Window, known_specs
from duetime.service.lookup import find_schedule
from duetime.service.presenters import run_view, schedule_view
from duetime.service.run_now import MOST_SECONDS, run_now, wait_for_end
from duetime.service.services import NO_WORKER, OPERATOR, Call, Created, pages_of
from duetime.service.state_details import detail_of, details_of
from duetime.service.status import status as server_status
from duetime.service.upcoming import upcoming
from duetime.service.when import parse_when
from duetime.settings import Settings, load_settings

if TYPE_CHECKING:
    from duetime.engine.worker.threads import Engine

T = TypeVar("T")
_PAGE = 1000
View = dict[str, Any]
Views = list[View]  # the class below has a method named `list`
ScheduledTasks = list["ScheduledTask"]
Schedules = list[Schedule]


class NotStartedWarning(UserWarning):
    """Something was scheduled, but no worker is running."""


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A prompt and when it fires."""

    id: int
    prompt: str
    fire_at: datetime | None
    status: str
    owner: str


class Duetime:
    """A scheduler and, once started, a worker in this process. The default owner is `local`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        owner: str = OPERATOR.owner,
    ) -> None:
        chosen = load_settings() if settings is None else settings
        if settings is None and chosen.origin.ignored:
            logging.getLogger("duetime").warning("%s", chosen.origin.ignored)
        if url is not None:
            chosen = replace(chosen, db=url)
        self.app: App = build(chosen, clock=clock, registry=registry)
        self.scheduler = self.app.scheduler
        self.caller = replace_owner(owner)
        self._engine: Engine | None = None
        self._warned = False

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> Duetime:
        """Start the worker. From now on, due schedules fire."""
        if self._engine is None:
            self._engine = self.app.engine()
            self._engine.start()
        return self

    def stop(self) -> int:
        """Stop the worker. Return how many runs stayed unrecorded.

        Active runs have the time of the `drain` setting to end; after that they are told to stop.
        """
        engine, self._engine = self._engine, None
        return 0 if engine is None else engine.stop(self.app.settings.drain)

    def close(self) -> None:
        self.stop()
        self.app.close()

    def __enter__(self) -> Duetime:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def zone(self) -> str:
        return self.scheduler.zone

    # -- schedules of every kind --------------------------------------------------------------------------------

    def create(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        name: str | None = None,
        at: datetime | str | None = None,
        delay: timedelta | float | str | None = None,
        every: timedelta | float | str | None = None,
        cron: str | None = None,
        rrule: str | None = None,
        when: str | None = None,
        start: str | None = None,
        end: str | None = None,
        jitter: timedelta | float | str | None = None,
        timezone: str | None = None,
        key: str | None = None,
        **policy: Any,
    ) -> View:
        """Schedule work of any kind, by exactly one of `at`, `delay`, `every`, `cron`, `rrule` and `when`, which takes
        any of them in words, such as `every weekday at 8:30`.

        With a `key`, repeating the call returns the first schedule instead of creating another; `created` in the
        result tells which. `warnings` says why it might not fire as meant, or its result not arrive.
        """
        due = parse_when(
            at=at, delay=delay, every=every, cron=cron, rrule=rrule, when=when, start=start, end=end, jitter=jitter,
            timezone=timezone,
        )  # fmt: skip
        title = name or _title(kind, payload)
        return self._create(NewSchedule(kind, title, due.type, due.config, payload, policy, due.timezone, key))

    def _create(self, new: NewSchedule) -> View:
        made = self._created(new)
        limits = self.app.services.limits(made.schedule)
        return self._view(made.schedule) | {"created": made.fresh, **made.warning_facts, "limits": limits}

    def _created(self, new: NewSchedule) -> Created:
        """Create a schedule, and warn once if no worker would run it."""
        made = unwrap(self.app.services.create(self.caller, new))
        idle = any(each.code == NO_WORKER for each in made.warnings)
        if idle and self._engine is None and not self._warned:
            self._warned = True
            text = "nothing fires yet: call start(), or run `duetime worker` on the same database"
            warnings.warn(text, NotStartedWarning, stacklevel=4)
        return made

    # -- jobs ---------------------------------------------------------------------------------------------------

    def schedule(
        self,
        task: str | Callable[..., Any],
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        at: datetime | str | None = None,
        delay: timedelta | float | str | None = None,
        every: timedelta | float | str | None = None,
        cron: str | None = None,
        rrule: str | None = None,
        when: str | None = None,
        start: str | None = None,
        end: str | None = None,
        timezone: str | None = None,
        key: str | None = None,
        **policy: Any,
    ) -> View:
        """Schedule a registered task, given as its name or function, by exactly one of `at`, `delay`, `every`, `cron`,
        `rrule` and `when`, which takes any of them in words, such as `every weekday at 8:30`.

        `every` is a timedelta, seconds, or a text such as `2h30m`; days (`1d`) keep the wall-clock time. With a `key`,
        repeating the call, for example when a script is restarted, returns the first schedule instead of creating
        another.
        """
        task = self._name_of(task)
        due = parse_when(
            at=at, delay=delay, every=every, cron=cron, rrule=rrule, when=when, start=start, end=end, timezone=timezone
        )
        payload = {"task": task, "args": list(args), "kwargs": dict(kwargs or {})}
        return self._create(NewSchedule("job", name or task, due.type, due.config, payload, policy, timezone, key))

    def _name_of(self, task: str | Callable[..., Any]) -> str:
        if isinstance(task, str):
            return task
        for known in self.app.registry:
            if known.function is task:
                return known.name
        raise InvalidInput(f"{task!r} is not registered; decorate it with @task", field="task")

    def list(self, status: str | None = None, *, kind: str | None = "job") -> Views:
        found = self._search(ScheduleQuery(kind=kind, status=status))
        details = details_of(self.scheduler, found)
        return [schedule_view(each, self.zone, details.get(each.definition.id)) for each in found]

    def status(self, id: str | int) -> View:
        return self._view(self._find(id))

    def history(self, id: str, limit: int = 20) -> Views:
        page = unwrap(self.scheduler.history(self.caller, id, limit=limit))
        return [run_view(run, self.zone) for run in page.items]

    def edit(self, id: str | int, **changes: Any) -> View:
        """Change `name`, `payload`, `policy`, `next` (a time), or `trigger_type` with `trigger_config` and, if the old
        rule is to apply until a time, `starting`."""
        for time in {"next", "starting"} & changes.keys():
            changes[time] = self._instant(changes[time])
        edited = unwrap(self.app.services.edit(self.caller, self._find(id), Changes(**changes)))
        return self._view(edited) | {"limits": self.app.services.limits(edited)}

    def pause(self, id: str | int, *, until: datetime | str | None = None, note: str | None = None) -> None:
        """Pause a schedule until it is resumed, or `until` a time at which it resumes by itself."""
        self._change(id, ChangeRequest("pause", self._instant(until), note))

    def resume(self, id: str | int) -> None:
        self._change(id, ChangeRequest("resume"))

    def cancel(self, id: str | int) -> None:
        self._change(id, ChangeRequest("cancel"))

    def delete(self, id: str | int) -> None:
        self._change(id, ChangeRequest("delete"))

    def run_now(self, id: str | int, *, wait: float = 0) -> View:
        """Run a schedule now, besides its own times. `wait`: wait so many seconds, at most 60, for the run to end."""
        if not 0 <= wait <= MOST_SECONDS:
            raise InvalidInput(f"wait: must be from 0 to {MOST_SECONDS} seconds", field="wait")
        run: Run = unwrap(run_now(self.app.services, self.caller, id))
        return run_view(wait_for_end(self.scheduler, run, wait), self.zone)

    def upcoming(
        self,
        *,
        start: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        topic: str | None = None,
        include_paused: bool = False,
        count: int = 20,
    ) -> Views:
        """Return every occurrence in a range, in the order of their times, at most `count` of them."""
        now, from_, to = self.app.clock.now(), _instant(start), _instant(until)
        window = Window(now, count, from_, to, None if kind is None else (kind,), topic, include_paused)
        return upcoming(self.app.services, self.caller, window, self.zone).rows

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
    ) -> Views:
        """Return the latest runs of all schedules, deleted ones included, each with what came of it."""
        kinds = None if kind is None else (kind,)
        asked = HistoryQuery(None, kinds, status, _instant(since), _instant(until), limit=limit)
        return unwrap(history(self.scheduler, self.caller, asked, self.zone)).rows

    def server_status(self) -> View:
        """Return what is set up, whether it runs, what was used and what failed."""
        return server_status(Call(self.app.services, self.caller, self.zone))

    def _change(self, id: str | int, request: ChangeRequest) -> None:
        unwrap(change_schedule(self.app.services, self.caller, id, request))

    def change_many(
        self,
        action: str,
        ids: Sequence[str | int] = (),
        *,
        kind: str | None = None,
        topic: str | None = None,
        label: str | None = None,
        everything: bool = False,
        until: datetime | str | None = None,
        note: str | None = None,
        dry_run: bool = False,
        expected_count: int | None = None,
    ) -> BulkChange:
        """Pause, resume, cancel or delete many: those with these ids, those that match a filter, or every one."""
        selection = Selection(ids=ids, kind=kind, topic=topic, label=label, everything=everything)
        request = ChangeRequest(action, self._instant(until), note)
        changed = change_schedules(
            self.app.services, self.caller, selection, request, dry_run=dry_run, expected_count=expected_count
        )
        return unwrap(changed)

    def _instant(self, time: datetime | str | int | None) -> Instant | None:
        if isinstance(time, datetime):
            return instant_of(time)
        if not isinstance(time, str):
            return None if time is None else Instant(time)
        return read_time(time, zone=self.zone, now=self.app.clock.now()).instant

    # -- prompts ------------------------------------------------------------------------------------------------

    def create_scheduled_task(self, prompt: str, fire_at: datetime) -> ScheduledTask:
        new = NewSchedule(
            "prompt", prompt[:60] or "prompt", "once", {"run_at": fire_at.isoformat()}, {"prompt": prompt}
        )
        return _scheduled_task(self._created(new).schedule)

    def list_scheduled_tasks(
        self, status: str | None = None, from_: datetime | None = None, to: datetime | None = None
    ) -> ScheduledTasks:
        """Return prompts in the order in which they fire: pending ones, unless `status` names another or is `all`."""
        query = ScheduleQuery(
            kind="prompt",
            status=None if status == "all" else status or "pending",
            due_from=None if from_ is None else instant_of(from_),
            due_to=None if to is None else instant_of(to),
            by_time=True,
        )
        return [_scheduled_task(schedule) for schedule in self._search(query)]

    def update_scheduled_task(self, id: int, fire_at: datetime | None = None, prompt: str | None = None) -> int:
        """Return how many rows changed: 0 means not found or no longer pending."""
        if fire_at is None and prompt is None:
            raise InvalidInput("provide at least one of 'fire_at' or 'prompt'")
        next = None if fire_at is None else instant_of(fire_at)
        while (found := self.scheduler.find(self.caller, str(id), "prompt")) is not None:
            changes = Changes(next=next) if prompt is None else _reworded(found, prompt, next)
            changes = replace(changes, pending_only=True)
            result = self.scheduler.edit(self.caller, str(id), changes, "prompt")
            if not isinstance(result, Err) or result.code != "conflict":  # after a concurrent change, read it again
                return _rows(result)
        return 0

    def cancel_scheduled_task(self, id: int, *, stop_running: bool = False) -> int:
        """Return how many rows changed: 0 means not found or no longer pending. With `stop_running`, one that is
        running or taken is cancelled too, and asked to stop."""
        return _rows(self.scheduler.cancel_pending(self.caller, str(id), "prompt", stop_running=stop_running))

    # -- helpers ------------------------------------------------------------------------------------------------

    def _find(self, id: str | int) -> Schedule:
        return unwrap(find_schedule(self.scheduler, self.caller, id))

    def _search(self, query: ScheduleQuery) -> Schedules:
        pages = pages_of(self.scheduler.search, self.caller, replace(query, limit=_PAGE))
        return [schedule for page in pages for schedule in page.items]

    def _view(self, schedule: Schedule) -> View:
        return schedule_view(schedule, self.zone, detail_of(self.scheduler, schedule))


def _title(kind: str, payload: Mapping[str, Any]) -> str:
    """Return a name for lists: the first words of the payload field that people read."""
    spec = known_specs().get(kind)
    text = payload.get(spec.text) if spec is not None and spec.text else None
    return " ".join(text[:1000].split())[:60] if isinstance(text, str) and text.strip() else kind


def _instant(moment: datetime | None) -> Instant | None:
    return None if moment is None else instant_of(moment)


def replace_owner(owner: str) -> Caller:
    return OPERATOR._replace(owner=owner, operator=owner == OPERATOR.owner)


def _scheduled_task(schedule: Schedule) -> ScheduledTask:
    definition, progress = schedule
    fire_at: Instant | None = progress.next if progress.next is not None else progress.through
    return ScheduledTask(
        id=definition.id,
        prompt=(json.loads(definition.payload) or {}).get("prompt", ""),
        fire_at=None if fire_at is None else datetime_of(fire_at),
        status=status_of(progress),
        owner=definition.owner,
    )


def _reworded(found: Schedule, prompt: str, next: Instant | None) -> Changes:
    """Replace the prompt in the payload. The rest is written back as read, so the version must not have changed."""
    payload = {**json.loads(found.definition.payload), "prompt": prompt}
    return Changes(prompt[:60], payload=payload, next=next, version=found.definition.version)


def _rows(result: Result[Any]) -> int:
    """Return the number of changed rows, 0 if not found or not pending. Raise any other error."""
    if isinstance(result, Err):
        if result.code in ("not_found", "not_possible"):
            return 0
        raise Refused(result)
    return 1
