"""`Services`: the operations of all kinds for every interface. `Call` is the context of one request to them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from duetime.engine.actor import PERSON, Actor
from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL, Caller, Kind, gates_of
from duetime.engine.model import Definition, Run, Schedule, WorkerRow, kind_and_label, with_label
from duetime.engine.policy.follow_ups import END_FIELDS
from duetime.engine.policy.options import is_gated, policy_for_ending
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Page
from duetime.engine.triggers import OnceTrigger, known_zone, trigger_from_json, warnings_for
from duetime.engine.triggers.step_budget import LIST_STEPS, step_budget
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.kind_spec import KindHooks, KindSpec, Outside, known_specs
from duetime.service.presenters import instant_view, policy_shape
from duetime.service.warnings import DELIVERY_PREFIX, ScheduleWarning, declare, warning
from duetime.service.workers import labels_of, living, work_entry

K = TypeVar("K", bound=Kind)
Q = TypeVar("Q", bound=Any)
"""A query or a request, with a cursor."""
T = TypeVar("T")
_DEFAULT_HOOKS = KindHooks()
NO_WORKER, NO_WORKER_FOR_KIND, SESSIONS_ONLY = "no_worker", "no_worker_for_kind", "session_worker_only"
WORKER_WARNINGS = (NO_WORKER, NO_WORKER_FOR_KIND, SESSIONS_ONLY)
"""Codes of the warnings that a worker is missing. A session worker exists only while its agent client is open."""
_NEEDS = '"needs"'
_EVENT = '"type":"event"'
"""In every stored trigger that waits for an event, and in no other."""
_TEXT = "{text}"
"""Stands for the result of the run before, in texts of a schedule that follows another one."""
declare(
    event_unknown="No event {event} has arrived yet; it fires when one does.",
    no_event="No event starts it, so its text in braces stays as it is written.",
    unknown_path="The {source} has no {path}, so its place stays as it is written.",
    no_worker="No worker is running, so nothing fires until one does: run `duetime service install`.",
    no_worker_for_kind="No worker that is running takes a {kind}, so it does not fire until one does.",
    no_worker_for_label="No worker that is running has the label {label}; what needs it waits: use --label.",
    no_worker_for_task="No running worker knows {task}: run `duetime worker --tasks MODULE`, with its executor if any.",
    session_worker_only="It fires only while an agent client is open: run `duetime service install` to have it always.",
    host_not_allowed="Its condition may not call {host}: put the host into allowed_hosts of the settings.",
    all_paused="Everything scheduled earlier is paused{until}; this one is not, so it fires.",
    cancelled="What this idempotency key created was cancelled, so it does not fire: use another key for a new one.",
)
OPERATOR = Caller(LOCAL, operator=True, actor=Actor(PERSON, LOCAL, "cli"))
"""The caller of the command line: the local owner, who sees and changes everything."""


@dataclass(frozen=True, slots=True)
class Services:
    """The scheduler and the kinds of one process, with the operations that every interface offers."""

    scheduler: Scheduler
    kept_here: Collection[str] = ()
    """The kinds whose schedules no other service keeps."""

    @property
    def zone(self) -> str:
        return self.scheduler.zone

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.scheduler.kinds

    @property
    def specs(self) -> Mapping[str, KindSpec]:
        """The specs of the kinds that this process has."""
        return {name: spec for name, spec in known_specs().items() if name in self.kinds}

    def kind(self, type_: type[K]) -> K:
        """Return the kind of this class, for the parts of an interface that belong to the kind."""
        kind = self.kinds[type_.name]
        assert isinstance(kind, type_)
        return kind

    def hooks(self, kind: str) -> KindHooks:
        hooks: object = self.scheduler.kinds.get(kind)
        return hooks if isinstance(hooks, KindHooks) else _DEFAULT_HOOKS

    def outside(self, kind: str | None = None, kinds: Collection[str] | None = None) -> dict[str, Outside]:
        """Return the services that keep the schedules of one kind, or of any, outside of this store, by kind; only
        those of `kinds`, if given."""
        names = [each for each in self.kinds if each not in self.kept_here] if kind is None else [kind]
        return {each: self.hooks(each).outside() for each in names if kinds is None or each in kinds}

    # -- answers ------------------------------------------------------------------------------------------------------

    def limits(self, schedule: Schedule) -> dict[str, Any]:
        """Return the limits in force for a schedule, by the names under which they are set."""
        definition = schedule.definition
        return policy_limits(definition.policy) | self.hooks(definition.kind).limits(definition)

    # -- warnings -----------------------------------------------------------------------------------------------------

    def create_warnings(self, schedule: Schedule, payload: Mapping[str, Any]) -> list[ScheduleWarning]:
        """Return every reason why a new schedule might not fire as intended, or why its result might not arrive."""
        warnings = self._recent_worker_warnings(schedule.definition.kind)
        if self.scheduler.notices:
            warnings += self.process_warnings()
        return warnings + self.schedule_warnings(schedule, payload)

    def pause_warnings(self, definition: Definition) -> list[ScheduleWarning]:
        """Return a warning if all that the owner scheduled earlier is paused, and a new schedule is not."""
        pause = self.scheduler.store.pause_of_all(definition.owner)
        if pause is None:
            return []
        until = "" if pause.until is None else f" until {instant_view(pause.until, self.zone)}"
        return [warning("all_paused", until=until)]

    def process_warnings(self) -> list[ScheduleWarning]:
        """Return warnings about this process, such as settings that differ from the server's."""
        return [ScheduleWarning(*each) for each in self.scheduler.notices]

    def schedule_warnings(
        self, schedule: Schedule, requested: Mapping[str, Any] | None = None, *, delivery: bool = True
    ) -> list[ScheduleWarning]:
        """Return warnings about a schedule itself, whichever worker runs it, and about the delivery of its results."""
        definition = schedule.definition
        payload = json.loads(definition.payload) if requested is None else requested
        since = self.scheduler.clock.now() if requested is None else definition.created
        return [
            *self._work_warnings(definition),
            *(self.result_warnings(definition) if delivery else ()),
            *(self._gate_warnings(definition.policy) if is_gated(definition.policy) else ()),
            *(self._event_warnings(definition) if _EVENT in definition.trigger or _TEXT in definition.payload else ()),
            *_trigger_warnings(definition.trigger, since),
            *self.hooks(definition.kind).create_warnings(definition, payload if isinstance(payload, dict) else {}),
        ]

    def _gate_warnings(self, policy: str) -> list[ScheduleWarning]:
        gates, gate = gates_of(self.kinds), policy_for_ending(policy).only_if
        host = None if gates is None or gate is None else gates.closed_host(gate)
        return [] if host is None else [warning("host_not_allowed", host=host)]

    def _event_warnings(self, definition: Definition) -> list[ScheduleWarning]:
        trigger, payload = json_object(definition.trigger) or {}, json_object(definition.payload) or {}
        name, followed = trigger.get("event"), str(trigger.get("label") or "")
        texts = [payload[each] for each in self.hooks(definition.kind).templates if each in payload]
        if name is None:
            from duetime.engine.event_templates import unknown_paths  # few schedules need it

            return [warning("no_event")] if "text" in unknown_paths(texts, None) else []
        return self.event_warnings(definition.owner, str(name), texts, followed)

    def event_warnings(
        self, owner: str, name: str, texts: Sequence[object] = (), followed: str = ""
    ) -> list[ScheduleWarning]:
        """Return a warning if no event of the name has arrived, or if the latest one lacks what the texts name. The
        event may be the end of a run of the schedule that is `followed`, which always has the same fields."""
        from duetime.engine.event_templates import unknown_paths  # few schedules need it

        events = self.scheduler.store.latest_events(owner, name)
        if not events and not followed:
            return [] if name.startswith("~") else [warning("event_unknown", event=name)]
        paths = unknown_paths(texts, json.loads(events[0].data) if events else {})
        paths = paths if events else [path for path in paths if path.partition(".")[0] not in END_FIELDS]
        source = f"end of {followed}" if followed else f"latest event {name}"
        return [warning("unknown_path", path=path, source=source) for path in paths[:5]]

    def worker_warnings(self, kind: str | None = None) -> list[ScheduleWarning]:
        """Return the reasons why schedules of this kind, or of any kind, might not fire."""
        return self._warnings_about(self.scheduler.store.workers(), kind)

    def label_warnings(self, lanes: Sequence[str] | None = None) -> list[ScheduleWarning]:
        """Return a warning for each label that scheduled work, or that in these lanes, needs and no live worker has."""
        alive = living(self.scheduler.store.workers(), self.scheduler.clock.now())
        lanes = self.scheduler.store.lanes() if lanes is None else lanes
        labels = {kind_and_label(lane)[1] for lane in lanes if alive}
        lacking = labels - {"", *(label for worker in alive for label in labels_of(worker))}
        return [warning("no_worker_for_label", label=label) for label in sorted(lacking)]

    def _recent_worker_warnings(self, kind: str) -> list[ScheduleWarning]:
        """Do the same with a list of workers that may be a second old; read it again if it is not empty and leads to a
        warning."""
        workers = self.scheduler.store.recent_workers()
        warnings = self._warnings_about(workers, kind)
        return self.worker_warnings(kind) if warnings and workers else warnings

    def _warnings_about(self, workers: Sequence[WorkerRow], kind: str | None) -> list[ScheduleWarning]:
        if not workers:
            return [warning(NO_WORKER)]
        now = self.scheduler.clock.now()
        alive = living(workers, now, kind)
        if not living(workers, now):
            code = NO_WORKER
        elif not alive:
            code = NO_WORKER_FOR_KIND
        elif all(worker.session for worker in alive):
            code = SESSIONS_ONLY
        else:
            return []
        return [warning(code, kind=kind or "schedule")]

    def _work_warnings(self, definition: Definition) -> list[ScheduleWarning]:
        """Return a warning if every worker for this kind has published what it can run, and none can run this."""
        workers = self.scheduler.store.recent_workers()
        kind = name = definition.kind
        if _NEEDS in definition.policy:  # most need no label
            name = with_label(kind, policy_for_ending(definition.policy).needs)
            if warnings := self.label_warnings([name]):
                return warnings
        published = work_entry(kind, "")
        if not any(published in worker.lanes for worker in workers):
            return []
        entry = f",{work_entry(kind, definition.subject)},"
        alive = living(workers, self.scheduler.clock.now(), name)
        for worker in alive:
            if entry in f",{worker.lanes}," or published not in worker.lanes:
                return []
        if not alive or any(worker.name == process_name() for worker in alive):  # this process has the task
            return []
        return [warning("no_worker_for_task", task=definition.subject)]

    def result_warnings(self, definition: Definition) -> list[ScheduleWarning]:
        """Return warnings if results are delivered to a topic that reaches nobody, such as a mistyped channel."""
        topic = policy_for_ending(definition.policy).deliver_to
        if topic is None:
            return []
        warnings = (each for kind in self.kinds for each in self.hooks(kind).delivery_warnings(topic, definition.owner))
        return [each._replace(text=f"{DELIVERY_PREFIX}{each.text}") for each in warnings]

    def topic_of(self, definition: Definition) -> str | None:
        """Return the topic to which a schedule sends, or which receives its results."""
        return self.hooks(definition.kind).topic(definition) or policy_for_ending(definition.policy).deliver_to

    def delivery_topics(self, owner: str) -> list[str]:
        return [topic for kind in self.kinds for topic in self.hooks(kind).delivery_topics(owner)]

    def optional_arguments(self) -> set[str]:
        """Return the required arguments of tools that may be left out, because the settings have a default."""
        return {name for kind in self.kinds for name in self.hooks(kind).optional_arguments()}

    # -- reading ------------------------------------------------------------------------------------------------------

    def list_notes(self, kind: str | None) -> list[str]:
        """Return notes about schedules, of one kind or of all, that a list does not show."""
        return [note for each in self.outside(kind).values() for note in each.list_notes]

    def failure_notes(self, kind: str | None) -> list[str]:
        """Return notes about failures that are not recorded in this store, of one kind or of all."""
        return [note for each in self.outside(kind).values() for note in each.failure_notes]


