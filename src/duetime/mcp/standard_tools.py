"""Standard tools: schedule, list and cancel. A kind with a payload model and no tools of its own gets all three."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Schema,
    Tool,
    ToolProblem,
    error_result,
    errors_as_results,
    id_or_name,
    number,
    object_schema,
    result_schema,
    text,
)
from duetime.mcp.schemas import (
    DELIVERY,
    ERROR,
    FOLLOWERS,
    KEY,
    LIMITS_IN_FORCE,
    LOOKUP,
    MAX_RUNS,
    NULLABLE_TIME,
    OPTIONS,
    OPTIONS_SET,
    POLICY,
    READS_AS,
    STATE_DETAIL,
    STATUSES,
    TRIGGER_CONFIG,
    TRIGGER_TYPE,
    UNLISTED,
    WARNINGS,
    WHEN,
    ZONE,
    flat_schema,
    lookup_fields,
    policy_of,
    warn_of_end,
    with_owner,
    with_warnings,
)
from duetime.service.kind_spec import KindSpec, load
from duetime.service.lookup import find_schedule
from duetime.service.masking import masked
from duetime.service.operations import create as operations
from duetime.service.operations.change import Cancel, change
from duetime.service.operations.create import CreateSchedule
from duetime.service.operations.history import latest_results
from duetime.service.operations.schedules import COUNT_ALL, ListSchedules, details_of
from duetime.service.operations.schedules import list_schedules as read_schedules
from duetime.service.options import TIME_LIMITS
from duetime.service.payload_fields import PayloadField, inputs_of
from duetime.service.presenters import instant_view, next_of, options_view, reads_as, source_view, trigger_shape
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule, executed, status_of
from duetime.service.when import When, read_times

LIST_INPUT: dict[str, Schema] = {
    "status": text("Only this status.", enum=list(STATUSES)),
    "tagged": text("With a tag."),
    "limit": number("At most; default 100.", minimum=1, maximum=1000),
    "cursor": text("next_cursor of the last page."),
    "timezone": ZONE,
}
CREATED: dict[str, Schema] = {
    "name": {"type": "string"},
    "next_run": NULLABLE_TIME,
    "reads_as": READS_AS,
    "limits": LIMITS_IN_FORCE,
    "options": OPTIONS_SET,
    "status": {"type": "string"},
    **WARNINGS,
    "error": ERROR,
}


def summary_schema(id_name: str = "id") -> dict[str, Schema]:
    """Return the schema of `summary`."""
    counted = "Executed or queued occurrences; retries, missed and skipped do not count."
    return {
        id_name: {"type": "string"},
        "name": {"type": "string"},
        "status": {"type": "string", "description": ", ".join(STATUSES)},
        "state_detail": STATE_DETAIL,
        "trigger_type": {"type": "string"},
        "reads_as": READS_AS,
        "timezone": {"type": ["string", "null"]},
        "next_run": NULLABLE_TIME,
        "run_count": {"type": "integer", "description": counted},
        "last_run": NULLABLE_TIME,
        "last_status": {"type": ["string", "null"], "description": "How the latest run ended."},
        "error": {"type": ["string", "null"], "description": "The latest error."},
        "note": {"type": ["string", "null"], "description": "Why it is paused, held or broken."},
        "paused_until": NULLABLE_TIME,
        "options": OPTIONS_SET,
    }


def summary(schedule: Schedule, zone: str, id_name: str = "id", detail: str | None = None) -> dict[str, Any]:
    definition, progress = schedule
    trigger = trigger_shape(definition.trigger)  # also of a trigger that is no longer valid
    return {
        id_name: definition.public_id,
        "name": masked(definition.name),
        "status": status_of(progress),
        "state_detail": detail,
        "trigger_type": trigger["type"],
        "reads_as": reads_as(definition.trigger),
        "timezone": trigger.get("timezone"),
        "next_run": instant_view(next_of(progress), zone),
        "run_count": executed(progress),
        "last_run": instant_view(progress.last_run, zone),
        "last_status": progress.last_status,
        "error": masked(progress.last_error),
        "note": masked(progress.note),
        "paused_until": instant_view(definition.resume_at, zone),
        "options": options_view(definition.policy, definition.trigger, zone),
        **({"source": source} if (source := source_view(definition.key)) else {}),
    }


def list_output(plural: str, row: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the parts of the result of `list_schedules`."""
    fields = {**row, "result": {"description": "Of the latest run, if it completed; its beginning."}}
    return {
        plural: {"type": "array", "items": {"type": "object", "properties": fields}},
        "total": number("All that match, not only this page."),
        "next_cursor": text("Present when there is more."),
        "error": ERROR,
    }


