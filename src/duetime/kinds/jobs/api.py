"""The API route for the registered tasks."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from duetime.kinds.jobs.kind import JobKind
from duetime.rest.dependencies import Caller, router
from duetime.rest.responses import TasksShape

routes = router("standing")


@routes.get("/tasks", response_model=TasksShape)
def tasks(call: Caller) -> Response:
    """List the registered tasks that jobs can run, with their descriptions and argument schemas."""
    known = call.services.kind(JobKind).registry.describe(call.caller)
    return JSONResponse({"tasks": known, "total": len(known)})