def process_name() -> str:
    """Return the name of the workers of this process."""
    import platform  # rarely needed

    return f"{platform.node()}:{os.getpid()}"


@lru_cache(maxsize=1024)
def policy_limits(stored: str) -> dict[str, Any]:
    """Return the limits that a stored policy sets, by their names."""
    shape = policy_shape(stored) or {}
    names = ("max_attempts", "timeout_seconds", "max_runs")
    return {name: shape[name] for name in names if shape.get(name) is not None}


def _trigger_warnings(trigger: str, created: Instant) -> list[ScheduleWarning]:
    """Return warnings about the times, such as a day that most months do not have."""
    try:
        read = trigger_from_json(trigger)
        if isinstance(read, OnceTrigger) and read.next_after(Instant(created - 1)) is not None:
            return []  # a single instant that is still to come
        with step_budget(LIST_STEPS):
            return [ScheduleWarning("trigger", text) for text in warnings_for(read, created)]
    except DuetimeError:
        return []


def pages_of(ask: Callable[[Caller, Q], Page[T]], caller: Caller, query: Q) -> Iterator[Page[T]]:
    """Yield the pages of a list, each of which is read when it is needed. Only the first one has the total."""
    while True:
        page = ask(caller, query)
        yield page
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor, count_to=0)


