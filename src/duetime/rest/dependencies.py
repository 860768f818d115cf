"""The common part of all routes: dependencies for the caller and the context, common error responses, and pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from duetime.http.auth import WebContext
from duetime.http.problems import MEDIA_TYPE
from duetime.rest.api_route import ApiRoute
from duetime.rest.errors import PARTS
from duetime.service.owner_limits import OwnerLimits
from duetime.service.services import Call
from duetime.service.vocabulary import Page


def context_of(request: Request) -> WebContext:
    context: WebContext = request.scope[PARTS].context
    return context


def call_of(request: Request) -> Call:
    return context_of(request).identify("rest")


def limits_of(request: Request) -> OwnerLimits:
    limits: OwnerLimits = request.scope[PARTS].limits
    return limits


Context = Annotated[WebContext, Depends(context_of)]
Caller = Annotated[Call, Depends(call_of)]
Threads = Annotated[OwnerLimits, Depends(limits_of)]
"""For async routes, which use threads only for parts of their work."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


ALWAYS = problems(400, 401, 403, 408, 413, 421, 422, 429, 500, 503)
"""Errors that the middleware may return, and those that may happen on any route."""


def router(*tags: str) -> APIRouter:
    return APIRouter(prefix="/v1", tags=list(tags), responses=ALWAYS, route_class=ApiRoute)


def page_of(name: str, items: Sequence[Any], page: Page[Any], **more: Any) -> Response:
    return JSONResponse({name: items, **_page_facts(page), **more})


def page_of_texts(name: str, texts: Sequence[str], page: Page[Any], **more: Any) -> Response:
    """Return the same page from items that are JSON texts already."""
    rest = to_json({**_page_facts(page), **more})
    return Response(f'{{"{name}":[{",".join(texts)}],{rest[1:]}', media_type=JSONResponse.media_type)


def _page_facts(page: Page[Any]) -> dict[str, Any]:
    return {"total": page.total, "total_exact": page.total_exact, "next_cursor": page.cursor}


def to_json(value: Any) -> str:
    """Encode a value as `JSONResponse` does."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
