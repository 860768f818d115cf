"""Routes for runs, dead letters and the inbox of delivered notifications."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.model import DISMISSABLE, Run, RunStatus, ScheduleId
from duetime.engine.result import Err
from duetime.engine.store import RunQuery
from duetime.rest.dependencies import Caller, json_only, page_of, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import Asked, DeadAsked, DeadGiven, Given, RunsAsked, owner_of, zone_of
from duetime.rest.responses import DealtShape, RunsShape
from duetime.service import answers
from duetime.service.dead_letters import Action, DeadLetterQuery, change_dead
from duetime.service.errors import refuse, unwrap
from duetime.service.history import run_details
from duetime.service.kind_spec import check_kind
from duetime.service.lookup import find_schedule
from duetime.service.operations.declaration import Answer, read_time
from duetime.service.operations.run import Retry, RunAgain, Stop, run_again, stop
from duetime.service.operations.run import retry as retry_run
from duetime.service.presenters import run_shapes
from duetime.service.services import Call
from duetime.service.warnings import warning_facts

AgainGiven: Any = model_of("AgainGiven", RunAgain, Given, "run_id")
routes = router("runs")
Id = Annotated[int, Path(description="The number of a run.", ge=1, le=2**63 - 1)]
_NOWHERE = ScheduleId(0)
_DEAD: list[str | Enum] = ["dead letters"]
_JSON = [Depends(json_only)]


def found_run(call: Call, run_id: int) -> Run:
    run = call.scheduler.run(call.caller, run_id)
    if run is None:
        raise refuse("not_found", "there is no such run")
    return run


def answer_run(call: Call, run: Run, status: int = 200) -> Response:
    [shape] = run_shapes(call.scheduler, [run], call.zone)
    return JSONResponse(shape, status)


def started_shape(call: Call, started: Answer[Run]) -> dict[str, Any]:
    """Return a run that was started, with the reasons why it might not begin."""
    [shape] = run_shapes(call.scheduler, [started.value], call.zone)
    notes = {"notes": list(started.notes)} if started.notes else {}
    return shape | (warning_facts(started.warnings) if started.warnings else {}) | notes


@routes.get("/runs", response_model=RunsShape)
def search(call: Caller, asked: Annotated[RunsAsked, Query()]) -> Response:
    """List runs, latest first, page by page."""
    check_kind(asked.kind)
    call = call.in_zone(asked.timezone)
    query = RunQuery(
        owner=owner_of(call, asked.owner),
        kind=asked.kind,
        status=asked.status,
        schedule=_schedule(call, asked.schedule),
        due_from=read_time(call, asked.from_, "from", past=True),
        due_to=read_time(call, asked.to, "to", last=True, past=True),
        limit=asked.limit,
        cursor=asked.cursor,
    )
    return _page(call, query, call.zone)


def _schedule(call: Call, public_id: str | None) -> ScheduleId | None:
    """Return the internal number. A missing schedule, or one of another owner, gets a number that has no runs."""
    if public_id is None:
        return None
    found = find_schedule(call.scheduler, call.caller, public_id, deleted=True)
    return _NOWHERE if isinstance(found, Err) and found.code == "not_found" else unwrap(found).definition.id


def _page(call: Call, query: RunQuery, zone: str) -> Response:
    page = unwrap(call.scheduler.runs(call.caller, query))
    return page_of("runs", run_shapes(call.scheduler, page.items, zone, brief=True), page)


@routes.get("/runs/{id}", response_model=answers.RunDetails, responses=problems(404))
def get(call: Caller, id: Id, asked: Annotated[Asked, Query()]) -> Response:
    """Return one run with its input, its earlier attempts and the traceback of an exception."""
    zone = zone_of(call, asked.timezone)
    run = found_run(call, id)
    return JSONResponse(run_details(call.scheduler, call.caller, run, zone))


@routes.post("/runs/{id}/retry", status_code=202, response_model=answers.Run, responses=problems(404, 409))
def retry(call: Caller, id: Id) -> Response:
    """Retry a run that failed, was lost or was cancelled. It keeps its id."""
    return JSONResponse(started_shape(call, retry_run(call, Retry(run=id))), 202)


@routes.post(
    "/runs/{id}/again",
    status_code=202,
    response_model=answers.Run,
    responses=problems(404, 409, 415),
    dependencies=_JSON,
)
def again(call: Caller, id: Id, body: Annotated[AgainGiven, Body()]) -> Response:
    """Start a new run of the same schedule now, with this run's input or an edited one. The schedule keeps its own."""
    return JSONResponse(started_shape(call, run_again(call, request_of(RunAgain, body, run=id))), 202)


