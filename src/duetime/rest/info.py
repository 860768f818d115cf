"""Routes that preview a trigger, list what fires next across all kinds, and describe workers, the status and the
caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.result import Err
from duetime.rest.dependencies import Caller, Context, json_only, operators_only, problems, router
from duetime.rest.requests import Asked, PreviewGiven, UpcomingAsked, owner_of, when_of, zone_of
from duetime.rest.responses import CallerShape, StatusShape, UpcomingShape, WorkersShape
from duetime.service import answers
from duetime.service.errors import unwrap
from duetime.service.kind_spec import Window, check_kind
from duetime.service.operations.declaration import read_time
from duetime.service.presenters import preview_view, worker_shape
from duetime.service.status import status as read_status
from duetime.service.upcoming import upcoming as coming
from duetime.service.when import about_when

times, standing = router("times"), router("standing")


@times.post("/preview", response_model=answers.Preview, dependencies=[Depends(json_only)], responses=problems(415))
def preview(call: Caller, body: Annotated[PreviewGiven, Body()]) -> Response:
    """Explain a trigger in plain English, with its next times and anything unexpected. Nothing is created."""
    zone = zone_of(call, body.timezone)
    when = when_of(body.trigger, body.when)
    result = call.scheduler.preview(when.type, when.config, timezone=zone, count=body.count)
    shown = unwrap(about_when(result, body.when) if isinstance(result, Err) else result)
    warnings = [*when.notes(zone, call.scheduler.clock.now()), *shown.warnings]
    return JSONResponse(preview_view(shown.english, shown.instants, warnings, zone))


@times.get("/upcoming", response_model=UpcomingShape)
def upcoming(call: Caller, asked: Annotated[UpcomingAsked, Query()]) -> Response:
    """List what fires next, in time order: every time within the range, up to the count."""
    check_kind(asked.kind)
    call = call.in_zone(asked.timezone)
    zone, now = call.zone, call.scheduler.clock.now()
    span = read_time(call, asked.from_, "from"), read_time(call, asked.until, "until", last=True)
    kinds, owner = None if asked.kind is None else (asked.kind,), owner_of(call, asked.owner)
    window = Window(now, asked.count, *span, kinds, asked.topic, asked.include_paused, owner)
    found = coming(call.services, call.caller, window, zone)
    answer = {"upcoming": found.rows, "count": len(found.rows), "more": found.more, "timezone": zone}
    further = {"later": found.later, "warnings": found.warnings}
    return JSONResponse(answer | {name: value for name, value in further.items() if value})


@standing.get("/workers", response_model=WorkersShape)
def workers(call: Caller, context: Context, asked: Annotated[Asked, Query()]) -> Response:
    """List the workers. For operators."""
    operators_only(context, call)
    zone, now = zone_of(call, asked.timezone), call.scheduler.clock.now()
    return JSONResponse({"workers": [worker_shape(each, now, zone) for each in call.scheduler.workers()]})


@standing.get("/status", response_model=StatusShape)
def status(call: Caller, asked: Annotated[Asked, Query()]) -> Response:
    """Return what is set up, whether it works, usage and failures. Only the operator and the local owner see the names
    of machines."""
    return JSONResponse(read_status(call.in_zone(asked.timezone)))


@standing.get("/whoami", response_model=CallerShape)
def whoami(call: Caller) -> Response:
    """Return the owner on whose behalf this caller acts."""
    caller = call.caller
    told = {"owner": caller.owner, "operator": caller.operator, "timezone": call.zone, "depth": caller.depth}
    return JSONResponse(told)
