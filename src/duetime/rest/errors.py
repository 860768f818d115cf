"""Conversion of errors to HTTP problems. `service.errors` chooses the status codes of refusals."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from traceback import clear_frames
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from duetime.engine.errors import DuetimeError, InvalidTrigger
from duetime.http.middleware import SentAnswer
from duetime.http.problems import problem
from duetime.service.errors import STORE_ERRORS, STORE_MESSAGE, shown
from duetime.service.owner_limits import TooManyRequests
from duetime.service.text import clean_text

log = logging.getLogger("duetime.http")

_REFUSED_INPUT: Final = 422
_MOST_ERRORS: Final = 20
_FIELDS: Final = {"trigger_config": "trigger", "trigger_type": "trigger.type", "type": "trigger.type"}
"""Field names of the engine that differ from those of a request."""


def answer_of(err: DuetimeError) -> Response:
    """Return the problem for an error. Messages of the store may name files, so they are not shown."""
    if err.code in STORE_ERRORS:
        return problem(503, "store_unavailable", STORE_MESSAGE, headers={"Retry-After": "1"})
    field, message = err.field, err.message or "There is no such thing."
    message = "; ".join(filter(None, (message, err.details.get("hint"))))
    if field in _FIELDS:
        field, message = _FIELDS[field], message.replace(field, _FIELDS[field], 1)
    elif field is not None and field != "when" and err.code == InvalidTrigger.code:
        field = f"trigger.{field}"
    return problem(shown(err.code).status, err.code, clean_text(message), field=_cut(field))


def _cut(field: Any) -> str | None:
    return None if field is None else clean_text(str(field)[:100])


# -- exception handlers -------------------------------------------------------------------------------------------


def join(app: FastAPI) -> None:
    app.add_exception_handler(DuetimeError, _failed)
    app.add_exception_handler(TooManyRequests, _too_many)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _by_status)
    app.add_exception_handler(Exception, _unexpected)


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, DuetimeError)
    clear_frames(error.__traceback__)  # they refer to the body and to each other, and would stay in memory for a while
    return answer_of(error)


async def _too_many(_request: Request, error: Exception) -> Response:
    return problem(429, "too_many_requests", str(error), headers={"Retry-After": "1"})


async def _unexpected(_request: Request, _error: Exception) -> Response:
    return problem(500, "unexpected", "Something went wrong here; the server's log says what.")


async def _invalid(_request: Request, error: Exception) -> Response:
    """Describe validation errors without echoing the input, which may be huge or impossible to encode."""
    assert isinstance(error, RequestValidationError)
    clear_frames(error.__traceback__)
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
    "union_tag_not_found": "has no type; give one of once, interval, cron and rrule",
    "union_tag_invalid": "has an unknown type; give one of once, interval, cron and rrule",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object in braces"),
    "list_type": "must be a list in brackets",
    "string_type": "must be a text in quotes",
    "bool_type": "must be true or false",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
_NO_BODY: Final = "The body is missing; send a JSON object."


def _one(error: Mapping[str, Any]) -> dict[str, str]:
    limits = error.get("ctx", {})
    theirs = str(error["msg"])[:300].removeprefix("Value error, ").replace("Input should", "must", 1)
    words = _IN_OUR_WORDS[error["type"]].format_map(limits) if error["type"] in _IN_OUR_WORDS else theirs
    if tuple(error["loc"]) == ("body",):
        words = _NO_BODY if error["type"] == "missing" else f"The body {words}."
    if limits.get("field_type") == "Value":  # pydantic would call the characters of a text items
        bound = f"least {limits['min_length']}" if "min_length" in limits else f"most {limits.get('max_length')}"
        words = f"must have at {bound} characters, and it has {limits.get('actual_length')}"
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


def log_unexpected(scope: Scope) -> None:
    """Log the exception that is being handled."""
    log.exception("%s %s failed", scope.get("method"), scope.get("path"))


class Unexpected:
    """Logs an unexpected error once and never shows it; the framework would raise it again after the response."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.routes = app.routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = SentAnswer(send)
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            log_unexpected(scope)
            if not answer.begun:
                raise