def create(call: Call, arguments: Arguments, kind: str, payload: Mapping[str, Any], id_name: str = "id") -> Reply:
    """Create a schedule by the arguments that all kinds have in common."""
    call = call.in_zone(arguments.get("timezone"))
    _check_times(arguments)
    created, warnings, _ = operations.create(call, create_request(arguments, kind, payload))
    schedule = created.first_result
    facts = created_facts(call, schedule, created.limits)
    view = {
        id_name: schedule.definition.public_id,
        "name": masked(schedule.definition.name),
        "next_run": facts["next_run"],
        "status": status_of(schedule.progress),
        **facts,
    }
    return Reply(with_warnings(view, warnings))


def _check_times(arguments: Arguments) -> None:
    """Refuse a call that does not say when; no schema can require one of two arguments."""
    if "when" not in arguments and ("trigger_type" not in arguments or "trigger_config" not in arguments):
        example = 'such as cron and {expression: 0 9 * * 1-5}, or when, such as "every weekday at 8:30"'
        raise ToolProblem(f"Give trigger_type and trigger_config, {example}.")


def create_request(arguments: Arguments, kind: str, payload: Mapping[str, Any]) -> CreateSchedule:
    """Return the request of the arguments that all tools have in common. The time zone is that of the call."""
    return CreateSchedule(
        kind,
        payload,
        {name: arguments[name] for name in ("when", *TIME_LIMITS) if name in arguments},
        (arguments.get("trigger_type", ""), arguments.get("trigger_config", {}))
        if "trigger_config" in arguments
        else None,
        policy_of(arguments),
        arguments.get("name"),
        arguments.get("idempotency_key"),
    )