class Call(NamedTuple):
    """The context of one request: the services, the caller, and the time zone in which times are read and shown."""

    services: Services
    caller: Caller
    zone: str
    kinds: Collection[str] | None = None
    """The kinds whose schedules may be read and changed; None for all."""

    @property
    def scheduler(self) -> Scheduler:
        return self.services.scheduler

    @property
    def now(self) -> Instant:
        """The present instant of the scheduler's clock."""
        return self.scheduler.clock.now()

    def serves(self, kind: str) -> bool:
        """Return whether schedules of this kind may be read and changed."""
        return self.kinds is None or kind in self.kinds

    def sees(self, row: Definition | Run) -> bool:
        """Return whether the caller may read a schedule or run."""
        return self.serves(row.kind) and self.caller.sees(row.owner, row.kind)

    def in_zone(self, timezone: str | None) -> Call:
        """Return the call with the time zone that its request names. Raises UnknownZone."""
        return self if timezone is None else self._replace(zone=known_zone(timezone).key)


def operator_call(services: Services) -> Call:
    """Return a call of the command line."""
    return Call(services, OPERATOR, services.zone)


def local_call(services: Services, interface: str) -> Call:
    """Return a call by the local owner, where there is no authentication (stdio, HTTP without tokens).

    It is not an operator: an agent sees only what belongs to its user.
    """
    return Call(services, Caller(LOCAL, actor=OPERATOR.actor._replace(interface=interface)), services.zone)
