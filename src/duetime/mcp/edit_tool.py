"""The tool edit_schedule, which changes any field of a schedule of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from duetime.engine.errors import DuetimeError
from duetime.engine.result import Err
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Schema,
    Tool,
    ToolProblem,
    error_result,
    errors_as_results,
    object_schema,
    result_schema,
    text,
)
from duetime.mcp.manage_tools import BRIEF, SCHEDULE_ID
from duetime.mcp.schemas import (
    ERROR,
    LOOKUP,
    UNLISTED,
    WARNINGS,
    ZONE,
    flat_schema,
    options_argument,
    policy_of,
    with_owner,
    with_warnings,
)
from duetime.mcp.served import Served
from duetime.service.edits import EditRequest, NextTime, edit_schedule, read_next
from duetime.service.kind_spec import KindSpec, load
from duetime.service.lookup import find
from duetime.service.operations.declaration import read_time
from duetime.service.options import TIME_LIMITS
from duetime.service.payload_model import inputs_of
from duetime.service.presenters import brief_view
from duetime.service.services import Call
from duetime.service.vocabulary import iso_local, status_of
from duetime.service.when import NONE, When, about_when, parse_when, read_phrase, read_seconds

WHEN: dict[str, Schema] = {
    "at": text("New time, such as tomorrow 9am; of what recurs, its next."),
    "when": text("New rule: every weekday at 8:30."),
    "cron": text("New rule: 0 9 * * 1-5."),
    "every": text("New interval: 2h30m; first at `at`."),
    "rrule": text("New rule: FREQ=MONTHLY;BYDAY=-1FR."),
    "starting": text("The old rule applies until then."),
}
_RULES = ("cron", "every", "rrule", "when")
Fields = Mapping[str, tuple[str, Schema]]
"""Payload fields with their schemas, by the names of the arguments."""


def fields_of(spec: KindSpec) -> Fields:
    """Return the arguments that edit the payload of a kind."""
    if spec.editable:
        declared: Fields = load(spec.editable)
        return declared
    if not spec.payload:
        return {}
    fields = inputs_of(
        load(spec.payload), {*WHEN, *UNLISTED, "options", "name", "payload", "timezone"}, f"{spec.name}_"
    )
    return {name: (field.name, flat_schema(field.schema)) for name, field in fields.items()}


def _edit(served: Served, of_kind: Mapping[str, Fields], call: Call, given: Arguments) -> Reply:
    call = served.call(call, given)
    zone, schedule = call.zone, find(call, given["schedule_id"])
    request = _request(call, given, _payload_fields(of_kind, schedule.definition.kind, given), zone)
    _check_cron(call.services.specs.get(schedule.definition.kind), request.when)
    if request == EditRequest():
        alone = " timezone alone is how times are read: to change it, give the rule too." if "timezone" in given else ""
        raise ToolProblem(f"Nothing to change: give at least one field besides schedule_id, such as at or name.{alone}")
    result = edit_schedule(call.services, call.caller, schedule, request)
    if isinstance(result, Err):
        if result.code == "not_possible":
            state = result.details.get("state")
            ended = "its only run has begun" if state == "running" else f"it is {state}"
            raise ToolProblem(f"It cannot be edited, because {ended}; create a new one.")
        own = of_kind.get(schedule.definition.kind, {})
        return error_result(_about_argument(about_when(result, given.get("when")), own, given))
    edited, warnings, _, applies = result.value
    view = {
        "schedule_id": edited.definition.public_id,
        "status": status_of(edited.progress),
        **brief_view(edited, zone),
    }
    view["limits"] = call.services.limits(edited)
    if applies is not None:
        view["applies"] = applies
    return Reply(with_warnings(with_owner(call, view, edited.definition.owner), warnings))


def _check_cron(spec: KindSpec | None, when: When | None) -> None:
    """Refuse a cron expression that the tools which create such a schedule would refuse."""
    if when is None or when.type != "cron" or spec is None or not spec.five_cron_fields:
        return
    cron = when.config["expression"]
    if len(cron.split()) != 5:
        raise ToolProblem(
            f"Invalid cron expression: {cron[:100]}. A {spec.name} takes 5 fields (minute hour day-of-month month "
            'day-of-week), for example "0 9 * * 1-5" for 09:00 on weekdays.'
        )


def _about_argument(err: Err, fields: Fields, given: Arguments) -> Err:
    """Return an error about a payload field with the name of the argument that contained it."""
    argument = next((name for name, (field, _) in fields.items() if field == err.field and name in given), None)
    if argument is None or not err.message.startswith(f"{err.field}: "):
        return err
    return replace(err, message=argument + err.message.removeprefix(str(err.field)))


def _payload_fields(of_kind: Mapping[str, Fields], kind: str, given: Arguments) -> dict[str, Any]:
    """Return the given payload fields, or raise a ToolProblem for fields of another kind."""
    own = of_kind.get(kind, {})
    every = {name for fields in of_kind.values() for name in fields}
    for name in given:
        if name in every and name not in own:
            has = ", ".join(own) or "none of these"
            raise ToolProblem(f"{name}: a {kind} has no such field; it has {has}, and further ones go into payload.")
    return {**given.get("payload", {}), **{field: given[name] for name, (field, _) in own.items() if name in given}}


def _request(call: Call, given: Arguments, fields: Mapping[str, Any], zone: str) -> EditRequest:
    try:
        when, moved = _when(given, zone)
        limits = _limits(given)
        if when is not None and moved is not None:
            if limits.get("start") is not None:
                raise ToolProblem("at and start are both the first time of the new rule; give one of them.")
            limits["start"], moved = iso_local(read_next(call.services, moved).instant, zone), None
        starting = read_time(call, given.get("starting"), "starting")
    except DuetimeError as error:
        raise ToolProblem(error.message) from error
    return EditRequest(
        name=given.get("name"),
        when=when,
        limits=limits,
        zone=zone if limits else None,
        next=moved,
        starting=starting,
        fields=fields,
        policy=policy_of(given),
    )


def _limits(given: Arguments) -> dict[str, Any]:
    """Return the new limits of the rule; `none` removes one."""
    named = {name: given[name] for name in TIME_LIMITS if name in given}
    limits: dict[str, Any] = {name: None if str(value).lower() == NONE else value for name, value in named.items()}
    if limits.get("jitter") is not None:
        limits["jitter"] = read_seconds(limits["jitter"], "jitter")
    return limits


def _when(given: Arguments, zone: str) -> tuple[When | None, NextTime | None]:
    """Return the new rule, and the next time, which is moved alone if no rule is given."""
    named = [name for name in _RULES if given.get(name) is not None]
    time = "at"
    if "when" in named and read_phrase(given["when"])[0] == "once":  # a time, as in `at`
        if given.get("at") is not None:
            raise ToolProblem("when and at are both a time; give one of them.")
        time = "when"
        named.remove("when")
    moved = NextTime(given[time], zone, time) if given.get(time) is not None else None
    rule = parse_when(**{name: given[name] for name in named}, timezone=given.get("timezone")) if named else None
    return rule, moved


def edit_tool(served: Served) -> Tool:
    """Return the tool, with the payload fields of the kinds that are served."""
    of_kind = {spec.name: fields_of(spec) for spec in served.specs}
    payload = {name: schema for fields in of_kind.values() for name, (_, schema) in fields.items()}
    further: Schema = {"type": "object", "description": "Other fields, such as {priority: 4, max_runs_per_day: 3}."}
    return Tool(
        "edit_schedule",
        "Edit",
        "Change any field of a schedule of any kind; what is not given stays, as do id and history. A run in progress "
        "keeps its values, one that waits has the new ones. A one-off that has begun cannot be edited.",
        object_schema(
            {
                "schedule_id": SCHEDULE_ID,
                "name": text("A new name."),
                **WHEN,
                **payload,
                "payload": further,
                **options_argument(),
                "timezone": ZONE,
            },
            ("schedule_id",),
        ),
        result_schema(
            {
                "schedule_id": {"type": "string"},
                "status": {"type": "string"},
                **BRIEF,
                "applies": {"type": "string"},
                **WARNINGS,
                "limits": {"type": "object"},
                "known_tasks": {"type": "array", "items": {"type": "string"}},
                "error": ERROR,
                **LOOKUP,
            }
        ),
        errors_as_results(partial(_edit, served, of_kind)),
        destructive=True,
    )
