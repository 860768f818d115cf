"""Routes for runs, dead letters and the inbox of delivered notifications."""

from __future__ import annotations

from contextlib import nullcontext
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.errors import NotFound
from duetime.rest.dependencies import Caller, Threads, page_of, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import Asked, Given, GivenInZone, Paged
from duetime.rest.responses import AttentionShape, DealtShape, MarksShape, RunsShape
from duetime.service import answers
from duetime.service.operations import dead_letters, history
from duetime.service.operations.attention import ListAttention, MarkRuns, attention, mark_runs
from duetime.service.operations.change_runs import ChangeRuns, change_runs
from duetime.service.operations.dead_letters import Action, ChangeDeadLetters, Dealt, Dismiss, ListDeadLetters
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import History, ShowRun, run_details, run_views, show_run
from duetime.service.operations.logs import ReadLog, is_news, log_view, read_log
from duetime.service.operations.run import RetryRun, RunAgain, Stop, run_again, stop
from duetime.service.operations.run import retry as retry_run
from duetime.service.operations.waiting import await_result
from duetime.service.services import Call
from duetime.service.vocabulary import Page, Run
from duetime.service.warnings import warning_facts

AgainGiven: Any = model_of("AgainGiven", RunAgain, Given, "run_id")
RunsAsked: Any = model_of("RunsAsked", History, Paged, "limit", "cursor")
LogAsked: Any = model_of("LogAsked", ReadLog, Asked, "run_id")
StopAsked: Any = model_of("StopAsked", Stop, Asked, "schedule", "run_id")
ChangedGiven: Any = model_of("ChangedGiven", ChangeRuns, GivenInZone, "owner", "limit", "cursor")
DeadAsked: Any = model_of("DeadAsked", ListDeadLetters, Paged, "limit", "cursor")
DeadGiven: Any = model_of("DeadGiven", ChangeDeadLetters, Given, "owner", "dismissed", "limit", "cursor")
AttentionAsked: Any = model_of("AttentionAsked", ListAttention, Asked)
MarkedGiven: Any = model_of("MarkedGiven", MarkRuns, Given, "mark")
routes = router("runs")
Verb = Literal["resolve", "reopen", "dismiss", "restore"]
Id = Annotated[int, Path(description="The number of a run.", ge=1, le=2**63 - 1)]
_DEAD: list[str | Enum] = ["dead letters"]
_ATTENTION: list[str | Enum] = ["attention"]


def answer_run(call: Call, run: Run) -> Response:
    return JSONResponse(run_views(call, [run])[0])


def started_shape(call: Call, started: Answer[Run]) -> dict[str, Any]:
    """Return a run that was started, with the reasons why it might not begin."""
    [shape] = run_views(call, [started.value])
    notes = {"notes": list(started.notes)} if started.notes else {}
    return shape | (warning_facts(started.warnings) if started.warnings else {}) | notes


@routes.get("/runs", response_model=RunsShape, responses=problems(409))
def search(call: Caller, query: Annotated[RunsAsked, Query()]) -> Response:
    """List runs, latest first, page by page; none of a schedule that does not exist."""
    call, request = call.in_zone(query.timezone), request_of(History, query)
    try:
        answer, facts = history.history_with_facts(call, request)
        return answer_runs(call, answer, **facts)
    except NotFound:
        return answer_runs(call, Answer(Page([], None, 0)))


def answer_runs(call: Call, answer: Answer[Page[Run]], **more: Any) -> Response:
    """Return a page of runs."""
    notes = {"notes": list(answer.notes)} if answer.notes else {}
    return page_of("runs", run_views(call, answer.value.items, brief=True), answer.value, **notes, **more)


@routes.get("/runs/{id}", response_model=answers.RunDetails, responses=problems(404))
def get(call: Caller, id: Id, query: Annotated[Asked, Query()]) -> Response:
    """Return one run with its input, its earlier attempts and the traceback of an exception."""
    call = call.in_zone(query.timezone)
    return JSONResponse(run_details(call, show_run(call, ShowRun(run=id)).value))


@routes.get("/runs/{id}/log", response_model=answers.RunLog, responses=problems(404))
async def log(call: Caller, id: Id, threads: Threads, query: Annotated[LogAsked, Query()]) -> Response:
    """Return what a run has written. To follow it, repeat this with `after` and `wait_seconds` until it has `ended`."""
    call, owner = call.in_zone(query.timezone), call.caller.owner
    request = request_of(ReadLog, query, run=id)
    read = partial(threads.run, owner, partial(read_log, call, request))
    with threads.waiting(owner) if request.wait_seconds else nullcontext():
        answer = await await_result(await read(), lambda _: read(), is_news, request.wait_seconds)
    return JSONResponse(log_view(call, answer.value))


@routes.post("/runs/{id}/retry", status_code=202, response_model=answers.Run, responses=problems(404, 409))
def retry(call: Caller, id: Id) -> Response:
    """Retry a run that failed, was lost or was cancelled. It keeps its id."""
    return JSONResponse(started_shape(call, retry_run(call, RetryRun(run=id))), 202)


