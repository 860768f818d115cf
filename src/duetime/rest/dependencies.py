"""How routes are made: who calls, what every one of them may answer, and answers as they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from duetime.engine.kind import Caller as Owner
from duetime.engine.model import Run
from duetime.engine.result import Result
from duetime.engine.store import Page
from duetime.http.problems import MEDIA_TYPE
from duetime.kinds.prompts.agent import Reply
from duetime.mcp.tool import Call
from duetime.rest.errors import refuse
from duetime.service.owner_limits import OwnerLimits
from duetime.service.services import Services

Identify = Callable[[], Call]
Finish = Callable[[Owner, Run, Reply], Result[Run]]


ForOwner = Callable[[str], Sequence[Mapping[str, str]]]


def _none(_owner: str) -> Sequence[Mapping[str, str]]:
    return ()


class ApiContext(NamedTuple):
    """What the API stands on."""

    desk: Services
    identify: Identify
    """Who calls the request at hand."""
    finish: Finish
    """Ends a prompt's run with what its agent said, for whoever has it in hand, and counts what that took."""
    trusting: bool = False
    """Nobody is asked for a token; whoever reaches this address is the one who runs it."""
    agents: ForOwner = _none
    channels: ForOwner = _none
    """What there is for an owner. Names and types alone: what else is set up for them is nobody's to read."""


async def house_of(request: Request) -> ApiContext:
    house: ApiContext = request.app.state.house
    return house


async def call_of(request: Request) -> Call:
    house: ApiContext = request.app.state.house
    return house.identify()


async def limits_of(request: Request) -> OwnerLimits:
    limits: OwnerLimits = request.app.state.limits
    return limits


Here = Annotated[ApiContext, Depends(house_of)]
Caller = Annotated[Call, Depends(call_of)]
Threads = Annotated[OwnerLimits, Depends(limits_of)]
"""For routes that are not called in a thread as a whole."""


def operators_only(house: ApiContext, call: Call) -> None:
    if not (call.caller.operator or house.trusting):
        raise refuse("operators_only", "this needs a token with the scope operator: `duetime token issue` makes one")


async def json_only(request: Request) -> None:
    """A body of another kind is refused as such, and not as one that does not fit."""
    said = request.headers.get("content-type", "")
    if said.partition(";")[0].strip().lower() != "application/json" and (said or await request.body()):
        raise refuse("not_json", "the body has to be JSON: send the header Content-Type: application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


ALWAYS = problems(400, 401, 403, 408, 413, 421, 422, 429, 500, 503)
"""What the doorkeepers may say before a request is looked at, and what may happen to any."""


def router(tag: str) -> APIRouter:
    return APIRouter(prefix="/v1", tags=[tag], responses=ALWAYS)


def page_of(name: str, items: Sequence[Any], page: Page[Any], **more: Any) -> Response:
    told = {"total": page.total, "total_exact": page.total_exact, "next_cursor": page.cursor}
    return JSONResponse({name: items, **told, **more})