def created_facts(call: Call, schedule: Schedule, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the answer to every create and edit contains: the next time, the rule in words, the limits, and what
    was set."""
    definition = schedule.definition
    defaults = call.services.kinds[definition.kind].defaults
    options = options_view(definition.policy, definition.trigger, call.zone, defaults)
    return {
        "next_run": instant_view(next_of(schedule.progress), call.zone),
        "reads_as": reads_as(definition.trigger),
        "limits": dict(limits),
        **({"options": options} if options else {}),
    }


def requested_when(call: Call, arguments: Arguments) -> When:
    """Return the trigger that the arguments request, or raise a ToolProblem that names the argument."""
    _check_times(arguments)
    request = create_request(arguments, "", {})
    try:
        return read_times(request.times, request.trigger, call.in_zone(arguments.get("timezone")).zone, call.now)
    except InvalidInput as error:
        raise ToolProblem(error.message) from error


RowExtras = Callable[[Schedule, str], dict[str, Any]]
"""Returns the fields that a kind adds to the row of a schedule, in a time zone."""


def list_tool(
    kind: str,
    plural: str,
    id_name: str = "id",
    extras: RowExtras = lambda _schedule, _zone: {},
    further: Mapping[str, Schema] = MappingProxyType({}),
) -> Tool:
    """Return the tool that lists the schedules of a kind. `further` are the schemas of the fields in `extras`."""
    return Tool(
        name=f"list_{plural}",
        title=f"List {plural}",
        description=(
            f"The caller's {plural}, newest last. One that recurs is pending between runs; failed also matches one "
            "whose latest run failed."
        ),
        input=object_schema(LIST_INPUT),
        output=result_schema(list_output(plural, {**summary_schema(id_name), **further})),
        answer=errors_as_results(
            lambda call, arguments: list_schedules(call, arguments, kind, plural, id_name, extras)
        ),
        read_only=True,
        idempotent=True,
        lists_schedules=True,
    )


def cancel_tool(kind: str, name: str, id_name: str, schedule_id: Schema, list_name: str = "") -> Tool:
    """Return the tool that cancels a schedule of a kind. With `list_name`, an unknown id is an error that names it."""
    return Tool(
        name=name,
        title=f"Cancel a {kind}",
        description=(
            f"End a {kind}, and ask its run in progress to stop. It stays in lists and can be restored; "
            "delete_schedule removes it. Ask the user if several could be meant."
        ),
        input=object_schema({id_name: schedule_id}, (id_name,)),
        output=result_schema(
            {"cancelled": {"type": "boolean"}, id_name: {"type": "string"}, **FOLLOWERS, "error": ERROR, **LOOKUP},
            ("cancelled",),
        ),
        answer=lambda call, arguments: cancel(call, arguments[id_name], kind, id_name, list_name),
        destructive=True,
        idempotent=True,
    )


def list_schedules(call: Call, arguments: Arguments, kind: str, plural: str, id_name: str, extras: RowExtras) -> Reply:
    zone, status = call.in_zone(arguments.get("timezone")).zone, arguments.get("status")
    if status is not None and status not in STATUSES:
        return Reply({"error": f"Unknown status: {status}"})
    chosen = {name: arguments[name] for name in ("status", "tagged", "limit", "cursor") if name in arguments}
    request = ListSchedules(kind=kind, order="oldest", count_to=COUNT_ALL, **chosen)
    page = read_schedules(call, request).value
    details, results = details_of(call, page.items), latest_results(call, page.items)
    rows = []
    for item in page.items:
        id, owner = item.definition.id, item.definition.owner
        row = summary(item, zone, id_name, details.get(id)) | extras(item, zone)
        rows.append(with_owner(call, row | ({"result": results[id]} if id in results else {}), owner))
    answer: dict[str, Any] = {plural: rows, "total": page.total}
    return Reply(answer if page.cursor is None else {**answer, "next_cursor": page.cursor})


def cancel(call: Call, reference: str | int, kind: str, id_name: str, list_name: str) -> Reply:
    schedule = None
    try:
        schedule = find_schedule(call, reference, kind)
        changed = change(call, Cancel(schedule=schedule)).value
    except DuetimeError as error:
        id = schedule.definition.public_id if schedule is not None and error.code == "not_possible" else ""
        ended = call.scheduler.find(call.caller, id) if id else None  # it may have ended or gone since it was found
        if ended is not None:
            fields = {id_name: id, "error": f"{kind.capitalize()} already {status_of(ended.progress)}: {id}"}
        elif id or error.code == "not_found":
            fields = {"error": f"No {kind} has the id {reference}; {list_name} shows the ids."} if list_name else {}
        else:
            fields = dict(error_result(error).structured)
        return Reply({"cancelled": False, **fields, **lookup_fields(error)})
    answer = {"cancelled": True, id_name: changed.id, **warn_of_end(changed.followers, changed.declared)}
    return Reply(with_owner(call, answer, schedule.definition.owner))


# -- the tools of a payload model -------------------------------------------------------------------------------------


def standard_tools(spec: KindSpec) -> list[Tool]:
    """Return the tools that schedule, list and cancel a kind. Its payload fields are arguments beside those of all
    kinds."""
    kind, plural = spec.name, spec.plural
    create_name, list_name, cancel_name = f"schedule_{kind}", f"list_{plural}", spec.canceller
    when = {"name": text("A name for people."), "trigger_type": TRIGGER_TYPE, "trigger_config": TRIGGER_CONFIG}
    options = {"when": WHEN, **MAX_RUNS, "timezone": ZONE, **POLICY, **DELIVERY, **OPTIONS, "idempotency_key": KEY}
    arguments = inputs_of(load(spec.payload), {**when, **UNLISTED, **options}, f"{kind}_")
    inputs = {name: flat_schema(field.schema) for name, field in arguments.items()}
    required = ("name", *(name for name, field in arguments.items() if field.required))
    return [
        Tool(
            name=create_name,
            title=f"Schedule a {kind}",
            description=(
                f"{spec.title or f'Schedule a {kind}'}: once, at intervals, by cron or by a recurrence rule. "
                f"Returns the id that {cancel_name} takes. Tell the user the local time in next_run, and warnings."
            ),
            input=object_schema({**when, **inputs, **options}, required),
            output=result_schema({"id": {"type": "string"}, **CREATED}),
            answer=errors_as_results(partial(_schedule, kind, arguments)),
        ),
        list_tool(kind, plural),
        cancel_tool(kind, cancel_name, "id", id_or_name(f"The id that {create_name} returned, or a name."), list_name),
    ]


def _schedule(kind: str, fields: Mapping[str, PayloadField], call: Call, arguments: Arguments) -> Reply:
    named = {name: field for name, field in fields.items() if name in arguments or field.required}
    return create(call, arguments, kind, {field.name: arguments.get(name) for name, field in named.items()})
