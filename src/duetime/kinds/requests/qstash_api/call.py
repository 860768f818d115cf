"""A parsed call of the API (caller, headers, query, path, body), its answers and its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from duetime.engine.kind import Caller
from duetime.engine.result import Err, Result
from duetime.service.errors import STORE_ERRORS

# Errors as QStash clients expect them: a status, and a sentence under `error`.

_STATUSES = {
    "not_found": 404,
    "quota": 412,
    "depth": 403,
    "busy": 409,
    "conflict": 409,
    "not_possible": 409,
    "broken": 409,
    **dict.fromkeys(STORE_ERRORS, 503),
}
_UNREACHABLE = "the store cannot be reached just now; try again in a moment"


class Answer(NamedTuple):
    body: Any = None
    status: int = 200


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    @property
    def answer(self) -> Answer:
        return Answer({"error": self.message}, self.status)


def refusal(code: str, message: str) -> Refused:
    """Convert one of Duetime's errors. Messages of the store contain paths, so they are for the operator only."""
    status = _STATUSES.get(code, 400)
    return Refused(status, _UNREACHABLE if status == 503 else message)


def not_found(what: str, id: str) -> Refused:
    """Return the same error for what does not exist and for what belongs to another owner."""
    return Refused(404, f"{what} {id[:200]} not found")


def not_offered(what: str) -> Refused:
    return Refused(501, f"{what} not offered by this server; it has schedules, messages, batches, a DLQ and logs")


def value_of(result: Result[Any]) -> Any:
    if isinstance(result, Err):
        raise refusal(result.code, result.message)
    return result.value


_ENCODED = re.compile(r"https?%3a", re.IGNORECASE)
_LOST_SLASH = re.compile(r"(https?):/(?!/)", re.IGNORECASE)
MOST_IDS = 1000
"""Maximum ids in one request."""


class Asking(NamedTuple):
    caller: Caller
    headers: Mapping[str, str]
    """Names in lower case."""
    query: Mapping[str, list[str]]
    path: Mapping[str, Any]
    destination: str
    """The destination URL in the raw path, with its own query; empty if the path has none."""
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not valid JSON") from None

    def ids(self, name: str) -> list[str] | None:
        """Return a list of ids from the query or a JSON body; None if there is none."""
        listed = self._listed(name)
        if listed is not None and len(listed) > MOST_IDS:
            raise Refused(400, f"{name}: has {len(listed)} ids, and a request takes at most {MOST_IDS}; send several")
        return listed

    def _listed(self, name: str) -> list[str] | None:
        if name in self.query:
            return [each for value in self.query[name] for each in value.split(",") if each]
        given = self.json() if self.body else {}
        listed = given.get(name) if isinstance(given, dict) else given
        if listed is None:
            return None
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise Refused(400, f"{name}: must be a list of texts")
        return listed

    def filters(self, ids: str) -> dict[str, list[str]]:
        """Return the query and the fields of a JSON body other than the list of ids."""
        given = self.json() if self.body else {}
        if not isinstance(given, dict):
            return dict(self.query)
        lists = {name: value if isinstance(value, list) else [value] for name, value in given.items() if name != ids}
        return {**self.query, **{name: [str(each) for each in values] for name, values in lists.items()}}


def as_text(value: str) -> str:
    """Decode a header value as UTF-8 where possible, because servers read headers as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers by lower-case name; the values of a repeated header are joined by commas."""
    found: dict[str, str] = {}
    for raw_name, value in headers:
        name = raw_name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def raw_destination(raw_path: bytes, query: bytes, route: str) -> str:
    """Return the URL within the request's URL, keeping its double slash, query and percent-encoding."""
    path = raw_path.decode("latin-1").partition("?")[0]
    _, found, destination = path.partition(route)
    if not found:
        return ""
    if query:
        destination += "?" + query.decode("latin-1")
    if _ENCODED.match(destination):  # the client encoded the whole URL
        destination = unquote(destination)
    return _LOST_SLASH.sub(r"\1://", destination, count=1)  # a proxy may have merged the slashes
