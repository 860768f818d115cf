"""Conversion of errors to HTTP problems. Only this module chooses the status codes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from duetime.engine.encoding import clean_text
from duetime.engine.errors import DuetimeError, InvalidTrigger
from duetime.engine.result import Err, Result
from duetime.http.problems import problem
from duetime.service.errors import STORE_ERRORS
from duetime.service.owner_limits import TooManyRequests

T = TypeVar("T")
log = logging.getLogger("duetime.http")

_STATUSES: Final = {
    "not_found": 404,
    "not_possible": 409,
    "conflict": 409,
    "busy": 409,
    "broken": 409,
    "not_yours": 409,
    "kept_elsewhere": 409,
    "changed": 412,
    "not_json": 415,
    "too_many_streams": 429,
    "too_many_requests": 429,
    "quota": 403,
    "depth": 403,
    "operators_only": 403,
}
_REFUSED_INPUT: Final = 422
_MOST_ERRORS: Final = 20
_FIELDS: Final = {"trigger_config": "trigger", "trigger_type": "trigger.type", "type": "trigger.type"}
"""Field names of the engine that differ from those of a request."""


class Refused(Exception):
    """A refusal that is answered as an HTTP problem."""

    def __init__(self, err: Err) -> None:
        super().__init__(err.message)
        self.err = err


def taken(result: Result[T]) -> T:
    """Return the value of a successful result, or raise Refused."""
    if isinstance(result, Err):
        raise Refused(result)
    return result.value


def refuse(code: str, message: str, field: str | None = None) -> Refused:
    return Refused(Err(code, message, {} if field is None else {"field": field}))


def answer_of(err: Err) -> Response:
    """Return the problem for an error. Messages of the store may name files, so they are not shown."""
    if err.code in STORE_ERRORS:
        words = "The store cannot be reached just now; try again in a moment."
        return problem(503, "store_unavailable", words, headers={"Retry-After": "1"})
    field = err.details.get("field")
    message = err.message or "There is no such thing."
    if field in _FIELDS:
        message, field = message.replace(field, _FIELDS[field], 1), _FIELDS[field]
    elif field is not None and err.code == InvalidTrigger.code:
        field = f"trigger.{field}"
    return problem(_STATUSES.get(err.code, _REFUSED_INPUT), err.code, clean_text(message), field=_shown(field))


def _shown(field: Any) -> str | None:
    return None if field is None else clean_text(str(field)[:100])


# -- exception handlers -------------------------------------------------------------------------------------------


def join(app: FastAPI) -> None:
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(DuetimeError, _failed)
    app.add_exception_handler(TooManyRequests, _too_many)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _by_status)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return answer_of(error.err)


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, DuetimeError)
    field = getattr(error, "field", None)
    return answer_of(Err(error.code, error.message, {} if field is None else {"field": field}))


async def _too_many(_request: Request, error: Exception) -> Response:
    return problem(429, "too_many_requests", str(error), headers={"Retry-After": "1"})


async def _unexpected(_request: Request, _error: Exception) -> Response:
    return problem(500, "unexpected", "Something went wrong here; the server's log says what.")


async def _invalid(_request: Request, error: Exception) -> Response:
    """Describe validation errors without echoing the input, which may be huge or impossible to encode."""
    assert isinstance(error, RequestValidationError)
    found = list(error.errors())
    if any(each["type"] == "json_invalid" for each in found):
        return problem(400, "not_json", "The body is not valid JSON; check its quotes, commas and brackets.")
    errors = [_one(each) for each in found[:_MOST_ERRORS]]
    first = errors[0]
    detail = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
    return problem(_REFUSED_INPUT, "invalid", detail, field=first["field"] or None, errors=errors)


_IN_OUR_WORDS: Final = {
    "extra_forbidden": "is not known here; leave it out, or look into /api/openapi.json for what there is",
    "missing": "is missing; give it",
}


def _one(error: Mapping[str, Any]) -> dict[str, str]:
    words = _IN_OUR_WORDS.get(error["type"], str(error["msg"])[:300])
    return {"field": _path(error["loc"]), "message": clean_text(words)}


_PLACES: Final = frozenset({"body", "query", "path", "header"})
_TAGS: Final = frozenset({"once", "interval", "cron", "rrule"})


def _path(place: Sequence[Any]) -> str:
    """Return a path such as `trigger.expression`, without `body` or `query` before it and without the trigger type that
    pydantic inserts."""
    parts = place[1:] if place and place[0] in _PLACES else place
    return ".".join(clean_text(str(part)[:60]) for part in parts if part not in _TAGS)[:200]


_BY_STATUS: Final = {
    400: ("not_json", "The body cannot be read; send JSON."),
    404: ("not_found", "There is nothing at this address; /api/openapi.json shows what there is."),
    405: ("method_not_allowed", "This address does not take that method; the header Allow says which it takes."),
}


async def nowhere(_request: Request) -> Response:
    return problem(404, *_BY_STATUS[404])


async def _by_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, words = _BY_STATUS.get(error.status_code, ("refused", "The request was refused."))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return problem(error.status_code, code, words, headers=headers)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes at this path; the framework names only those of the first."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    there = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in there for method in route.methods or ()}


class Unexpected:
    """Logs an unexpected error once and never shows it; the framework would raise it again after the response."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.routes = app.routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            log.exception("%s %s failed", scope.get("method"), scope.get("path"))
            if not begun:
                raise
