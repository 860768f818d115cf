"""The common part of all routes: dependencies for the caller and the context, common error responses, and pages."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from fastapi._compat import ModelField
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, Response

from duetime.http.auth import WebContext
from duetime.http.bodies import IN_LOOP, parse_json
from duetime.http.connection_limits import OWNER
from duetime.http.problems import MEDIA_TYPE
from duetime.service.errors import refuse
from duetime.service.owner_limits import NOBODY, OwnerLimits
from duetime.service.services import Call
from duetime.service.vocabulary import Page


async def context_of(request: Request) -> WebContext:
    context: WebContext = request.app.state.context
    return context


async def call_of(request: Request) -> Call:
    return (await context_of(request)).identify("rest")


async def limits_of(request: Request) -> OwnerLimits:
    limits: OwnerLimits = request.app.state.limits
    return limits


Context = Annotated[WebContext, Depends(context_of)]
Caller = Annotated[Call, Depends(call_of)]
Threads = Annotated[OwnerLimits, Depends(limits_of)]
"""For async routes, which use threads only for parts of their work."""


def operators_only(context: WebContext, call: Call) -> None:
    if not context.may_operate(call):
        raise refuse("operators_only", "this needs a token with the scope operator: `duetime token issue` makes one")


def is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


async def json_only(request: Request) -> None:
    """Refuse a body of another content type explicitly, instead of reporting it as invalid."""
    said = request.headers.get("content-type", "")
    if not is_json(said) and (said or await request.body()):
        raise refuse("not_json", "the body must be JSON: send the header Content-Type: application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


ALWAYS = problems(400, 401, 403, 408, 413, 421, 422, 429, 500, 503)
"""Errors that the middleware may return, and those that may happen on any route."""


class BodyRoute(APIRoute):
    """Parses and validates a large body in a thread. The framework, which does both in the event loop, gets the
    model."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, needs_slot = super().get_route_handler(), inspect.iscoroutinefunction(self.endpoint)

        async def handle_request(request: Request) -> Response:
            if self.body_field is not None and len(body := await request.body()) > IN_LOOP:
                # Another type of content is not parsed; `json_only` refuses it later.
                said = request.headers.get("content-type", "")
                read = partial(_read, self.body_field, body if is_json(said) else b"")
                limits = await limits_of(request)
                run = partial(limits.run, request.scope.get(OWNER, NOBODY)) if needs_slot else anyio.to_thread.run_sync
                request._json = await run(read)
            return await handle(request)

        return handle_request


def _read(field: ModelField, body: bytes) -> Any:
    """Return the model, which the framework accepts as it is. Raise RequestValidationError."""
    model = None
    try:
        model, errors = field.validate(parse_json(body), loc=("body",)) if body else (None, [])
    except ValueError:
        errors = [{"type": "json_invalid"}]
    if errors:
        raise RequestValidationError(errors)
    return model


def router(*tags: str) -> APIRouter:
    return APIRouter(prefix="/v1", tags=list(tags), responses=ALWAYS, route_class=BodyRoute)


def page_of(name: str, items: Sequence[Any], page: Page[Any], **more: Any) -> Response:
    return JSONResponse({name: items, **_told(page), **more})


def page_of_texts(name: str, texts: Sequence[str], page: Page[Any], **more: Any) -> Response:
    """Return the same page from items that are JSON texts already."""
    rest = to_json({**_told(page), **more})
    return Response(f'{{"{name}":[{",".join(texts)}],{rest[1:]}', media_type=JSONResponse.media_type)


def _told(page: Page[Any]) -> dict[str, Any]:
    return {"total": page.total, "total_exact": page.total_exact, "next_cursor": page.cursor}


def to_json(value: Any) -> str:
    """Encode a value as `JSONResponse` does."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
