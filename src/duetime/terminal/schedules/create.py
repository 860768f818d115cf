"""Adds and edits schedules of any kind, and prints what the engine made of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import InvalidInput
from duetime.engine.model import Schedule
from duetime.engine.policy.options import policy_for_ending
from duetime.engine.result import Err, Ok, Result
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.calls import LOCAL, Refused, taken
from duetime.terminal import output
from duetime.terminal.output import clean, coming, schedule_document
from duetime.terminal.schedules.kind_view import Words
from duetime.terminal.schedules.lookup import found_here
from duetime.terminal.schedules.options import When

if TYPE_CHECKING:
    from duetime.app import App


def add_schedule(room: App, new: NewSchedule, warnings: Sequence[str], json_: bool) -> None:
    """Create a schedule and print it. If its key was used before, print the existing schedule and say so."""
    before = room.scheduler.made_before(LOCAL, new)
    made = made_by(room, room.scheduler.create(LOCAL, new))
    fresh = not isinstance(before, Ok)
    warnings = [*warnings, *_result_warnings(room, made)]
    _show(room, "Added" if fresh else "Was there already:", made, warnings, json_, {"created": fresh})


def edit_schedule(
    room: App,
    words: Words,
    given: str,
    when: When,
    json_: bool,
    *,
    name: str | None,
    payload: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> None:
    """Edit a schedule and print it. The whole payload is written back, so the version must be the one that was read."""
    type_, config = when.changed()
    if name is None and type_ is None and not policy and not payload:
        raise InvalidInput(f"nothing to change; give at least one option, see duetime {words.room} edit --help")
    found = found_here(room, words, given)
    definition = found.definition
    whole = {**json.loads(definition.payload), **payload} if payload else None
    changes = Changes(name, type_, config, whole, policy or None, when.tz, None, definition.version)
    edited = made_by(room, room.services.edit(LOCAL, found, changes))
    told = _result_warnings(room, edited) if "deliver_to" in policy else []
    _show(room, "Changed", edited, [*when.notes(room), *told], json_, {})


def _result_warnings(room: App, schedule: Schedule) -> list[str]:
    """Return warnings about delivery. Creating the services logs notification problems, so do it only if needed."""
    definition = schedule.definition
    delivered = policy_for_ending(definition.policy).deliver_to is not None
    return [each.text for each in room.services.result_warnings(definition)] if delivered else []


def made_by(room: App, result: Result[Schedule]) -> Schedule:
    if isinstance(result, Err) and result.code == "unknown_task":
        known = ", ".join(task.name for task in room.registry)
        hint = f"known here: {known}; name the module of others with --tasks"
        raise Refused(Err(result.code, f"{result.message}; {hint}", result.details))
    return taken(result)


def _show(
    room: App, verb: str, schedule: Schedule, warnings: Sequence[str], json_: bool, more: Mapping[str, Any]
) -> None:
    view = schedule_document(schedule, room.scheduler.zone)
    if json_:
        output.print_json({**view, **more, "warnings": list(warnings)})
        return
    following = coming(schedule.progress.next, room.scheduler.zone, room.clock.now())
    print(f"{verb} {view['id']}  {clean(view['name'])}: {clean(view['reads_as'])}")
    print(f"next   {following}")
    output.warn(warnings)
