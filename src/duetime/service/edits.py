"""Edits a schedule of any kind, for every interface: its time, its payload, its policy and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from duetime.engine.clock import SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import DuetimeError, InvalidInput, UnreadableTime
from duetime.engine.kind import Caller
from duetime.engine.model import RunStatus, Schedule
from duetime.engine.result import Err, Ok, Result, err_of
from duetime.engine.store import RunQuery
from duetime.engine.times import ReadTime, read_time
from duetime.engine.times.zones import known_zone, past_problem
from duetime.engine.triggers import build_trigger
from duetime.engine.triggers.base import instant_text
from duetime.engine.triggers.build import counts_from_start, readable, time_of
from duetime.engine.validation import Changes
from duetime.service.masking import masked_payload, refuse_other_places
from duetime.service.presenters import trigger_shape
from duetime.service.services import Services
from duetime.service.warnings import ScheduleWarning, declare, time_warnings, warning
from duetime.service.when import LIMITS, When, with_limits

MOST_COUNTED: Final = 1000
declare(moved="Moving the next time leaves out {runs} of its rule, which applies again after it.")


class NextTime(NamedTuple):
    """The time to which the next occurrence is moved, as the caller wrote it."""

    text: str
    zone: str | None = None
    """The zone in which the time is read; by default, that of the settings."""
    field: str = "next"
    """The name of the argument, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """The changes that an edit requests; what is not given stays."""

    name: str | None = None
    when: When | None = None
    """The new rule; the limits of the old one stay."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The start, end, jitter and timezone of the new rule, or of the current one; None removes a limit."""
    zone: str | None = None
    """The zone in which the start and end of the current rule are read; by default, as for `next`."""
    next: NextTime | None = None
    """Moves only the next occurrence."""
    starting: Instant | None = None
    """When the new rule replaces the old one; at once if absent."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Payload fields that are replaced."""
    payload: Mapping[str, Any] | None = None
    """The whole payload, in place of `fields`."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    """The version that the caller has seen; any version if absent."""
    guarded: bool = True
    """Whether a different recipient is refused the hidden values of the stored payload."""


class Edited(NamedTuple):
    schedule: Schedule
    warnings: list[ScheduleWarning]
    running: bool
    """Whether a run was in progress. It keeps its values; the edit applies from the next occurrence."""
    applies: str | None
    """What becomes of the runs that have not ended; None if there are none."""


def edit_schedule(services: Services, caller: Caller, found: Schedule, request: EditRequest) -> Result[Edited]:
    """Edit a schedule that was found. It keeps its id and its history."""
    try:
        moved = None if request.next is None else read_next(services, request.next)
        changes = _changes(services, caller, found, request, None if moved is None else moved.instant)
    except DuetimeError as error:
        return err_of(error)
    result = services.edit(caller, found, changes)
    if isinstance(result, Err):
        return result if request.next is None else _naming(result, request.next.field)
    told = bool(request.fields or request.payload or request.policy or request.when or request.limits)
    delivery = "deliver_to" in request.policy  # otherwise, this was reported when the topic was set
    warnings = services.schedule_warnings(result.value, delivery=delivery) if told else []
    notes = [moved.note] if moved is not None and moved.note is not None else []
    if request.when is not None:
        notes += request.when.notes(_zone_of(found, services.zone), services.scheduler.clock.now())
    warnings = [*time_warnings(notes), *left_out(services, found, result.value), *warnings]
    return Ok(Edited(result.value, warnings, *_live_runs(services, found, result.value)))


def _live_runs(services: Services, before: Schedule, after: Schedule) -> tuple[bool, str | None]:
    """Return whether a run is in progress, and what becomes of it and of a run that waits."""
    if not after.progress.active:
        return False, None
    query = RunQuery(schedule=after.definition.id, status="live", oldest_first=True, count_to=0)
    live = services.scheduler.store.runs(query).items
    is_running = any(run.status == RunStatus.RUNNING or run.holder for run in live)
    waiting = next((run for run in live if run.status != RunStatus.RUNNING and not run.holder), None)
    parts = ["from the next run; the one that runs now keeps its values"] if is_running else []
    if waiting is not None and services.scheduler.own_input(waiting).payload is None:
        whom = after.definition.subject
        handed = f" and now goes to {whom}" if whom != before.definition.subject else ""
        parts.append(f"at once to run {waiting.id}, which is waiting{handed}; do not start another one")
    return is_running, "; ".join(parts) or None


def time_or_rule(when: When | None, field: str = "at") -> tuple[When | None, NextTime | None]:
    """Return the changes for a time or a rule: a time moves only the next occurrence, even of a recurring schedule."""
    if when is None or when.type != "once":
        return when, None
    return None, NextTime(when.config["run_at"], when.timezone, field)


def read_next(services: Services, given: NextTime) -> ReadTime:
    """Parse the next time. `now` becomes a second from now, because the engine accepts only future times."""
    zone, now = given.zone or services.zone, services.scheduler.clock.now()
    try:
        read = read_time(given.text, zone=zone, now=now)
    except UnreadableTime as error:
        problem = f"{error.message} Try 2026-02-10T18:00:00, or words such as tomorrow 18:00."
        raise UnreadableTime(field=given.field, problem=problem) from None
    if read.instant < now:
        raise InvalidInput(field=given.field, problem=f"{past_problem(read.instant, zone, now)}.")
    return read._replace(instant=Instant(now + SECOND)) if read.instant == now else read


def _naming(err: Err, field: str) -> Err:
    """Return an error about the next time with the name of the argument that contained it."""
    if err.field != "next":
        return err
    return replace(err, message=f"{field}: {err.problem}", details={**err.details, "field": field})


def _zone_of(found: Schedule, default: str) -> str:
    stored = readable(found.definition.trigger)
    return default if stored is None else stored.timezone


def left_out(services: Services, before: Schedule, after: Schedule) -> list[ScheduleWarning]:
    """Return a warning if the next time was moved past occurrences of its rule, which then do not run."""
    trigger, moved = readable(after.definition.trigger), after.progress.next
    if trigger is None or moved is None or after.definition.trigger != before.definition.trigger:
        return []
    first = max(before.progress.next or moved, services.scheduler.clock.now())
    count = trigger.count(first, Instant(moved - 1), MOST_COUNTED) if first < moved else 0
    if count == 0:
        return []
    number = f"more than {MOST_COUNTED}" if count > MOST_COUNTED else str(count)
    return [warning("moved", runs=f"{number} further {'run' if count == 1 else 'runs'}")]


def _changes(
    services: Services, caller: Caller, found: Schedule, request: EditRequest, next: Instant | None
) -> Changes:
    name, version = request.name, request.version
    when = request.when
    if when is not None:
        when = when._replace(config=with_limits(when.config, request.limits))
    elif request.limits:
        zone = request.zone or (request.next and request.next.zone) or services.zone
        when = _with_limits(found.definition.trigger, request.limits, zone, services.scheduler.clock.now())
    payload = _merged(found, request, caller.depth) if request.fields else request.payload
    if payload is not None:
        name = name or _following_name(services, found, payload)
    if request.fields:
        # The rest of the payload is written back as it was read, so nobody may have changed it meanwhile.
        version = found.definition.version if version is None else version
    return Changes(
        name=name,
        trigger_type=None if when is None else when.type,
        trigger_config=None if when is None else when.config,
        payload=payload,
        policy=request.policy or None,
        timezone=None if when is None else when.timezone,
        next=next,
        starting=request.starting,
        version=version,
    )


def _with_limits(trigger: str, limits: Mapping[str, Any], zone: str, now: Instant) -> When:
    """Return the current rule with other limits, whose times are read in a zone unless the rule gets a new one."""
    rule = trigger_shape(trigger)
    name = next(iter(limits))
    if rule["type"] == "changing":
        raise InvalidInput(field=name, problem="its rule changes at a set time; give the new rule as well")
    if "timezone" not in rule:
        raise InvalidInput(field=name, problem="its rule cannot be read; give a new one with its zone")
    type_: str = rule.pop("type")
    if limits.get("start") is not None and counts_from_start(rule):
        del rule["dtstart"]
    elif "start" in limits:
        rule = _free_of_start(trigger, type_, rule, now)
    zone = known_zone(limits.get("timezone") or zone).key
    times = {name: time_of(limits, name, zone, now) for name in LIMITS}
    rule |= {**limits, **{name: instant_text(time) for name, time in times.items() if time is not None}}
    return When(type_, rule, rule.pop("timezone"))


def _free_of_start(trigger: str, type_: str, rule: dict[str, Any], now: Instant) -> dict[str, Any]:
    """Return a rule without the instant from which it counts, if that is a future start, because another start replaces
    it. A rule that has begun keeps its times."""
    stored = readable(trigger)
    if stored is None or stored.start is None or stored.start <= now:
        return rule
    free = {name: value for name, value in rule.items() if name not in ("anchor", "dtstart")}
    return free if build_trigger(type_, free, zone=stored.timezone, now=now, must_fire=False) == stored else rule


def _merged(found: Schedule, request: EditRequest, depth: int) -> dict[str, Any]:
    """Return the stored payload with the new fields. Values that are hidden from readers are not passed to a different
    recipient."""
    definition, stored = found.definition, json_object(found.definition.payload) or {}
    whole = {**stored, **request.fields}
    shown = masked_payload(definition.kind, stored)
    kept = stored.keys() - request.fields.keys()
    if request.guarded and any(shown.get(name) != stored[name] for name in kept):
        refuse_other_places(definition.kind, whole, stored, depth)
    return whole


def _following_name(services: Services, found: Schedule, payload: Mapping[str, Any]) -> str | None:
    """Return the new name of a schedule that is named after its payload; None for one with a name of its own."""
    hooks, stored = services.hooks(found.definition.kind), json_object(found.definition.payload) or {}
    return hooks.name_of(payload) if hooks.name_of(stored) == found.definition.name else None
