"""Editing a schedule from Python: the options of an edit as the request that every interface makes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.api.types import EditOptions
from duetime.engine.clock import Instant, datetime_of
from duetime.engine.errors import InvalidInput
from duetime.service import edits
from duetime.service.edits import Edited, EditRequest, NextTime, time_or_rule
from duetime.service.errors import unwrap
from duetime.service.operations.declaration import read_time
from duetime.service.options import TIME_LIMITS, PolicyOptions
from duetime.service.presenters import trigger_shape
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule
from duetime.service.when import WAYS, When, asked_when, parse_when, read_policy, read_seconds, when_of

_POLICY = frozenset(PolicyOptions.__annotations__)


def edit_schedule(call: Call, schedule: Schedule, options: EditOptions) -> Edited:
    """Change the times, policy, name or payload of a schedule. Anything not given stays as it is."""
    if unknown := options.keys() - EditOptions.__annotations__.keys():
        known = ", ".join(sorted(EditOptions.__annotations__))
        raise InvalidInput(f"there is no {', '.join(sorted(unknown))}; choose from {known}")
    if not options.keys() - {"version"}:
        raise InvalidInput("nothing to change; give at least one option, such as name= or at=")
    if "payload" in options and "fields" in options:
        raise InvalidInput(field="fields", problem="cannot be combined with payload; give one of the two")
    changes: dict[str, Any] = {**options}
    if changes.get("timezone") is None:
        changes = {name: _with_zone(call, schedule, value, name) for name, value in changes.items()}
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
        starting=read_time_of(call, schedule, changes.get("starting"), "starting"),
        fields=changes.get("fields", {}),
        payload=changes.get("payload"),
        policy=read_policy({**changes.get("policy", {}), **policy}),
        version=changes.get("version"),
        guarded=False,
    )
    return unwrap(edits.edit_schedule(call.services, call.caller, schedule, request))


def _with_zone(call: Call, schedule: Schedule, value: Any, field: str) -> Any:
    """Return a naive `datetime` as the time that it is in the zone of the schedule, and any other value as it is."""
    instant = read_time_of(call, schedule, value, field) if is_naive(value) else None
    return value if instant is None else datetime_of(instant)


def read_time_of(
    call: Call, schedule: Schedule | None, time: object, field: str, *, last: bool = False, past: bool = False
) -> Instant | None:
    """Read a time as `read_time` does, but a naive `datetime` in the zone of the schedule."""
    if not isinstance(time, str | datetime | None):
        problem = f"must be a datetime, or a text such as 'tomorrow 9am', not {time!r:.80}"
        raise InvalidInput(field=field, problem=problem)
    rule = {} if schedule is None or not is_naive(time) else trigger_shape(schedule.definition.trigger)
    return read_time(call.in_zone(rule.get("timezone")), time, field, last=last, past=past)


def is_naive(time: object) -> bool:
    return isinstance(time, datetime) and time.tzinfo is None


def _new_times(changes: Mapping[str, Any]) -> tuple[When | None, NextTime | None]:
    """Return the rule that an edit requests, without its limits, or the next time that it moves."""
    ways, zone = [name for name in WAYS if name in changes], changes.get("timezone")
    if "trigger_type" in changes and not ways:
        rule = {"trigger_type": changes["trigger_type"], "trigger_config": dict(changes.get("trigger_config", {}))}
        return asked_when(rule)._replace(timezone=zone), None
    if zone is not None and not ways:
        raise InvalidInput(field="timezone", problem="requires new times; give them, too")
    when, moved = time_or_rule(parse_when(**{way: changes[way] for way in ways}, timezone=zone) if ways else None)
    return when, moved if moved is None else moved._replace(field=ways[0])


def limits_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a rule in the form that the engine uses; None removes a limit."""
    limits: dict[str, Any] = {name: options[name] for name in TIME_LIMITS if name in options}
    if limits.get("jitter") is not None:
        limits["jitter"] = read_seconds(limits["jitter"], "jitter")
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in limits.items()}
