"""Routes that preview a trigger, list what fires next across all kinds, and describe workers, the status and the
caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Query
from starlette.responses import JSONResponse, Response

from duetime.rest.dependencies import Caller, Context, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import Asked, PreviewGiven, naming_trigger, times_in, trigger_parts
from duetime.rest.responses import CallerShape, WorkersShape
from duetime.service import answers
from duetime.service.errors import refuse
from duetime.service.operations.schedules import PreviewTimes
from duetime.service.operations.schedules import preview as read_preview
from duetime.service.operations.status import status as read_status
from duetime.service.operations.status import workers as read_workers
from duetime.service.operations.upcoming import ListUpcoming
from duetime.service.operations.upcoming import upcoming as coming

UpcomingAsked: Any = model_of("UpcomingAsked", ListUpcoming, Asked)
times, standing = router("times"), router("standing")


@times.post("/preview", response_model=answers.Preview, responses=problems(415))
def preview(call: Caller, body: Annotated[PreviewGiven, Body()]) -> Response:
    """Explain a trigger in plain English, with its next times and anything unexpected. Nothing is created."""
    call = call.in_zone(body.timezone)
    request = PreviewTimes(times=times_in(body), trigger=trigger_parts(body.trigger), count=body.count)
    with naming_trigger(body, body.trigger):
        answer, warnings, _ = read_preview(call, request)
    return JSONResponse(answer.facts(call.zone, warnings))


@times.get("/upcoming", response_model=answers.Upcoming)
def upcoming(call: Caller, query: Annotated[UpcomingAsked, Query()]) -> Response:
    """List what fires next, in time order: every time within the range, up to the count."""
    call = call.in_zone(query.timezone)
    times, warnings, _ = coming(call, request_of(ListUpcoming, query))
    return JSONResponse(times.facts(call.zone, warnings))


@standing.get("/workers", response_model=WorkersShape)
def workers(call: Caller, context: Context, query: Annotated[Asked, Query()]) -> Response:
    """List the workers. For operators."""
    if not context.may_operate(call):
        raise refuse("operators_only", "this needs a token with the scope operator: `duetime token issue` makes one")
    call = call.in_zone(query.timezone)
    return JSONResponse({"workers": read_workers(call).value})


@standing.get("/status", response_model=answers.ServerStatus)
def status(call: Caller, query: Annotated[Asked, Query()]) -> Response:
    """Return what is set up, whether it works, usage and failures. Only the operator and the local owner see the names
    of machines."""
    return JSONResponse(read_status(call.in_zone(query.timezone)).value)


@standing.get("/whoami", response_model=CallerShape)
def whoami(call: Caller) -> Response:
    """Return the owner on whose behalf this caller acts."""
    caller = call.caller
    facts = {"owner": caller.owner, "operator": caller.operator, "timezone": call.zone, "depth": caller.depth}
    return JSONResponse(facts)
