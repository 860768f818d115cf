"""Creates a schedule of any kind, or changes the one that has its key to what the request says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, Literal

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import Conflict, DuetimeError, InvalidInput, KeyReused, NotFound, Refused
from duetime.engine.model import FOLLOWED, Definition, Schedule, ScheduleState
from duetime.engine.policy.options import Policy
from duetime.engine.policy.rows import first_progress
from duetime.engine.rule_edits import WHOLE_RULE
from duetime.engine.scheduler import REPEATED_EDITS
from duetime.engine.scopes import DELETE
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import build_trigger, trigger_from_json, trigger_to_json
from duetime.engine.validation import Changes, NewSchedule
from duetime.engine.value_class import NamedTuple
from duetime.service.kind_spec import KindHooks, known_specs
from duetime.service.operations.declaration import Answer, with_offsets
from duetime.service.services import Call, Services, policy_limits
from duetime.service.warnings import time_warnings, warning
from duetime.service.when import TriggerParts, about_option, read_policy, read_times, time_notes, ways_in

OnChange = Literal["refuse", "update"]
"""What happens if a key was used with other arguments."""
NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_TITLE_LENGTH: Final = 60


class CreateSchedule(NamedTuple):
    """A new schedule. It is a tuple, because every create makes one."""

    kind: str
    payload: Mapping[str, Any]
    times: Mapping[str, Any] = NO_OPTIONS
    """Options of times: exactly one way to say when, and limits."""
    trigger: TriggerParts | None = None
    """The trigger as such, instead of one of the options."""
    policy: Mapping[str, Any] = NO_OPTIONS
    """Options of the policy."""
    name: str | None = None
    """By default, the beginning of the text that people read."""
    key: str | None = None
    """Repeating a request with the same key creates nothing."""
    on_change: OnChange = "refuse"
    """With `update`, the key identifies the schedule, which then becomes what the request says."""


class CreatedSchedule(NamedTuple):
    schedule: Schedule
    fresh: bool
    """False if its key was used before."""
    limits: dict[str, Any]
    """The limits in force."""

    @property
    def first_result(self) -> Schedule:
        """The schedule as it was created, because a repeated key returns the first result, whatever has happened
        since."""
        definition = self.schedule.definition
        if self.fresh or definition.version > 1:
            return self.schedule
        return Schedule(definition, first_progress(definition, first_instant(definition)))


def create(call: Call, request: CreateSchedule) -> Answer[CreatedSchedule]:
    """Create a schedule, or return the one that was created earlier with its key."""
    try:
        return create_new(call, new_schedule(call, request), request.on_change)
    except Refused as error:
        raise about_option(error, next(iter(ways_in(request.times)), None)) from None


def was_created(call: Call, request: CreateSchedule) -> bool:
    """Return whether the same request was made before, under its key."""
    if request.key is None:
        return False
    new = new_schedule(call, request)
    try:
        return call.scheduler.find_created(call.caller, new) is not None
    except DuetimeError:  # which the create raises, too
        return True


def new_schedule(call: Call, request: CreateSchedule) -> NewSchedule:
    """Return a request in the form that the engine uses. With a key, the default zone is not named in it, so that
    a repeated request is the same after the default has changed."""
    kind, payload, times, trigger, options, name, key, _ = request
    times = with_offsets(call, times)
    when = read_times(times) if trigger is None else read_times(times, trigger, call.zone, call.now)
    zone: str | None = when.timezone or call.zone
    if key is not None and when.timezone is None and zone == call.services.zone:
        zone = None
    named = name or call.services.hooks(kind).name_of(payload) or title_of(kind, payload)
    policy = read_policy(options) if options else options
    return NewSchedule(kind, named, when.type, when.config, payload, policy, zone, key)


def title_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return a name for lists: the first words of the payload field that people read."""
    spec = known_specs().get(kind)
    text = payload.get(spec.text) if spec is not None and spec.text else None
    words = " ".join(text[:1000].split()) if isinstance(text, str) else ""
    return (words if len(words) <= MAX_TITLE_LENGTH else f"{words[: MAX_TITLE_LENGTH - 1].rstrip()}…") or kind


def create_new(call: Call, new: NewSchedule, on_change: OnChange = "refuse") -> Answer[CreatedSchedule]:
    """Create a schedule from a request that was read already.

    With `update`, the schedule that has its key is changed and keeps its id and its history. The request that was made
    last changes nothing, whatever people have changed since. What was cancelled stays cancelled until it is deleted,
    and what has ended is replaced. If several processes do this at once, none of them fails, and the schedule is as one
    of them said.
    """
    try:
        return _create(call, new)
    except KeyReused:
        if on_change == "refuse":
            raise
    for _ in range(REPEATED_EDITS):
        answer = _update(call, new)
        with suppress(Conflict):  # somebody else used the key meanwhile
            return answer or _create(call, new)
    return _create(call, new)


def _create(call: Call, new: NewSchedule) -> Answer[CreatedSchedule]:
    services, caller = call.services, call.caller
    hooks = services.hooks(new.kind)
    refusal = hooks.outside().refusal()
    if refusal is not None:
        before = None if new.idempotency_key is None else services.scheduler.find_created(caller, new)
        if before is None:
            raise refusal
        return _answer(services, hooks, before, False, new)
    [(schedule, fresh)] = services.scheduler.create_all(caller, [new])
    return _answer(services, hooks, schedule, fresh, new)


