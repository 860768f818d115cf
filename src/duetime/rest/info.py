"""Routes that preview a trigger, list what fires next across all kinds, and tell of workers and the caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Query
from starlette.responses import JSONResponse, Response

from duetime.rest.dependencies import Caller, Context, json_only, operators_only, problems, router
from duetime.rest.requests import Asked, PreviewGiven, UpcomingAsked, config_of, owner_of, time_of, zone_of
from duetime.rest.responses import CallerShape, UpcomingShape, WorkersShape
from duetime.service.errors import unwrap
from duetime.service.presenters import preview_view, worker_shape
from duetime.service.shapes import PreviewShape

times, standing = router("times"), router("standing")


@times.post("/preview", response_model=PreviewShape, dependencies=[Depends(json_only)], responses=problems(415))
def preview(call: Caller, body: Annotated[PreviewGiven, Body()]) -> Response:
    """A trigger in plain English, its next instants and what may surprise. Nothing is made."""
    zone = zone_of(call, body.timezone)
    shown = unwrap(
        call.scheduler.preview(body.trigger.type, config_of(body.trigger), timezone=zone, count=body.count),
    )
    return JSONResponse(preview_view(shown.english, shown.instants, shown.warnings, zone))


@times.get("/upcoming", response_model=UpcomingShape)
def upcoming(call: Caller, asked: Annotated[UpcomingAsked, Query()]) -> Response:
    """What fires next, in time order; of a schedule that repeats, at most its next three times."""
    zone = zone_of(call, asked.timezone)
    until = time_of(asked.until, "until", zone, call.scheduler.clock.now(), last=True)
    found = call.services.upcoming(call.caller, until, asked.count, zone, owner=owner_of(call, asked.owner))
    answer = {"upcoming": found.rows, "count": len(found.rows), "timezone": zone}
    return JSONResponse({**answer, "warnings": found.warnings} if found.warnings else answer)


@standing.get("/workers", response_model=WorkersShape)
def workers(call: Caller, context: Context, asked: Annotated[Asked, Query()]) -> Response:
    """The processes that carry out what is due. For operators."""
    operators_only(context, call)
    zone, now = zone_of(call, asked.timezone), call.scheduler.clock.now()
    return JSONResponse({"workers": [worker_shape(each, now, zone) for each in call.scheduler.workers()]})


@standing.get("/whoami", response_model=CallerShape)
def whoami(call: Caller) -> Response:
    """On whose behalf this caller acts."""
    caller = call.caller
    told = {"owner": caller.owner, "operator": caller.operator, "timezone": call.zone, "depth": caller.depth}
    return JSONResponse(told)
