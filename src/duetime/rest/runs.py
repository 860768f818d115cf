"""Routes for runs, dead letters and the inbox of delivered notifications."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.kind import Caller as EngineCaller
from duetime.engine.model import Run, RunStatus, ScheduleId, run_holder
from duetime.engine.policy.checkout import not_yours
from duetime.engine.store import RunQuery
from duetime.kinds.prompts.mcp.inbox import await_handover, is_under_way
from duetime.rest.dependencies import ApiContext, Caller, Here, Threads, json_only, page_of, problems, router
from duetime.rest.errors import Refused, refuse, taken
from duetime.rest.requests import Asked, DeadAsked, FinishGiven, InboxAsked, RunsAsked, owner_of, time_of, zone_of
from duetime.rest.responses import InboxShape, RunShape, RunsShape, RunWithAttempts
from duetime.service.presenters import attempt_view, message_shape, run_shapes
from duetime.service.services import Call

routes = router("runs")
Id = Annotated[int, Path(description="The number of a run.", ge=1, le=2**63 - 1)]
_NOWHERE = ScheduleId(0)


def _found(call: Call, run_id: int) -> Run:
    run = call.scheduler.run(call.caller, run_id)
    if run is None:
        raise refuse("not_found", "there is no such run")
    return run


def _answer(call: Call, run: Run, status: int = 200) -> Response:
    [shape] = run_shapes(call.scheduler, [run], call.zone)
    return JSONResponse(shape, status)


@routes.get("/runs", response_model=RunsShape)
def search(call: Caller, asked: Annotated[RunsAsked, Query()]) -> Response:
    """Runs, the latest first, by pages."""
    zone, now = zone_of(call, asked.timezone), call.scheduler.clock.now()
    query = RunQuery(
        owner=owner_of(call, asked.owner),
        kind=asked.kind,
        status=asked.status,
        schedule=_schedule(call, asked.schedule),
        due_from=time_of(asked.from_, "from", zone, now),
        due_to=time_of(asked.to, "to", zone, now, last=True),
        limit=asked.limit,
        cursor=asked.cursor,
    )
    return _page(call, query, zone)


def _schedule(call: Call, public_id: str | None) -> ScheduleId | None:
    """Return the internal number. A missing schedule, or one of another owner, gets a number that has no runs."""
    if public_id is None:
        return None
    return call.scheduler.number_of(call.caller, public_id) or _NOWHERE


def _page(call: Call, query: RunQuery, zone: str) -> Response:
    page = taken(call.scheduler.runs(call.caller, query))
    return page_of("runs", run_shapes(call.scheduler, page.items, zone, brief=True), page)


@routes.get("/runs/{id}", response_model=RunWithAttempts, responses=problems(404))
def get(call: Caller, id: Id, asked: Annotated[Asked, Query()]) -> Response:
    """One run with its earlier attempts."""
    zone = zone_of(call, asked.timezone)
    run = _found(call, id)
    [shape] = run_shapes(call.scheduler, [run], zone)
    attempts = call.scheduler.attempts(call.caller, id)
    return JSONResponse({**shape, "attempts": [attempt_view(each, zone) for each in attempts]})


@routes.post("/runs/{id}/retry", status_code=202, response_model=RunShape, responses=problems(404, 409))
def retry(call: Caller, id: Id) -> Response:
    """The same run once more, with the same id. For what failed, was lost or was cancelled."""
    return _answer(call, taken(call.scheduler.retry(call.caller, id)), 202)


@routes.post("/runs/{id}/cancel", status_code=202, response_model=RunShape, responses=problems(404, 409))
def cancel(call: Caller, id: Id) -> Response:
    """This run alone: ended when it has not begun, asked to stop when it has."""
    taken(call.scheduler.cancel_run(call.caller, id))
    return _answer(call, _found(call, id), 202)


@routes.post(
    "/runs/{id}/finish", response_model=RunShape, dependencies=[Depends(json_only)], responses=problems(404, 409, 415)
)
async def finish(here: Here, call: Caller, threads: Threads, id: Id, body: Annotated[FinishGiven, Body()]) -> Response:
    """The answer of an agent that said it would come later: with the token of the run, for that run alone; or with one
    of its owner's, also for what was taken with it."""
    run_in_thread = partial(threads.run, call.caller.owner)
    await await_handover(partial(run_in_thread, partial(is_under_way, call, id)))
    return await run_in_thread(partial(_finished, here, call, id, body))


def _finished(here: ApiContext, call: Call, id: int, body: FinishGiven) -> Response:
    run = _found(call, id)
    if run.status != RunStatus.WAITING:
        raise refuse("not_possible", f"it is {run.status}, so it cannot be finished")
    return _answer(call, taken(here.finish(_in_hand(call.caller, run), run, body.reply())))


def _in_hand(caller: EngineCaller, run: Run) -> EngineCaller:
    """Return the caller as holder of the run, if it was handed to an agent. A run's own token (it has a depth) is
    refused for other runs."""
    handed = run_holder(run.id, run.fence)
    if caller.depth and caller.holder != handed:
        raise Refused(not_yours(run.id))
    return caller._replace(holder=handed) if run.holder == handed else caller


# -- dead letters --------------------------------------------------------------------------------------------------


@routes.get("/dead", response_model=RunsShape, tags=["dead letters"])
def dead(call: Caller, asked: Annotated[DeadAsked, Query()]) -> Response:
    """What failed for good or was lost, of every kind, and nobody has dismissed."""
    query = RunQuery(
        owner=owner_of(call, asked.owner),
        kind=asked.kind,
        status="dead",
        limit=asked.limit,
        cursor=asked.cursor,
    )
    return _page(call, query, zone_of(call, asked.timezone))


@routes.post(
    "/dead/{id}/retry",
    status_code=202,
    response_model=RunShape,
    responses=problems(404, 409),
    tags=["dead letters"],
)
def retry_dead(call: Caller, id: Id) -> Response:
    """Try it again. What is no dead letter is not found here."""
    _dead_letter(call, id)
    return _answer(call, taken(call.scheduler.retry(call.caller, id)), 202)


@routes.post("/dead/{id}/dismiss", response_model=RunShape, responses=problems(404, 409), tags=["dead letters"])
def dismiss_dead(call: Caller, id: Id) -> Response:
    """Nobody needs to look at it any more. It stays in the history; a retry takes this back."""
    _dead_letter(call, id)
    return _answer(call, taken(call.scheduler.dismiss(call.caller, id)))


def _dead_letter(call: Call, id: int) -> None:
    run = _found(call, id)
    if run.status not in (RunStatus.FAILED, RunStatus.LOST):
        raise refuse("not_found", "there is no such run among those that failed")


# -- inbox ----------------------------------------------------------------------------------------------------------


@routes.get("/inbox", response_model=InboxShape, tags=["inbox"])
def inbox(call: Caller, asked: Annotated[InboxAsked, Query()]) -> Response:
    """Notifications that arrived, the latest first, each with the channel that took it."""
    query = RunQuery(
        owner=owner_of(call, asked.owner),
        kind="notification",
        status="completed",
        subject=asked.topic,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    zone = zone_of(call, asked.timezone)
    page = taken(call.scheduler.runs(call.caller, query))
    ids = call.scheduler.store.public_ids([run.schedule for run in page.items])
    messages: list[dict[str, Any]] = [
        {"run_id": run.id, "schedule": ids.get(run.schedule), **message_shape(run, zone)} for run in page.items
    ]
    return page_of("messages", messages, page)