def _answer(
    services: Services, hooks: KindHooks, schedule: Schedule, fresh: bool, new: NewSchedule
) -> Answer[CreatedSchedule]:
    definition = schedule.definition
    created = CreatedSchedule(schedule, fresh, policy_limits(definition.policy) | hooks.limits(definition))
    if not fresh and schedule.progress.state == ScheduleState.CANCELLED:
        return Answer(created, [warning("cancelled")])
    warnings = services.create_warnings(schedule, new.payload)
    if fresh:
        warnings += services.pause_warnings(definition)
    if new.trigger_type == "once" and definition.version == 1:  # after an edit, its time may be different
        notes = time_notes(new.trigger_config, new.timezone or services.zone, definition.created)
        warnings = [*time_warnings(notes), *warnings] if notes else warnings
    return Answer(created, warnings)


def first_instant(definition: Definition) -> Instant | None:
    """Return when a schedule first fires, as of its creation."""
    try:
        trigger = trigger_from_json(definition.trigger)
        return trigger.next_after(Instant(definition.created - 1) if trigger.type == "once" else definition.created)
    except DuetimeError:
        return None


# Updates of the schedule that has the key.

_DEFAULT_POLICY: Final = dict.fromkeys(each.name for each in fields(Policy))
"""Resets every option, because the request is the whole truth about the schedule."""

_COUNTED_FROM: Final = ("anchor", "dtstart")
"""The fields of a stored rule that say from when it counts."""


def _update(call: Call, new: NewSchedule) -> Answer[CreatedSchedule] | None:
    """Change the schedule that has the key; None if somebody else changed it meanwhile."""
    scheduler, services, caller, hooks = call.scheduler, call.services, call.caller, call.services.hooks(new.kind)
    schedule = scheduler.find_by_key(caller, new.idempotency_key or "", new.kind)
    if schedule is None:
        return None
    if schedule.progress.state == ScheduleState.CANCELLED:
        return _answer(services, hooks, schedule, False, new)
    stored, changes = schedule.definition, None
    new = new._replace(trigger_config=scheduler.with_followed(caller, new.trigger_type, new.trigger_config, stored))
    [draft] = scheduler.drafts(caller, [new])
    if schedule.progress.state == ScheduleState.ENDED:
        if new.trigger_config.get(FOLLOWED, ())[:1] == (stored.id,):
            problem = "it would follow the ended schedule that it replaces; give the id or the name of another one"
            raise InvalidInput(field="schedule", problem=problem)
        scheduler.check_scopes(caller, DELETE, stored)
        if (refusal := hooks.outside().refusal()) is not None:
            raise refusal
    else:
        changes = hooks.adapt_edit(caller, schedule, changes_to(services, stored, draft.definition, new))
    try:
        if changes is None:  # replaced in one transaction, so that a refusal deletes nothing; its history stays
            [replacement] = scheduler.carry_out(caller, [draft], {}, [stored])
            return _answer(services, hooks, replacement, True, new)
        edited = scheduler.edit(caller, stored.public_id, changes)
    except NotFound:
        return None
    except Conflict as error:
        if error.code != Conflict.code:
            text = f"{stored.public_id} has this key and stays as it is: {error.message}"
            raise Conflict(text, code=error.code, details=error.details) from None
        return None
    created = CreatedSchedule(edited, False, services.limits(edited))
    return Answer(created, services.create_warnings(edited, new.payload))


def changes_to(
    services: Services, stored: Definition, target: Definition, new: NewSchedule, *, is_same: bool = False
) -> Changes:
    """Return the parts that differ. An equal rule is left alone, so that an interval keeps its times; and so is the
    time of the same request, if it is one from now on, such as tomorrow."""
    has_new_rule = not _is_same_rule(stored, target, new, services.zone, is_same=is_same)
    return Changes(
        name=None if target.name == stored.name else target.name,
        trigger_type=new.trigger_type if has_new_rule else None,
        trigger_config={**WHOLE_RULE, **new.trigger_config} if has_new_rule else None,
        payload=None if is_same_json(target.payload, stored.payload) else new.payload,
        policy=None
        if target.policy == stored.policy and not has_new_rule  # which has a usual overlap of its own
        else {**_DEFAULT_POLICY, **json.loads(target.policy), **new.policy},
        timezone=(new.timezone or services.zone) if has_new_rule else None,
        version=stored.version,
        fingerprint=target.fingerprint,
    )


def is_same_json(text: str, other: str) -> bool:
    """Return whether two texts have the same value, whatever the order of names; 1 and true differ."""
    return text == other or len({json.dumps(json_object(each), sort_keys=True) for each in (text, other)}) == 1


def _is_same_rule(stored: Definition, target: Definition, new: NewSchedule, zone: str, *, is_same: bool) -> bool:
    """Return whether the stored rule is what this request says now, or would have said when the schedule was created or
    edited. From when an interval counts does not matter, if it only follows from the time of the request."""
    rules = [json_object(target.trigger) or {}]
    for instant in (stored.created, stored.updated):
        with suppress(InvalidInput):  # "today at 9" had passed then, so that the stored rule is another one
            rules.append(rule_as_of(new, known_zone(new.timezone or zone).key, instant))
    if is_same and new.trigger_type == "once" and rules[0] != rules[-1]:
        return True
    counted = {name for name in _COUNTED_FROM if len({rule.get(name) for rule in rules}) > 1}

    def fixed(rule: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in rule.items() if name not in counted}

    return fixed(json_object(stored.trigger) or {}) in [fixed(rule) for rule in rules]


def rule_as_of(new: NewSchedule, zone: str, instant: Instant) -> dict[str, Any]:
    """Return the rule that a request would have had at an instant, as it is stored."""
    trigger = build_trigger(new.trigger_type, new.trigger_config, zone=zone, now=instant, must_fire=False)
    return json_object(trigger_to_json(trigger)) or {}
