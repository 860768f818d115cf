"""The resources `prompts://due`, the prompts that wait, and `prompts://runs/{run_id}`, one run and its result."""

from __future__ import annotations

from typing import Any

from duetime.engine.model import Run
from duetime.engine.result import Err
from duetime.engine.store import EVERY_ONE, Page, RunQuery
from duetime.kinds.prompts.mcp.results import run_of_prompt, whole_view
from duetime.kinds.prompts.mcp.text import KIND
from duetime.mcp.definitions import Resource
from duetime.service.presenters import instant_view
from duetime.service.services import Call

MOST = 100


def _waiting(call: Call) -> Page[Run]:
    now = call.scheduler.clock.now()
    query = RunQuery(kind=KIND, free_at=now, oldest_first=True, limit=MOST, count_to=EVERY_ONE)
    page = call.scheduler.runs(call.caller._replace(operator=False), query)
    return Page([], None, 0) if isinstance(page, Err) else page.value


def _read_due(call: Call, _: str) -> dict[str, Any]:
    page = _waiting(call)
    rows = [
        {"id": run.schedule, "run_id": run.id, "prompt": run.name, "due": instant_view(run.due, call.zone)}
        for run in page.items
    ]
    return {"due": rows, "total": page.total, "timezone": call.zone}


def _due_digest(call: Call, _: str) -> object:
    page = _waiting(call)
    return page.total, [(run.id, run.fence) for run in page.items]


def _run(call: Call, value: str) -> Run | None:
    return run_of_prompt(call, int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0)


def _read_run(call: Call, value: str) -> dict[str, Any] | None:
    run = _run(call, value)
    return None if run is None else whole_view(call, run, call.zone)


RESOURCES = [
    Resource(
        uri="prompts://due",
        title="Due prompts",
        description=(
            "The caller's prompts that are due and wait for an agent, oldest first, each with the beginning of its "
            "text: take one with take_prompt. Subscribe to hear when one becomes due, is taken or is given back."
        ),
        read=_read_due,
        digest=_due_digest,
    ),
    Resource(
        uri="prompts://runs/{run_id}",
        title="A run of a prompt",
        description=(
            "One run of a scheduled prompt: its prompt (null where it was edited since), when it was due, its status, "
            "the result or error that an agent gave with its tool calls, and earlier attempts. The tool prompt_result "
            "tells the most of it, and finds the run by its task. Read it before answering a reply to that result."
        ),
        read=_read_run,
        digest=_run,
    ),
]
