"""Edits a schedule of any kind: its times, its payload, its policy and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from duetime.engine.clock import SECOND, Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import Conflict, DuetimeError, InvalidInput, Refused, UnreadableTime
from duetime.engine.model import RunStatus, Schedule, is_busy
from duetime.engine.scheduler import REPEATED_EDITS
from duetime.engine.store import RunQuery
from duetime.engine.times import ReadTime, iso_local
from duetime.engine.times import read_time as read_words
from duetime.engine.times.zones import known_zone, past_problem
from duetime.engine.triggers import build_trigger
from duetime.engine.triggers.base import instant_text
from duetime.engine.triggers.build import counts_from_start, readable, time_of
from duetime.engine.validation import Changes
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.errors import refuse, reword
from duetime.service.lookup import find
from duetime.service.masking import masked_payload, refuse_other_places, unmasked_payload
from duetime.service.operations.declaration import Answer, OperationRequest, ScheduleReference, Time, read_time_of
from duetime.service.options import TIME_LIMITS
from duetime.service.presenters import source_warnings, trigger_shape
from duetime.service.services import Call, Services
from duetime.service.warnings import ScheduleWarning, declare, time_warnings, warning
from duetime.service.when import (
    LIMITS,
    NONE,
    WAYS,
    TriggerParts,
    When,
    about_option,
    limits_of,
    read_policy,
    read_times,
    ways_in,
    when_of,
    with_limits,
)

MAX_COUNTED: Final = 1000
"""Number of occurrences up to which a warning says how many are left out."""
declare(moved="Moving the next time leaves out {runs} of its rule, which applies again after it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSchedule(OperationRequest):
    """Changes of a schedule of any kind; what is not given stays, and so do its id and its history."""

    schedule: ScheduleReference
    name: str | None = None
    keep_name: bool = False
    """Whether the name stays even if it was made from the payload, which changes."""
    times: Mapping[str, Any] = field(default_factory=dict)
    """Options of times. A rule replaces the old one, whose limits stay. A time moves only the next occurrence; beside a
    rule, it is the first one. The limits and the time zone are those of the new rule, or of the current one; None or
    `none` removes a limit."""
    trigger: TriggerParts | None = None
    """The new rule as a trigger, instead of one of the options."""
    next: Time | None = None
    """Moves only the next occurrence, whatever the rule."""
    starting: Time | None = None
    """When the new rule replaces the old one; at once if absent."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Payload fields that are replaced."""
    payload: Mapping[str, Any] | None = None
    """The whole payload, in place of `fields`. Values in the form in which they are shown, masked, stay as they are."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Options of the policy; None restores a default."""
    version: int | None = None
    """The version that the caller has seen; any version if absent."""
    guarded: bool = True
    """Whether a different recipient is refused the hidden values of the stored payload."""
    pending_only: bool = False
    """Whether the edit is refused while a run is active, even for a recurring schedule."""


class NothingToChange(InvalidInput):
    """The edit names nothing to change."""


class EditedSchedule(NamedTuple):
    schedule: Schedule
    limits: dict[str, Any]
    """The limits in force."""
    running: bool
    """Whether a run was in progress. It keeps its values; the edit applies from the next occurrence."""
    applies: str | None
    """What becomes of the runs that have not ended; None if there are none."""


class _NewTimes(NamedTuple):
    """The times that an edit requests."""

    rule: When | None
    """The new rule, or the current one with other limits."""
    next: ReadTime | None
    """The time to which the next occurrence is moved."""
    rule_option: str | None
    """The option that contained the rule, for errors."""
    next_option: str
    notes: list[str]
    """How ambiguous times were understood."""