@routes.post(
    "/runs/{id}/again",
    status_code=202,
    response_model=answers.Run,
    responses=problems(404, 409, 415),
)
def again(call: Caller, id: Id, body: Annotated[AgainGiven, Body()]) -> Response:
    """Start a new run of the same schedule now, with this run's input or an edited one. The schedule keeps its own."""
    return JSONResponse(started_shape(call, run_again(call, request_of(RunAgain, body, run=id))), 202)


@routes.post("/runs/{id}/cancel", status_code=202, response_model=answers.Run, responses=problems(404, 409))
def cancel(call: Caller, id: Id, query: Annotated[StopAsked, Query()]) -> Response:
    """Stop one run: it is cancelled if it has not started, and asked to stop if it has. With `after`, it is asked only
    once it has run that long."""
    stopped, _, notes = stop(call.in_zone(query.timezone), request_of(Stop, query, run=id))
    return JSONResponse(started_shape(call, Answer(stopped.runs[0], (), notes)), 202)


@routes.post("/runs/change", response_model=DealtShape, responses=problems(403, 404, 415))
def change_many(call: Caller, body: Annotated[ChangedGiven, Body()]) -> Response:
    """Retry, stop or resolve many of the caller's runs: those with these numbers, or all that match. `dry_run` names
    them only."""
    call = call.in_zone(body.timezone)
    answer = change_runs(call, request_of(ChangeRuns, body, owner=call.caller.owner))
    return _dealt(answer, **({"notes": list(answer.notes)} if answer.notes else {}))


# -- dead letters --------------------------------------------------------------------------------------------------


@routes.get("/dead", response_model=RunsShape, tags=_DEAD)
def dead(call: Caller, query: Annotated[DeadAsked, Query()]) -> Response:
    """List runs of every kind that failed for good or were lost, and were not dismissed; or those that were."""
    call = call.in_zone(query.timezone)
    return answer_runs(call, dead_letters.dead_letters(call, request_of(ListDeadLetters, query)))


@routes.post("/dead/{verb}", response_model=DealtShape, responses=problems(404, 415), tags=_DEAD)
def change_dead(call: Caller, verb: Action, body: Annotated[DeadGiven, Body()]) -> Response:
    """Retry many, each under its own id, those of a schedule one after the other in the order they were due; resolve
    many; or reopen what was resolved. `dismiss` and `restore` are the former names. They are the caller's own: an
    operator reaches those of others by their ids."""
    request = request_of(ChangeDeadLetters, body, action=verb, owner=call.caller.owner)
    return _dealt(dead_letters.change_dead(call, request))


def _dealt(answer: Answer[Dealt], **more: Any) -> Response:
    dealt, warnings, _ = answer
    errors = [{"run_id": id, "code": err.code, "message": err.message} for id, err in dealt.refused]
    return JSONResponse({"runs": dealt.done, "refused": errors, **warning_facts(warnings), **more})


@routes.post("/dead/{id}/retry", status_code=202, response_model=answers.Run, responses=problems(404, 409), tags=_DEAD)
def retry_dead(call: Caller, id: Id) -> Response:
    """Retry a dead letter. Other runs are not found here."""
    return JSONResponse(started_shape(call, retry_run(call, RetryRun(run=id, only_dead=True))), 202)


@routes.post("/dead/{id}/{verb}", response_model=answers.Run, responses=problems(404, 409), tags=_DEAD)
def mark_dead(call: Caller, id: Id, verb: Verb) -> Response:
    """Resolve a dead letter, or a run that was missed; or reopen it. It stays in the history and can still be retried.
    `dismiss` and `restore` are the former names."""
    undo = verb in ("reopen", "restore")
    return answer_run(call, dead_letters.dismiss(call, Dismiss(run=id, only_dead=True, undo=undo)).value)


# -- what needs attention ------------------------------------------------------------------------------------------


@routes.get("/attention", response_model=AttentionShape, tags=_ATTENTION)
def needs_attention(call: Caller, query: Annotated[AttentionAsked, Query()]) -> Response:
    """List what needs attention: incidents, dead letters, missed runs and what waits for somebody, latest first."""
    call = call.in_zone(query.timezone)
    rows = attention(call, request_of(ListAttention, query)).value
    return JSONResponse({"attention": rows.items, "more": bool(rows.cut)})


@routes.post("/attention/{mark}", response_model=MarksShape, responses=problems(404, 415), tags=_ATTENTION)
def mark_attention(call: Caller, mark: Literal["resolve", "reopen"], body: Annotated[MarkedGiven, Body()]) -> Response:
    """Resolve incidents, runs and messages that are dealt with, or reopen them. What is resolved causes no reminder."""
    marked, _, notes = mark_runs(call, request_of(MarkRuns, body, mark=mark))
    return JSONResponse({"marked": marked, "notes": list(notes)})
