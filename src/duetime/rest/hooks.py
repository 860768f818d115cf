"""Routes for hooks, at which other services report events. Deliveries themselves go to `/hooks/{id}`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Path
from starlette.responses import JSONResponse, Response

from duetime.rest.dependencies import Caller, problems, router
from duetime.rest.operation_models import model_of, request_of
from duetime.rest.requests import Given
from duetime.rest.responses import HooksShape
from duetime.service import answers
from duetime.service.operations import hooks
from duetime.service.operations.hooks import ChangeHook, CreateHook

HookGiven: Any = model_of("HookGiven", CreateHook, Given)
RotationGiven: Any = model_of("RotationGiven", ChangeHook, Given, "hook")
Id = Annotated[str, Path(description="The id or name of a hook.", max_length=200)]
routes = router("hooks")


@routes.get("/hooks", response_model=HooksShape)
def list_(call: Caller) -> Response:
    """List hooks with their latest deliveries, without their secrets."""
    views, _, notes = hooks.hooks(call)
    return JSONResponse({"hooks": views, "notes": list(notes)})


@routes.post("/hooks", status_code=201, response_model=answers.Hook, responses=problems(409, 415))
def create(call: Caller, body: Annotated[HookGiven, Body()]) -> Response:
    """Create a hook. The secret is in this answer only."""
    return JSONResponse(hooks.create_hook(call, request_of(CreateHook, body)).value, 201)


@routes.post("/hooks/{id}/rotate", response_model=answers.Hook, responses=problems(404, 415))
def rotate(call: Caller, id: Id, body: Annotated[RotationGiven, Body()]) -> Response:
    """Replace the secret. The new one is in this answer only; the old one is refused from now on."""
    return JSONResponse(hooks.rotate_hook(call, request_of(ChangeHook, body, hook=id)).value)


@routes.post("/hooks/{id}/test", status_code=202, response_model=answers.Hook, responses=problems(404))
def test(call: Caller, id: Id) -> Response:
    """Report the event NAME.test, to which schedules can listen."""
    return JSONResponse(hooks.send_test(call, ChangeHook(hook=id)).value, 202)


@routes.delete("/hooks/{id}", status_code=204, responses=problems(404))
def delete(call: Caller, id: Id) -> Response:
    """Delete a hook. Its events stay."""
    hooks.delete_hook(call, ChangeHook(hook=id))
    return Response(status_code=204)
