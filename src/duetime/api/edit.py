"""Editing a schedule from Python: the options of an edit as the request that every interface makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.api.types import EditOptions
from duetime.engine.clock import Instant, datetime_of
from duetime.engine.errors import InvalidInput
from duetime.service.operations import declaration
from duetime.service.operations.declaration import Answer, check_type, is_naive, with_offsets
from duetime.service.operations.edit import EditedSchedule, EditSchedule, edit
from duetime.service.options import PolicyOptions, Time, time_options
from duetime.service.presenters import trigger_shape
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule
from duetime.service.warnings import time_warnings
from duetime.service.when import time_notes, ways_in

_OTHERS = ("name", "next", "fields", "payload", "version")
_POLICY = frozenset(PolicyOptions.__annotations__)


def edit_schedule(call: Call, schedule: Schedule, options: EditOptions) -> Answer[EditedSchedule]:
    """Change the times, policy, name or payload of a schedule. Anything not given stays as it is."""
    if unknown := options.keys() - EditOptions.__annotations__.keys():
        known = ", ".join(sorted(EditOptions.__annotations__))
        raise InvalidInput(f"there is no {', '.join(sorted(unknown))}; choose from {known}")
    if "payload" in options and "fields" in options:
        raise InvalidInput(field="fields", problem="cannot be combined with payload; give one of the two")
    changes: dict[str, Any] = {**options}
    doubts: list[str] = []
    if changes.get("timezone") is None:
        doubts = _doubts(call, schedule, [changes.get("at"), changes.get("next")])
        changes = {name: _with_zone(call, schedule, value, name) for name, value in changes.items()}
    elif "trigger_type" not in changes and not ways_in(changes):
        raise InvalidInput(field="timezone", problem="requires new times; give them, too")
    changes = {**with_offsets(call, changes)}
    for name in ("policy", "trigger_config"):
        check_type(name, changes.setdefault(name, {}), Mapping)
    if "trigger_type" in changes:
        check_type("trigger_type", changes["trigger_type"], str)
    elif changes["trigger_config"]:
        raise InvalidInput(field="trigger_config", problem="requires trigger_type; give that, too")
    request = EditSchedule(
        schedule=schedule,
        times={name: changes[name] for name in time_options() if name in changes},
        trigger=(changes["trigger_type"], changes["trigger_config"]) if "trigger_type" in changes else None,
        policy={**changes["policy"], **{name: changes[name] for name in _POLICY if name in changes}},
        starting=check_time(changes.get("starting"), "starting"),  # in the new zone, if there is one
        guarded=False,
        **{name: changes[name] for name in _OTHERS if changes.get(name) is not None},
    )
    answer = edit(call, request)
    return answer._replace(warnings=[*time_warnings(doubts), *answer.warnings])


def _with_zone(call: Call, schedule: Schedule, value: Any, field: str) -> Any:
    """Return a naive `datetime` as the time that it is in the zone of the schedule, and any other value as it is."""
    instant = read_time_of(call, schedule, value, field) if is_naive(value) else None
    return value if instant is None else datetime_of(instant)


def _doubts(call: Call, schedule: Schedule, times: Sequence[object]) -> list[str]:
    """Return how naive `datetime`s are understood that the clock of the schedule skips or repeats."""
    zone = trigger_shape(schedule.definition.trigger).get("timezone", call.zone)
    texts = [str(time) for time in times if isinstance(time, datetime) and time.tzinfo is None and not time.fold]
    return [note for text in texts for note in time_notes({"run_at": text}, zone, call.now)]


def check_time(time: object, field: str) -> Time | None:
    if not isinstance(time, str | datetime | None):
        problem = f"must be a datetime, or a text such as 'tomorrow 9am', not {time!r:.80}"
        raise InvalidInput(field=field, problem=problem)
    return time


def read_time_of(
    call: Call, schedule: Schedule | None, time: object, field: str, *, last: bool = False, past: bool = False
) -> Instant | None:
    """Read a time, a naive `datetime` in the zone of the schedule. Refuse a number, which the engine uses for times."""
    time = check_time(time, field)
    return declaration.read_time_of(call, schedule, time, field, last=last, past=past)
