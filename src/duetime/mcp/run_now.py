"""The tool `run_now`: runs any schedule in addition to its trigger, and waits for the outcome if asked to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from duetime.engine.errors import DuetimeError
from duetime.engine.model import Run
from duetime.engine.result import Err, Result
from duetime.mcp.definitions import Arguments, Reply, Tool, error_result, errors_as_results, number, tool
from duetime.mcp.history import row_of
from duetime.mcp.schemas import ERROR, WARNINGS, ZONE, with_warnings, zone_of
from duetime.mcp.served import ID, Served, find, one_of, served_run, tool_id
from duetime.service import MOST_SECONDS
from duetime.service.history import outcome_of
from duetime.service.kind_spec import ScheduleWarning
from duetime.service.masking import masked
from duetime.service.presenters import View
from duetime.service.run_now import has_ended, kept_elsewhere, look_again, run_again, run_edited, why_it_waits
from duetime.service.services import Call


def run_now_tool(served: Served) -> Tool:
    def run_now(call: Call, given: Arguments) -> Reply:
        """Run a schedule of any kind once, now, besides its own times; or try a failed run again. With wait_seconds the
        answer has the outcome; else history shows it."""
        zone = zone_of(call, given)
        started = _started(served, call, given)
        if isinstance(started, Err):
            return error_result(started)
        run = started.value
        ids = call.scheduler.store.public_ids([run.schedule])
        view = {
            "id": tool_id(ids[run.schedule]),
            "run_id": run.id,
            "kind": run.kind,
            "name": masked(run.name),
            "status": run.status,
        }
        return _unfinished(call, run, zone, view, call.services.worker_warnings(run.kind))

    return tool(
        errors_as_results(run_now),
        "Run now",
        {
            "schedule_id": ID,
            "run_id": number("Or a failed run, to try it again."),
            "fields": {"type": "object", "description": "Inputs changed for a new run: {prompt: ...}."},
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MOST_SECONDS,
                "description": "Wait for the outcome; default 0.",
            },
            "timezone": ZONE,
        },
        {
            "run": {"type": "object"},
            "ended": {"type": "boolean"},
            "note": {"type": "string"},
            **WARNINGS,
            "error": ERROR,
        },
        wait_argument="wait_seconds",
    )


def _started(served: Served, call: Call, given: Arguments) -> Result[Run]:
    fields = given.get("fields")
    if one_of(given, "schedule_id", "run_id") == "run_id":
        failed = served_run(call, given["run_id"], served)
        if isinstance(failed, Err):
            return failed
        if fields:
            return run_again(call.services, call.caller, failed.value.id, fields=fields)
        return call.scheduler.retry(call.caller, failed.value.id)
    found = find(call, given["schedule_id"], served)
    if isinstance(found, Err):
        return kept_elsewhere(call.services, call.caller, given["schedule_id"]) or found
    if fields:
        return run_edited(call.services, call.caller, found.value, None, fields)
    return call.scheduler.run_now(call.caller, found.value.definition.public_id)


def _unfinished(call: Call, run: Run, zone: str, view: View, warnings: Sequence[ScheduleWarning]) -> Reply:
    note = f"It has not ended yet; history with run_id {run.id} shows what comes of it."
    with suppress(DuetimeError):  # the run was started, whether or not the store can be reached just now
        note = " ".join(filter(None, (why_it_waits(call.scheduler, run), note)))
    answer = with_warnings({"run": view, "ended": False, "note": note}, warnings)
    return Reply(answer, later=partial(_look, call, run, zone, view, warnings))


def _look(call: Call, run: Run, zone: str, view: View, warnings: Sequence[ScheduleWarning]) -> Reply:
    """Return the answer as of now."""
    try:
        seen = look_again(call.scheduler, run)
        if has_ended(seen):
            return Reply({"run": row_of(call, outcome_of(call.scheduler, seen, zone)), "ended": True})
    except DuetimeError:
        return _unfinished(call, run, zone, view, warnings)
    return _unfinished(call, seen, zone, {**view, "status": seen.status}, warnings)
