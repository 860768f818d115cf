"""Tools that change schedules of every kind: pause, resume, delete, and the same for many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from duetime.engine.errors import DuetimeError
from duetime.mcp.definitions import COUNT, FLAG, ROWS, TEXT, TEXTS, Arguments, Reply, Schema, ToolProblem, id_or_name
from duetime.mcp.operation_tools import inputs_of, request_of
from duetime.mcp.schemas import (
    ERROR,
    FOLLOWERS,
    LIMITS_IN_FORCE,
    LOOKUP,
    NULLABLE_TIME,
    ZONE,
    lookup_fields,
    warn_of_end,
    with_owner,
    with_warnings,
)
from duetime.mcp.served import KIND, AnswerTool, GenericTools
from duetime.mcp.standard_tools import created_facts
from duetime.service.errors import STORE_ERRORS
from duetime.service.lookup import is_stored
from duetime.service.masking import without_secrets
from duetime.service.operations import change as operations
from duetime.service.operations import hooks
from duetime.service.operations.change import ChangeRequest
from duetime.service.operations.change_many import ChangeMany, change_many
from duetime.service.operations.declaration import Answer
from duetime.service.operations.edit import EditedSchedule
from duetime.service.operations.hooks import CreateHook
from duetime.service.presenters import brief_view
from duetime.service.services import Call
from duetime.service.vocabulary import OVER, status_of

SCHEDULE_ID = id_or_name("Its id or name.")
DELETED_ID = id_or_name(
    "The schedule ID to delete. This ID is returned when creating a cron schedule. Or an id of any kind, or a name."
)
BRIEF: dict[str, Schema] = {
    "kind": TEXT,
    "name": TEXT,
    "next_run": NULLABLE_TIME,
    "paused_until": NULLABLE_TIME,
    "note": {"type": ["string", "null"]},
    "reads_as": TEXT,
    "source": TEXT,
}
_SHOWN = 100
"""Maximum number of rows in an answer about many schedules."""
tools = GenericTools()


def edited_reply(call: Call, answer: Answer[EditedSchedule]) -> Reply:
    """Return a schedule after an edit, with all of the answer."""
    edited, applies = answer.value.schedule, answer.value.applies
    view = {
        "schedule_id": edited.definition.public_id,
        "status": status_of(edited.progress),
        **brief_view(edited, call.zone),
        **created_facts(call, edited, answer.value.limits),
        **({} if applies is None else {"applies": applies}),
    }
    return Reply(with_warnings(with_owner(call, view, edited.definition.owner), answer.warnings))


def _change(request: type[ChangeRequest], call: Call, arguments: Arguments) -> Reply:
    id, action = str(arguments["schedule_id"]), request.action
    if action == "delete" and id.startswith(hooks.PREFIX):
        hooks.delete_hook(call, hooks.ChangeHook(hook=id))
        return Reply({"success": True, "schedule_id": id, "confirmation": f"Hook {id} deleted successfully"})
    changed = operations.change(call, request_of(request, arguments, schedule=id)).value
    view: dict[str, Any] = {} if action == "delete" else {"paused": action == "pause"}
    view["confirmation"] = f"Schedule {changed.id} {operations.ACTIONS[action]} successfully"
    if action != "delete":
        view |= brief_view(changed.schedule, call.zone)
    elif is_stored(changed.schedule.definition) and changed.schedule.progress.state in OVER:
        view["note"] = f"It was {status_of(changed.schedule.progress)} before."  # too late to prevent anything
    view |= changed._replace(followers=None, declared=None).facts() | warn_of_end(changed.followers, changed.declared)
    if (owner := changed.schedule.definition.owner) != call.caller.owner:
        view["owner"] = owner  # an operator's change
    return Reply({"success": True, "schedule_id": changed.id, **view})


def _refusals(answer_refusal: Callable[[Arguments, DuetimeError], Reply]) -> Callable[[AnswerTool], AnswerTool]:
    """Return a decorator that answers errors with this function."""

    def decorate(answer: AnswerTool) -> AnswerTool:
        @wraps(answer)
        def answer_errors(call: Call, arguments: Arguments) -> Reply:
            try:
                return answer(call, arguments)
            except DuetimeError as error:
                return answer_refusal(arguments, error)

        return answer_errors

    return decorate


def _refusal(action: str, arguments: Arguments, err: DuetimeError) -> Reply:
    id = str(arguments["schedule_id"])
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


def _declare_change(
    title: str, input: Mapping[str, Schema], output: Mapping[str, Schema], **hints: Any
) -> Callable[[AnswerTool], AnswerTool]:
    """Declare a tool that changes one schedule; its title is also what it does."""
    always: dict[str, Schema] = {"success": FLAG, "schedule_id": TEXT}
    return tools.declare(
        title,
        {"schedule_id": SCHEDULE_ID, **input},
        {**always, "confirmation": TEXT, **output, "error": ERROR, **LOOKUP},
        ("schedule_id",),
        always=tuple(always),
        refusals=_refusals(partial(_refusal, title.lower())),
        idempotent=True,
        **hints,
    )


@_declare_change(
    "Pause",
    {**inputs_of(operations.Pause, "schedule"), "timezone": ZONE},
    {"paused": FLAG, "falls_into_pause": TEXT, **BRIEF},
)
def pause_schedule(call: Call, arguments: Arguments) -> Reply:
    """Stop a schedule of any kind until resume_schedule or until a time. Recurring times in the pause are skipped; a
    one-off fires at its end."""
    return _change(operations.Pause, call, arguments)


@_declare_change("Resume", {"timezone": ZONE}, {"paused": FLAG, "limits": LIMITS_IN_FORCE, **BRIEF})
def resume_schedule(call: Call, arguments: Arguments) -> Reply:
    """Let a paused schedule fire again, from its next time on; a one-off that it held back fires at once."""
    return _change(operations.Resume, call, arguments)


@_declare_change("Delete", {"schedule_id": DELETED_ID}, {"note": BRIEF["note"], **FOLLOWERS}, destructive=True)
def delete_schedule(call: Call, arguments: Arguments) -> Reply:
    """Delete a scheduled notification by its ID.

    Permanently removes a cron schedule. The schedule will stop firing and cannot be recovered. Use the schedule_id
    returned from schedule_cron_notification.

    It takes every kind, finished ones too. The history stays; change_schedules restores it for a day. Ask the user if
    in doubt. To stop for a while use pause_schedule.
    """
    return _change(operations.Delete, call, arguments)


@tools.declare(
    "Hook",
    inputs_of(CreateHook, "secret"),
    {"url": TEXT, "secret_page": TEXT, "notes": TEXTS, "error": ERROR},
    ("name", "scheme"),
)
def create_hook(call: Call, arguments: Arguments) -> Reply:
    """Address where a service reports events: on NAME.TYPE. The user gets its secret at secret_page."""
    hook, _, notes = hooks.create_hook(call, request_of(CreateHook, arguments, has_secret=False))
    page = f"{hooks.address(call)}/settings/hooks/{hook['id']}"
    return Reply({"url": hook["url"], "secret_page": page, "notes": list(notes)})


def _refusal_of_many(_arguments: Arguments, err: DuetimeError) -> Reply:
    known = err.code not in STORE_ERRORS
    return Reply({"error": without_secrets(err.message) if known else "the store cannot be reached right now"})


@tools.declare(
    "Change many",
    {**inputs_of(ChangeMany), "kind": KIND, "timezone": ZONE},
    {
        "action": TEXT,
        "dry_run": FLAG,
        "matched": COUNT,
        "changed": COUNT,
        "failed": ROWS,
        "schedules": ROWS,
        "more": {**FLAG, "description": "Not all rows are shown."},
        "error": ERROR,
    },
    ("action",),
    refusals=_refusals(_refusal_of_many),
    destructive=True,
)
def change_schedules(call: Call, arguments: Arguments) -> Reply:
    """Pause, resume, end, restore or shift many schedules: those in ids, those that match the filters, or all. Try
    dry_run first and show the user what matches."""
    changed = change_many(call, request_of(ChangeMany, arguments)).value
    answer = {"action": arguments["action"], **changed.facts(_SHOWN)}
    return Reply({**answer, "more": True} if len(changed.matched) > _SHOWN else answer)
