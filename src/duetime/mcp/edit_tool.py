"""The tool edit_schedule, which changes any field of a schedule of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duetime.engine.errors import DuetimeError, Refused
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Schema,
    Tool,
    ToolProblem,
    error_result,
    errors_as_results,
    text,
    tool,
)
from duetime.mcp.manage_tools import BRIEF, SCHEDULE_ID, edited_reply
from duetime.mcp.schemas import (
    ERROR,
    LOOKUP,
    OPTIONS_SET,
    UNLISTED,
    WARNINGS,
    ZONE,
    flat_schema,
    new_time_arguments,
    policy_of,
)
from duetime.mcp.served import Served
from duetime.service.errors import reword
from duetime.service.kind_spec import KindSpec, load
from duetime.service.lookup import find
from duetime.service.operations.edit import EditSchedule, NothingToChange, edit
from duetime.service.options import time_options
from duetime.service.payload_fields import inputs_of
from duetime.service.services import Call
from duetime.service.when import when_of

WHEN: dict[str, Schema] = {
    **new_time_arguments("at", "when", "cron", "every", "rrule"),
    "starting": text("The old rule applies until then."),
}
_OPTIONS = (
    "As for a new one; also max_attempts 3, timeout 30s, catch_up, overlap, max_runs 10, deliver_to daily-report. "
    "To forget what only_if saw, add a blank to it."
)
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


def _edit(call: Call, of_kind: Mapping[str, Fields], arguments: Arguments) -> Reply:
    schedule = find(call, arguments["schedule_id"])
    kind = schedule.definition.kind
    fields = _payload_fields(of_kind, kind, arguments)
    _check_cron(call.services.specs.get(kind), arguments)
    request = EditSchedule(
        schedule=schedule,
        name=arguments.get("name"),
        times=_times(arguments),
        starting=arguments.get("starting"),
        fields=fields,
        policy=policy_of(arguments),
    )
    try:
        return edited_reply(call, edit(call, request))
    except Refused as error:
        return _refusal(error, of_kind.get(kind, {}), arguments)


def _times(arguments: Arguments) -> dict[str, Any]:
    """Return the options of times. Without a rule, `timezone` is only how times are read, not the zone of the rule."""
    has_rule = any(name in arguments for name in _RULES)
    return {name: arguments[name] for name in time_options() if name in arguments and (has_rule or name != "timezone")}


def _check_cron(spec: KindSpec | None, arguments: Arguments) -> None:
    """Refuse a cron expression that the tools which create such a schedule would refuse."""
    if spec is None or not spec.five_cron_fields:
        return
    rules = [when_of(name, arguments[name]) for name in ("cron", "when") if name in arguments]
    for cron in (rule.config["expression"] for rule in rules if rule.type == "cron"):
        if len(cron.split()) != 5:
            raise ToolProblem(
                f"Invalid cron expression: {cron[:100]}. A {spec.name} takes 5 fields (minute hour day-of-month month "
                'day-of-week), for example "0 9 * * 1-5" for 09:00 on weekdays.'
            )


def _refusal(err: DuetimeError, fields: Fields, arguments: Arguments) -> Reply:
    if err.code == "not_possible" and "state" in err.details:
        state = err.details["state"]
        ended = "its only run has begun" if state == "running" else f"it is {state}"
        raise ToolProblem(f"It cannot be edited, because {ended}; create a new one.")
    if isinstance(err, NothingToChange):
        zone = (
            " timezone alone is how times are read: to change it, give the rule too." if "timezone" in arguments else ""
        )
        raise ToolProblem(f"{err.message.capitalize()}.{zone}")
    return error_result(_about_argument(err, fields, arguments))


def _about_argument(err: DuetimeError, fields: Fields, arguments: Arguments) -> DuetimeError:
    """Return an error about a payload field with the name of the argument that contained it."""
    argument = next((name for name, (field, _) in fields.items() if field == err.field and name in arguments), None)
    if argument is None or not err.message.startswith(f"{err.field}: "):
        return err
    return reword(err, argument + err.message.removeprefix(str(err.field)))


def _payload_fields(of_kind: Mapping[str, Fields], kind: str, arguments: Arguments) -> dict[str, Any]:
    """Return the payload fields among the arguments, or raise a ToolProblem for fields of another kind."""
    own = of_kind.get(kind, {})
    every = {name for fields in of_kind.values() for name in fields}
    for name in arguments:
        if name in every and name not in own:
            has = ", ".join(own) or "none of these"
            raise ToolProblem(f"{name}: a {kind} has no such field; it has {has}, and further ones go into payload.")
    return {
        **arguments.get("payload", {}),
        **{field: arguments[name] for name, (field, _) in own.items() if name in arguments},
    }


def edit_tool(served: Served) -> Tool:
    """Return the tool, with the payload fields of the kinds that are served."""
    of_kind = {spec.name: fields_of(spec) for spec in served.specs}
    payload = {name: schema for fields in of_kind.values() for name, (_, schema) in fields.items()}
    further: Schema = {"type": "object", "description": "Other fields: {priority: 4, max_runs_per_day: 3}."}

    @errors_as_results
    def edit_schedule(call: Call, arguments: Arguments) -> Reply:
        """Change any field of a schedule of any kind; what is not given stays, as do id and history. A run in progress
        keeps its values, one that waits has the new ones. A one-off that has begun cannot be edited."""
        return _edit(served.call(call, arguments), of_kind, arguments)

    return tool(
        edit_schedule,
        "Edit",
        {
            "schedule_id": SCHEDULE_ID,
            "name": text("A new name."),
            **WHEN,
            **payload,
            "payload": further,
            "options": {"type": "object", "description": _OPTIONS},
            "timezone": ZONE,
        },
        {
            "schedule_id": {"type": "string"},
            "status": {"type": "string"},
            **BRIEF,
            "applies": {"type": "string"},
            **WARNINGS,
            "limits": {"type": "object"},
            "options": OPTIONS_SET,
            "known_tasks": {"type": "array", "items": {"type": "string"}},
            "error": ERROR,
            **LOOKUP,
        },
        ("schedule_id",),
        destructive=True,
    )
