"""Routes for workers and the caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import JSONResponse, Response

from duetime.rest.dependencies import Caller, Context, operators_only, router
from duetime.rest.requests import Asked, zone_of
from duetime.rest.responses import CallerShape, WorkersShape
from duetime.service.presenters import worker_shape

routes = router("standing")


@routes.get("/workers", response_model=WorkersShape)
def workers(call: Caller, context: Context, asked: Annotated[Asked, Query()]) -> Response:
    """The processes that carry out what is due. For operators."""
    operators_only(context, call)
    zone, now = zone_of(call, asked.timezone), call.scheduler.clock.now()
    return JSONResponse({"workers": [worker_shape(each, now, zone) for each in call.scheduler.workers()]})


@routes.get("/whoami", response_model=CallerShape)
def whoami(call: Caller) -> Response:
    """On whose behalf this caller acts."""
    caller = call.caller
    told = {"owner": caller.owner, "operator": caller.operator, "timezone": call.zone, "depth": caller.depth}
    return JSONResponse(told)
