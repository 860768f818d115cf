"""Adds and edits schedules of any kind, and prints what the engine made of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from duetime.engine.errors import InvalidInput
from duetime.engine.model import Schedule
from duetime.engine.validation import Changes, NewSchedule
from duetime.service.errors import unwrap
from duetime.service.kind_spec import ScheduleWarning
from duetime.service.masking import masked_payload, refuse_other_places
from duetime.service.services import OPERATOR
from duetime.service.when import When
from duetime.terminal import output
from duetime.terminal.application import Application
from duetime.terminal.context import print_warnings
from duetime.terminal.output import clean, coming, schedule_document
from duetime.terminal.schedules.kind_view import KindView
from duetime.terminal.schedules.lookup import found_here
from duetime.terminal.schedules.options import TriggerOptions


def add_schedule(
    app: Application, new: NewSchedule, when: When, json_: bool, *, tasks: Sequence[str] | None = None
) -> None:
    """Create a schedule and print it. If its key was used before, print the existing schedule and say so."""
    made = unwrap(app.services.create(OPERATOR, new))
    warnings = [*made.warnings, *time_notes(app, when)]
    if json_:
        view = schedule_document(made.schedule, app.scheduler.zone)
        output.print_json({**view, "created": made.fresh, "warnings": [each.text for each in warnings]})
        return
    _print(app, "Added" if made.fresh else "Was there already:", made.schedule)
    print_warnings(app, warnings, tasks=tasks)


def edit_schedule(
    app: Application,
    view: KindView,
    given: str,
    options: TriggerOptions,
    json_: bool,
    *,
    name: str | None,
    payload: Mapping[str, Any],
    policy: Mapping[str, Any],
    guarded: bool = False,
) -> None:
    """Edit a schedule and print it. The whole payload is written back, so the version must be the one that was read.

    If `guarded`, another recipient does not get the hidden values of the stored payload.
    """
    when = options.changed()
    if name is None and when is None and not policy and not payload:
        raise InvalidInput(f"nothing to change; give at least one option, see duetime {view.command} edit --help")
    found = found_here(app, view, given)
    definition = found.definition
    stored = json.loads(definition.payload)
    whole = {**stored, **payload} if payload else None
    kept = {field: value for field, value in stored.items() if field not in payload}
    if guarded and whole is not None and masked_payload(view.kind, kept) != kept:
        refuse_other_places(view.kind, whole, stored)
    type_, config = (None, None) if when is None else (when.type, when.config)
    changes = Changes(name, type_, config, whole, policy or None, options.tz, None, definition.version)
    edited = unwrap(app.services.edit(OPERATOR, found, changes))
    warnings = app.services.result_warnings(edited.definition) if "deliver_to" in policy else []
    warnings += [] if when is None else time_notes(app, when)
    if json_:
        document = schedule_document(edited, app.scheduler.zone)
        output.print_json({**document, "warnings": [each.text for each in warnings]})
        return
    _print(app, "Changed", edited)
    print_warnings(app, warnings)


def time_notes(app: Application, when: When) -> list[ScheduleWarning]:
    """Return how an ambiguous time was understood."""
    return [ScheduleWarning("time", note) for note in when.notes(app.scheduler.zone, app.clock.now())]


def _print(app: Application, verb: str, schedule: Schedule) -> None:
    view = schedule_document(schedule, app.scheduler.zone)
    print(f"{verb} {view['id']}  {clean(view['name'])}: {clean(view['reads_as'])}")
    print(f"next   {coming(schedule.progress.next, app.scheduler.zone, app.clock.now())}")
