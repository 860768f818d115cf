"""Routes for tasks, workers, agents, channels and the caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import JSONResponse, Response

from duetime.kinds.jobs.kind import JobKind
from duetime.rest.dependencies import Caller, Here, operators_only, router
from duetime.rest.requests import Asked, zone_of
from duetime.rest.responses import AgentsShape, CallerShape, ChannelsShape, TasksShape, WorkersShape
from duetime.service.presenters import worker_shape

routes = router("standing")


@routes.get("/tasks", response_model=TasksShape)
def tasks(call: Caller) -> Response:
    """The registered tasks that jobs can run, with their descriptions and argument schemas."""
    found = call.services.kind(JobKind).registry.describe(call.caller)
    return JSONResponse({"tasks": found, "total": len(found)})


@routes.get("/workers", response_model=WorkersShape)
def workers(call: Caller, house: Here, asked: Annotated[Asked, Query()]) -> Response:
    """The processes that carry out what is due. For operators."""
    operators_only(house, call)
    zone, now = zone_of(call, asked.timezone), call.scheduler.clock.now()
    return JSONResponse({"workers": [worker_shape(each, now, zone) for each in call.scheduler.workers()]})


@routes.get("/agents", response_model=AgentsShape)
def agents(call: Caller, house: Here) -> Response:
    """The agents that a prompt can wake."""
    return JSONResponse({"agents": [dict(each) for each in house.agents(call.caller.owner)]})


@routes.get("/channels", response_model=ChannelsShape)
def channels(call: Caller, house: Here) -> Response:
    """Where notifications can go."""
    return JSONResponse({"channels": [dict(each) for each in house.channels(call.caller.owner)]})


@routes.get("/whoami", response_model=CallerShape)
def whoami(call: Caller) -> Response:
    """On whose behalf this caller acts."""
    caller = call.caller
    told = {"owner": caller.owner, "operator": caller.operator, "timezone": call.zone, "depth": caller.depth}
    return JSONResponse(told)
