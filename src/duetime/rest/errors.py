"""Conversion of errors to HTTP problems. `service.errors` chooses the status codes of refusals."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from traceback import clear_frames
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from duetime.engine.errors import DuetimeError
from duetime.http.problems import problem
from duetime.service.errors import STORE_ERRORS, STORE_MESSAGE, error_class
from duetime.service.options import TIME_LIMITS
from duetime.service.owner_limits import TooManyRequests
from duetime.service.text import clean_text
from duetime.service.when import WAYS

log = logging.getLogger("duetime.http")

PARTS: Final = "duetime.api"
"""The key of a request's scope under which the parts of the API are: see `application.Parts`."""

NO_NUL: Final = r"^[^\u0000]*$"
"""The pattern of every text of a request. Kinds of other packages may declare further patterns."""
_REFUSED_INPUT: Final = 422
_MOST_ERRORS: Final = 20
_FIELDS: Final = {"trigger_config": "trigger", "trigger_type": "trigger.type", "type": "trigger.type"}
"""Field names of the engine that differ from those of a request."""
_LISTED: Final = {"there is no such schedule": "schedules", "there is no such run": "runs"}
"""What is not found, with the address where it would be listed."""


def answer_of(err: DuetimeError) -> Response:
    """Return the problem for an error. Messages of the store may name files, so they are not shown."""
    if err.code in STORE_ERRORS:
        return problem(503, "store_unavailable", STORE_MESSAGE, headers={"Retry-After": "1"})
    field, message = err.field, err.message or "There is no such thing."
    is_advised = err.code == "unknown_task"  # whose problem contains the hint
    message = err.problem if is_advised else "; ".join(filter(None, (message, err.details.get("hint"))))
    if message in _LISTED:
        message += f"; GET /api/v1/{_LISTED[message]} lists them"
    if field in _FIELDS:
        field, message = _FIELDS[field], message.replace(field, _FIELDS[field], 1)
    name = None if field is None else clean_text(str(field)[:100])
    return problem(error_class(err.code).status, err.code, clean_text(message), field=name)


# -- exception handlers -------------------------------------------------------------------------------------------


def response_to(request: Request, error: Exception) -> Response:
    """Return the problem for an exception. One that nobody expects is logged, and not shown."""
    if not isinstance(error, DuetimeError | TooManyRequests | RequestValidationError):
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "unexpected", "Something went wrong here; the server's log says what.")
    clear_frames(error.__traceback__)  # they refer to the body and to each other, and would stay in memory for a while
    if isinstance(error, DuetimeError):
        return answer_of(error)
    if isinstance(error, TooManyRequests):
        return problem(429, "too_many_requests", str(error), headers={"Retry-After": "1"})
    return _invalid(error)


def _invalid(error: RequestValidationError) -> Response:
    """Describe validation errors without echoing the input, which may be huge or impossible to encode."""
    problems = list(error.errors())
    if any(each["type"] == "json_invalid" for each in problems):
        return problem(400, "not_json", "The body is not valid JSON; check its quotes, commas and brackets.")
    errors = list({each["field"]: each for each in map(_one, reversed(problems[:_MOST_ERRORS]))}.values())[::-1]
    first = errors[0]
    detail = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
    return problem(_REFUSED_INPUT, "invalid", detail, field=first["field"] or None, errors=errors)


_IN_OUR_WORDS: Final = {
    "extra_forbidden": "is not known here; leave it out, or look into /api/openapi.json for what there is",
    "missing": "is missing; give it",
    "union_tag_not_found": "has no type; give one of once, interval, cron, rrule, event and after",
    "union_tag_invalid": "has an unknown type; give one of once, interval, cron, rrule, event and after",
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
    if limits.get("pattern") == NO_NUL:
        words = "must not hold NUL characters"
    if error["type"] in ("string_too_short", "string_too_long") and isinstance(error["input"], str):
        bound = f"least {limits['min_length']}" if "min_length" in limits else f"most {limits['max_length']}"
        words = f"must have at {bound} characters, and it has {len(error['input'])}"
    field = _path(error["loc"])
    if field in _SPANS:  # a text or a number; pydantic describes both
        words = "must be a text such as 30s, or a number of seconds"
    return {"field": field, "message": clean_text(words)}


_PLACES: Final = frozenset({"body", "query", "path", "header"})
_TAGS: Final = frozenset({"once", "interval", "cron", "rrule", "event", "after"})
_SPANS: Final = frozenset({"delay", "every", "jitter"})
_INSERTED: Final = re.compile(r"constrained-\w+|\w+\[.*\]")
"""The form of an option that has several, such as `list[constrained-str]`."""


def _path(place: Sequence[Any]) -> str:
    """Return a path such as `trigger.expression`, without `body` or `query` before it and without what pydantic
    inserts: the type of a trigger, and the form of an option that has several."""
    parts = list(place[1:] if place and place[0] in _PLACES else place)
    if parts and parts[0] in (*WAYS, *TIME_LIMITS):
        parts = parts[:1]
    elif parts[:1] == ["trigger"] and parts[1:2] and parts[1] in _TAGS:
        del parts[1]
    return ".".join(clean_text(str(part)[:60]) for part in parts if not _INSERTED.fullmatch(str(part)))[:200]


def no_such_path() -> Response:
    return problem(404, "not_found", "There is nothing at this address; /api/openapi.json shows what there is.")


def wrong_method(allowed: Collection[str]) -> Response:
    words = "This address does not take that method; the header Allow says which it takes."
    return problem(405, "method_not_allowed", words, headers={"Allow": ", ".join(sorted(allowed))})