def edit(call: Call, request: EditSchedule, attempts: int = REPEATED_EDITS) -> Answer[EditedSchedule]:
    """Edit a schedule. A run in progress keeps its values. Without a version, an edit that depends on what it has read
    is repeated if somebody else has changed that meanwhile."""
    services, schedule = call.services, find(call, request.schedule)
    times = _read_times(call, schedule, request)
    changes = _changes(call, schedule, request, times)
    changes = services.hooks(schedule.definition.kind).adapt_edit(call.caller, schedule, changes)
    if request.pending_only and is_busy(schedule.progress) and not changes.amid_runs:
        raise refuse("not_possible", "a run of it is due or in progress; edit it when that has ended")
    try:
        edited = call.scheduler.edit(call.caller, schedule.definition.public_id, changes)
    except Refused as error:
        if error.code == Conflict.code and changes.version != request.version and attempts:
            return edit(call, replace(request, schedule=find(call, schedule.definition.public_id)), attempts - 1)
        raise _about_argument(error, times) from None
    warnings = [*time_warnings(times.notes), *_left_out(services, schedule, edited)]
    warnings += source_warnings(edited.definition)
    if changes.payload is not None or changes.policy or times.rule is not None:
        delivery = "deliver_to" in (changes.policy or ())  # otherwise, this was reported when the topic was set
        warnings += services.schedule_warnings(edited, delivery=delivery)
    running, applies = _live_runs(services, schedule, edited)
    notes = [] if applies is None else [f"The change applies {applies}."]
    return Answer(EditedSchedule(edited, services.limits(edited), running, applies), warnings, notes)


def _read_times(call: Call, schedule: Schedule, request: EditSchedule) -> _NewTimes:
    """Read the new rule and the next time, each of which may be given in several ways."""
    times, now = request.times, call.scheduler.clock.now()
    zone, named_zone = call.in_zone(times.get("timezone")).zone, times.get("timezone")
    whens = {way: when_of(way, times[way]) for way in ways_in(times)}
    rules = {way: when for way, when in whens.items() if when.type != "once"}
    instants = {way: when for way, when in whens.items() if when.type == "once"}
    if request.next is not None:
        instants["next"] = when_of("at", request.next)
    if len(instants) > 1:
        first, second = [*instants][:2]
        raise InvalidInput(f"{first} and {second} are both a time; give one of them.", field=second)
    if request.trigger is not None:
        rules["trigger"] = read_times({way: times[way] for way in rules}, request.trigger)
    if len(rules) > 1:
        raise InvalidInput(f"give exactly one of {', '.join(WAYS)}, not {', '.join(rules)}", field="when")
    limits = _new_limits(times)
    option, rule = next(iter(rules.items()), (None, None))
    next_option, moved = "next", None
    for next_option, when in instants.items():
        moved = _read_next(when.config["run_at"], next_option, zone, now)
    notes = [] if moved is None or moved.doubt is None else [moved.doubt]
    if rule is not None and moved is not None and request.trigger is None:
        if limits.get("start") is not None:
            both = f"{next_option} and start are both the first time of the new rule"
            raise InvalidInput(f"{both}; give one of them.", field="start")
        limits["start"], moved = iso_local(moved.instant, zone), None
    if rule is not None:
        stored = readable(schedule.definition.trigger)
        rule = When(rule.type, with_limits(rule.config, limits), named_zone or (zone if stored is None else None))
        notes += rule.notes(zone if stored is None else stored.timezone, now)
    elif limits or (named_zone is not None and moved is None):
        limits |= {} if named_zone is None or moved is not None else {"timezone": zone}
        rule = _with_limits(schedule.definition.trigger, limits, zone, now)
    return _NewTimes(rule, moved, None if option == "trigger" else option, next_option, notes)


