"""Creates a schedule, or changes the one that has its key to what the request says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

from duetime.engine.clock import Instant
from duetime.engine.encoding import json_object
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.model import Definition, ScheduleState
from duetime.engine.policy.options import Policy
from duetime.engine.result import Err, Ok, Result
from duetime.engine.rule_edits import WHOLE_RULE
from duetime.engine.scheduler import KEY_REUSED
from duetime.engine.times.zones import known_zone
from duetime.engine.triggers import build_trigger, trigger_to_json
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.services import CreatedSchedule, Services
from duetime.service.warnings import warning

_ATTEMPTS: Final = 10
"""How often an update is repeated because somebody else changed the schedule meanwhile."""
_DEFAULT_POLICY: Final = dict.fromkeys(each.name for each in fields(Policy))
"""Resets every option, because the request is the whole truth about the schedule."""

_COUNTED_FROM: Final = ("anchor", "dtstart")
"""The fields of a stored rule that say from when it counts."""


def create_or_update(services: Services, caller: Caller, new: NewSchedule) -> Result[CreatedSchedule]:
    """Create a schedule, or change the one that has its key, which keeps its id and its history.

    The request that was made last changes nothing, whatever people have changed since. What was cancelled stays
    cancelled until it is deleted, and what has ended is replaced. If several processes do this at once, none of them
    fails, and the schedule is as one of them said.
    """
    result = services.create(caller, new)
    for _ in range(_ATTEMPTS):
        if not isinstance(result, Err) or result.code != KEY_REUSED.code:
            break
        result = _update(services, caller, new) or services.create(caller, new)
    return result


def _update(services: Services, caller: Caller, new: NewSchedule) -> Result[CreatedSchedule] | None:
    """Change the schedule that has the key; None if somebody else changed it meanwhile."""
    scheduler = services.scheduler
    schedule = scheduler.find_by_key(caller, new.idempotency_key or "", new.kind)
    if schedule is None:
        return None
    if schedule.progress.state == ScheduleState.CANCELLED:
        return Ok(CreatedSchedule(schedule, False, [warning("cancelled")]))
    drafts = scheduler.drafts(caller, [new])
    if isinstance(drafts, Err):
        return drafts
    if schedule.progress.state == ScheduleState.ENDED:
        scheduler.delete(caller, schedule, new.kind)  # frees the key; its history stays
        return None
    edited = services.edit(caller, schedule, _changes(services, schedule.definition, drafts.value[0].definition, new))
    if isinstance(edited, Err):
        return None if edited.code in ("conflict", "not_found") else edited
    return Ok(CreatedSchedule(edited.value, False, services.create_warnings(edited.value, new.payload)))


def _changes(services: Services, stored: Definition, wanted: Definition, new: NewSchedule) -> Changes:
    """Return the parts that differ. An equal rule is left alone, so that an interval keeps its times."""
    has_new_rule = not _is_same_rule(stored, wanted, new, services.zone)
    return Changes(
        name=None if wanted.name == stored.name else wanted.name,
        trigger_type=new.trigger_type if has_new_rule else None,
        trigger_config={**WHOLE_RULE, **new.trigger_config} if has_new_rule else None,
        payload=None if wanted.payload == stored.payload else new.payload,
        policy=None if wanted.policy == stored.policy else {**_DEFAULT_POLICY, **new.policy},
        timezone=(new.timezone or services.zone) if has_new_rule else None,
        version=stored.version,
        fingerprint=wanted.fingerprint,
    )


def _is_same_rule(stored: Definition, wanted: Definition, new: NewSchedule, zone: str) -> bool:
    """Return whether the stored rule is what this request says now, or would have said when the schedule was created or
    edited. From when an interval counts does not matter, if it only follows from the time of the request."""
    rules = [json_object(wanted.trigger) or {}]
    for instant in (stored.created, stored.updated):
        with suppress(InvalidInput):  # "today at 9" had passed then, so that the stored rule is another one
            rules.append(_rule_as_of(new, known_zone(new.timezone or zone).key, instant))
    counted = {name for name in _COUNTED_FROM if len({rule.get(name) for rule in rules}) > 1}

    def fixed(rule: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in rule.items() if name not in counted}

    return fixed(json_object(stored.trigger) or {}) in [fixed(rule) for rule in rules]


def _rule_as_of(new: NewSchedule, zone: str, instant: Instant) -> dict[str, Any]:
    trigger = build_trigger(new.trigger_type, new.trigger_config, zone=zone, now=instant, must_fire=False)
    return json_object(trigger_to_json(trigger)) or {}
