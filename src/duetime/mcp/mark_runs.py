"""The tool `mark_runs`: messages that were read, and messages and failed runs that need no more attention."""

from __future__ import annotations

from duetime.engine.model import Run, RunStatus
from duetime.engine.result import Err
from duetime.mcp.definitions import Arguments, Reply, Tool, ToolProblem, error_result, errors_as_results, text, tool
from duetime.mcp.schemas import ERROR
from duetime.mcp.served import Served, served_run
from duetime.service.dead_letters import DeadLetterQuery, change_dead
from duetime.service.errors import Refused
from duetime.service.inbox import mark_messages
from duetime.service.services import Call

_MOST = 100
_MARKS = ("read", "dismiss", "restore")


def mark_runs_tool(served: Served) -> Tool:
    def mark_runs(call: Call, given: Arguments) -> Reply:
        """Mark messages as read, or dismiss messages and failed runs that are dealt with; history keeps them."""
        return _mark_runs(served, call, given)

    return tool(
        errors_as_results(mark_runs),
        "Mark runs",
        {
            "run_ids": {"type": "array", "maxItems": _MOST, "description": "Each run_id, as in history."},
            "mark": text("restore undoes dismiss.", enum=list(_MARKS)),
        },
        {
            "marked": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}, "description": "Why some were not marked."},
            "error": ERROR,
        },
        ("run_ids", "mark"),
        idempotent=True,
    )


def _mark_runs(served: Served, call: Call, given: Arguments) -> Reply:
    mark, messages, failed = given["mark"], list[int](), list[int]()
    for id in dict.fromkeys(given["run_ids"]):
        if not isinstance(id, int) or isinstance(id, bool):
            raise ToolProblem("run_ids: must be whole numbers, such as [12, 15].")
        found = served_run(call, id, served)
        if isinstance(found, Err):
            return error_result(found)
        (messages if _is_message(call, found.value) else failed).append(id)
    if mark == "read" and failed:
        raise ToolProblem(f"Run {failed[0]} is no message, so it cannot be marked as read; dismiss takes failed runs.")
    try:
        marked = mark_messages(call.services, call.caller, messages, mark) if messages else 0
    except Refused as refused:
        return error_result(refused.err)
    if not failed:
        return Reply({"marked": marked})
    changed = change_dead(call.services, call.caller, DeadLetterQuery(ids=failed), mark)
    if isinstance(changed, Err):
        return error_result(changed)
    notes = changed.value.reasons()
    return Reply({"marked": marked + len(changed.value.done)} | ({"notes": notes} if notes else {}))


def _is_message(call: Call, run: Run) -> bool:
    messenger = call.scheduler.store.messenger
    return messenger is not None and run.kind == messenger.kind and run.status == RunStatus.COMPLETED