def _new_limits(times: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new limits of a rule; None removes one."""
    removed = {name: None for name in TIME_LIMITS if name in times and str(times[name]).lower() == NONE}
    return {**limits_of({name: value for name, value in times.items() if name not in removed}), **removed}


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


def _read_next(text: object, option: str, zone: str, now: Instant) -> ReadTime:
    """Read the next time. `now` becomes a second from now, because the engine accepts only future times."""
    if not isinstance(text, str):
        raise InvalidInput(
            field=option, problem=f"must be a datetime, or a text such as tomorrow 9am, not {text!r:.80}"
        )
    try:
        read = read_words(text, zone=zone, now=now)
    except UnreadableTime as error:
        problem = f"{error.message} Try 2026-02-10T18:00:00, or words such as tomorrow 18:00."
        raise UnreadableTime(field=option, problem=problem) from None
    if read.instant < now:
        raise InvalidInput(field=option, problem=f"{past_problem(read.instant, zone, now)}.")
    return read._replace(instant=Instant(now + SECOND)) if read.instant == now else read


def _about_argument(error: Refused, times: _NewTimes) -> DuetimeError:
    """Return an error with the name of the option that contained what is wrong."""
    if error.field != "next":
        return about_option(error, times.rule_option)
    return reword(error, f"{times.next_option}: {error.problem}", field=times.next_option)


def _left_out(services: Services, before: Schedule, after: Schedule) -> list[ScheduleWarning]:
    """Return a warning if the next time was moved past occurrences of its rule, which then do not run."""
    trigger, moved = readable(after.definition.trigger), after.progress.next
    if trigger is None or moved is None or after.definition.trigger != before.definition.trigger:
        return []
    first = max(before.progress.next or moved, services.scheduler.clock.now())
    count = trigger.count(first, Instant(moved - 1), MAX_COUNTED) if first < moved else 0
    if count == 0:
        return []
    number = f"more than {MAX_COUNTED}" if count > MAX_COUNTED else str(count)
    return [warning("moved", runs=f"{number} further {'run' if count == 1 else 'runs'}")]


def _changes(call: Call, schedule: Schedule, request: EditSchedule, times: _NewTimes) -> Changes:
    name, version, payload = request.name, request.version, _payload(call, schedule, request)
    if payload is not None and name is None and not request.keep_name:
        name = _following_name(call.services, schedule, payload)
    rule, zone = times.rule, request.times.get("timezone")
    has_new_limits = rule is not None and times.rule_option is None and request.trigger is None
    if version is None and (has_new_limits or (payload, name) != (request.payload, request.name)):
        # What follows from stored values is written as they were read, so nobody may have changed them meanwhile.
        version = schedule.definition.version
    changes = Changes(
        name=name,
        trigger_type=None if rule is None else rule.type,
        trigger_config=None if rule is None else rule.config,
        payload=payload,
        policy=read_policy(request.policy) or None,
        timezone=None if rule is None else rule.timezone,
        next=None if times.next is None else times.next.instant,
        starting=read_time_of(call.in_zone(zone), None if zone else schedule, request.starting, "starting"),
        version=version,
        pending_only=request.pending_only,
    )
    if changes == Changes(version=version, pending_only=request.pending_only):
        raise NothingToChange("nothing to change: give at least one field, such as a name or a time")
    return changes


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


def _payload(call: Call, schedule: Schedule, request: EditSchedule) -> Mapping[str, Any] | None:
    """Return the new payload. Values that are hidden from readers are not passed to a different recipient."""
    kind, stored = schedule.definition.kind, json_object(schedule.definition.payload) or {}
    if request.payload is not None:
        restored: Mapping[str, Any] = unmasked_payload(kind, dict(request.payload), stored, call.caller.depth)
        return restored
    if not request.fields:
        return None
    payload, visible = {**stored, **request.fields}, masked_payload(kind, stored)
    unchanged = stored.keys() - request.fields.keys()
    if request.guarded and any(visible.get(name) != stored[name] for name in unchanged):
        refuse_other_places(kind, payload, stored, call.caller.depth)
    return payload


def _following_name(services: Services, schedule: Schedule, payload: Mapping[str, Any]) -> str | None:
    """Return the new name of a schedule that is named after its payload; None for one with a name of its own."""
    hooks, stored = services.hooks(schedule.definition.kind), json_object(schedule.definition.payload) or {}
    return hooks.name_of(payload) if hooks.name_of(stored) == schedule.definition.name else None
