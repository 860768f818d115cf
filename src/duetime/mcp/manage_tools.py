"""Tools that change schedules of every kind: pause, resume, delete, and the same for many at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from duetime.engine.errors import DuetimeError
from duetime.mcp.definitions import (
    Arguments,
    Reply,
    Schema,
    Tool,
    ToolProblem,
    errors_as_results,
    id_or_name,
    object_schema,
    result_schema,
)
from duetime.mcp.operation_tools import inputs_of, request_of
from duetime.mcp.schemas import ERROR, LIMITS_IN_FORCE, LOOKUP, NULLABLE_TIME, ZONE, lookup_fields
from duetime.mcp.served import Served
from duetime.service.errors import STORE_ERRORS
from duetime.service.masking import without_secrets
from duetime.service.operations import change as operations
from duetime.service.operations.change import ChangeRequest
from duetime.service.presenters import brief_view
from duetime.service.services import Call

SCHEDULE_ID = id_or_name("Its id or name.")
DELETED_ID = id_or_name(
    "The schedule ID to delete. This ID is returned when creating a cron schedule. Or an id of any kind, or a name."
)
BRIEF: dict[str, Schema] = {
    "kind": {"type": "string"},
    "name": {"type": "string"},
    "next_run": NULLABLE_TIME,
    "paused_until": NULLABLE_TIME,
    "note": {"type": ["string", "null"]},
    "reads_as": {"type": "string"},
}
_ROWS: Schema = {"type": "array", "items": {"type": "object"}}
_SHOWN = 100
"""Maximum number of rows in an answer about many schedules."""


def change(served: Served, request: type[ChangeRequest], call: Call, given: Arguments) -> Reply:
    id = str(given["schedule_id"])
    try:
        call = served.call(call, given)
        changed = operations.change(call, request_of(request, given, schedule=id, include_gone=False)).value
    except DuetimeError as error:
        return _refusal(request.action, id, error)
    is_deleted = request.action == "delete"
    view: dict[str, Any] = {} if is_deleted else {"paused": request.action == "pause"}
    view["confirmation"] = f"Schedule {changed.id} {operations.ACTIONS[request.action]} successfully"
    if not is_deleted:
        view |= brief_view(changed.schedule, call.zone)
    further = {"limits": changed.limits, "falls_into_pause": changed.falls_into_pause}
    view |= {name: value for name, value in further.items() if value is not None}
    if (owner := changed.schedule.definition.owner) != call.caller.owner:
        view["owner"] = owner  # an operator's change
    return Reply({"success": True, "schedule_id": changed.id, **view})


def _refusal(action: str, id: str, err: DuetimeError) -> Reply:
    if err.field is not None:
        raise ToolProblem(f"{err.message.rstrip('.')}.")
    refused = {"success": False, "schedule_id": id}
    if err.code == "not_found":
        gone = "already been deleted" if action == "delete" else "been deleted"
        return Reply({**refused, "error": f"Schedule not found: {id}. It may have {gone} or the ID is incorrect."})
    if err.code == "ambiguous":
        return Reply({**refused, "error": err.message, **lookup_fields(err, "")})
    reason = "the store cannot be reached right now; try again in a moment"
    reason = reason if err.code in STORE_ERRORS else without_secrets(err.message)
    if err.code == "not_possible" and action != "delete":
        reason += "; create a new one"
    return Reply({**refused, "error": f"Could not {action} {id}: {reason}"})


def _change_many(served: Served, call: Call, given: Arguments) -> Reply:
    try:
        call = served.call(call, given)
        changed = operations.change_many(call, request_of(operations.ChangeMany, given)).value
    except DuetimeError as err:
        known = err.code not in STORE_ERRORS
        return Reply({"error": without_secrets(err.message) if known else "the store cannot be reached right now"})
    answer = {"action": given["action"], **changed.facts(_SHOWN)}
    return Reply({**answer, "more": True} if len(changed.matched) > _SHOWN else answer)


def manage_tools(served: Served) -> list[Tool]:
    return [_pause_tool(served), _resume_tool(served), _delete_tool(served), _change_many_tool(served)]


def _pause_tool(served: Served) -> Tool:
    return Tool(
        "pause_schedule",
        "Pause",
        "Stop a schedule of any kind until resume_schedule or until a time. Recurring times in the pause are skipped; "
        "a one-off fires at its end. Pausing twice is no error.",
        object_schema(
            {"schedule_id": SCHEDULE_ID, **inputs_of(operations.Pause, "schedule"), "timezone": ZONE},
            ("schedule_id",),
        ),
        _changed_schema({"paused": {"type": "boolean"}, "falls_into_pause": {"type": "string"}, **BRIEF}),
        partial(change, served, operations.Pause),
        idempotent=True,
    )


def _resume_tool(served: Served) -> Tool:
    return Tool(
        "resume_schedule",
        "Resume",
        "Let a paused schedule fire again, from its next time on. Resuming one that is not paused is no error.",
        object_schema({"schedule_id": SCHEDULE_ID, "timezone": ZONE}, ("schedule_id",)),
        _changed_schema({"paused": {"type": "boolean"}, "limits": LIMITS_IN_FORCE, **BRIEF}),
        partial(change, served, operations.Resume),
        idempotent=True,
    )


def _delete_tool(served: Served) -> Tool:
    return Tool(
        "delete_schedule",
        "Delete",
        "Delete a scheduled notification by its ID.\n\nPermanently removes a cron schedule. The schedule will stop "
        "firing and cannot be recovered. Use the schedule_id returned from schedule_cron_notification.\n\nIt "
        "deletes schedules of every kind; the history stays. Ask the user if in doubt. To stop for a while use "
        "pause_schedule.",
        object_schema({"schedule_id": DELETED_ID}, ("schedule_id",)),
        _changed_schema({}),
        partial(change, served, operations.Delete),
        destructive=True,
        idempotent=True,
    )


def _changed_schema(fields: Mapping[str, Schema]) -> Schema:
    always: dict[str, Schema] = {"success": {"type": "boolean"}, "schedule_id": {"type": "string"}}
    answer = {**always, "confirmation": {"type": "string"}, **fields, "error": ERROR, **LOOKUP}
    return result_schema(answer, tuple(always))


def _change_many_tool(served: Served) -> Tool:
    return Tool(
        "change_schedules",
        "Change many",
        "Pause, resume, cancel or delete many schedules: those in ids, those that match kind, topic and label, or "
        "all. Try dry_run first and show the user what matches.",
        object_schema(
            {
                **inputs_of(operations.ChangeMany),
                "kind": served.kind_argument,
                "timezone": ZONE,
            },
            ("action",),
        ),
        result_schema(
            {
                "action": {"type": "string"},
                "dry_run": {"type": "boolean"},
                "matched": {"type": "integer"},
                "changed": {"type": "integer"},
                "failed": _ROWS,
                "schedules": _ROWS,
                "more": {"type": "boolean", "description": "Not all rows are shown."},
                "error": ERROR,
            }
        ),
        errors_as_results(partial(_change_many, served)),
        destructive=True,
    )
