"""Routes that preview a trigger and list what fires next across all kinds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Query
from starlette.responses import JSONResponse, Response

from duetime.engine.clock import Instant
from duetime.kinds.notifications.remote import Elsewhere, coming_elsewhere
from duetime.mcp.tool import Call
from duetime.rest.dependencies import Caller, json_only, problems, router
from duetime.rest.errors import taken
from duetime.rest.requests import PreviewGiven, UpcomingAsked, config_of, owner_of, time_of, zone_of
from duetime.rest.responses import PreviewShape, UpcomingShape
from duetime.service.presenters import coming, coming_shape, preview_view

routes = router("times")


@routes.post("/preview", response_model=PreviewShape, dependencies=[Depends(json_only)], responses=problems(415))
def preview(call: Caller, body: Annotated[PreviewGiven, Body()]) -> Response:
    """A trigger in plain English, its next instants and what may surprise. Nothing is made."""
    zone = zone_of(call, body.timezone)
    shown = taken(
        call.scheduler.preview(body.trigger.type, config_of(body.trigger), timezone=zone, count=body.count),
    )
    return JSONResponse(preview_view(shown.english, shown.instants, shown.warnings, zone))


@routes.get("/upcoming", response_model=UpcomingShape)
def upcoming(call: Caller, asked: Annotated[UpcomingAsked, Query()]) -> Response:
    """What fires next, in time order; of a schedule that repeats, at most its next three times."""
    zone = zone_of(call, asked.timezone)
    until = time_of(asked.until, "until", zone, call.scheduler.clock.now(), last=True)
    found = coming(call.scheduler, call.caller, until, asked.count, owner_of(call, asked.owner))
    rows = [(at, {**coming_shape(at, schedule, zone), "owner": schedule.definition.owner}) for at, schedule in found]
    there = _elsewhere(call, asked, until, zone)
    rows += [(at, {**row, "owner": call.caller.owner}) for at, row in there.rows]
    first = [row for _, row in sorted(rows, key=lambda pair: pair[0])[: asked.count]]
    answer = {"upcoming": first, "count": len(first), "timezone": zone}
    return JSONResponse({**answer, "warnings": there.warnings} if there.warnings else answer)


def _elsewhere(call: Call, asked: UpcomingAsked, until: Instant | None, zone: str) -> Elsewhere:
    """Return notifications kept by a remote service, only for the caller's own: such a service lists one owner's."""
    if asked.owner not in (None, call.caller.owner):
        return Elsewhere([], [])
    return coming_elsewhere(call.desk.notifications, call.caller, until, asked.count, zone)