@routes.post("/runs/{id}/cancel", status_code=202, response_model=answers.Run, responses=problems(404, 409))
def cancel(call: Caller, id: Id) -> Response:
    """Stop one run: it is cancelled if it has not started, and asked to stop if it has."""
    return answer_run(call, stop(call, Stop(run=id)).value.runs[0], 202)


# -- dead letters --------------------------------------------------------------------------------------------------


@routes.get("/dead", response_model=RunsShape, tags=_DEAD)
def dead(call: Caller, asked: Annotated[DeadAsked, Query()]) -> Response:
    """List runs of every kind that failed for good or were lost, and were not dismissed; or those that were."""
    check_kind(asked.kind)
    wanted = DeadLetterQuery(
        owner=owner_of(call, asked.owner), kind=asked.kind, text=asked.text or "", dismissed=asked.dismissed
    )
    return _page(call, wanted.runs(asked.limit, asked.cursor), zone_of(call, asked.timezone))


@routes.post("/dead/retry", response_model=DealtShape, dependencies=_JSON, responses=problems(404, 415), tags=_DEAD)
def retry_many(call: Caller, body: Annotated[DeadGiven, Body()]) -> Response:
    """Retry many: each under its own id, those of a schedule one after the other in the order they were due."""
    return _change_dead(call, body, "retry")


@routes.post("/dead/dismiss", response_model=DealtShape, dependencies=_JSON, responses=problems(404, 415), tags=_DEAD)
def dismiss_many(call: Caller, body: Annotated[DeadGiven, Body()]) -> Response:
    """Dismiss many. They stay in the history and can still be retried or restored."""
    return _change_dead(call, body, "dismiss")


@routes.post("/dead/restore", response_model=DealtShape, dependencies=_JSON, responses=problems(404, 415), tags=_DEAD)
def restore_many(call: Caller, body: Annotated[DeadGiven, Body()]) -> Response:
    """Put many that were dismissed back on the list."""
    return _change_dead(call, body, "restore")


def _change_dead(call: Call, body: DeadGiven, action: Action) -> Response:
    """Change the caller's own dead letters. An operator reaches those of others by their ids."""
    asked = DeadLetterQuery(owner=call.caller.owner, **body.model_dump())
    dealt = unwrap(change_dead(call.services, call.caller, asked, action))
    errors = [{"run_id": id, "code": err.code, "message": err.message} for id, err in dealt.refused]
    return JSONResponse({"runs": dealt.done, "refused": errors})


@routes.post("/dead/{id}/retry", status_code=202, response_model=answers.Run, responses=problems(404, 409), tags=_DEAD)
def retry_dead(call: Caller, id: Id) -> Response:
    """Retry a dead letter. Other runs are not found here."""
    _dead_letter(call, id)
    return JSONResponse(started_shape(call, retry_run(call, Retry(run=id))), 202)


@routes.post("/dead/{id}/dismiss", response_model=answers.Run, responses=problems(404, 409), tags=_DEAD)
def dismiss_dead(call: Caller, id: Id) -> Response:
    """Dismiss a dead letter, or a run that was missed. It stays in the history and can still be retried or restored."""
    _dead_letter(call, id, DISMISSABLE)
    return answer_run(call, unwrap(call.scheduler.dismiss(call.caller, id)))


@routes.post("/dead/{id}/restore", response_model=answers.Run, responses=problems(404, 409), tags=_DEAD)
def restore_dead(call: Caller, id: Id) -> Response:
    """Put a dead letter that was dismissed back on the list."""
    _dead_letter(call, id, DISMISSABLE)
    return answer_run(call, unwrap(call.scheduler.dismiss(call.caller, id, undo=True)))


def _dead_letter(call: Call, id: int, statuses: Collection[str] = (RunStatus.FAILED, RunStatus.LOST)) -> None:
    run = found_run(call, id)
    if run.status not in statuses:
        raise refuse("not_found", "there is no such run among those that failed")
