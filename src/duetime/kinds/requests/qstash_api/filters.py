"""Filters for lists, and pagination with cursors that say where the next page begins."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from duetime.engine.store import Page
from duetime.kinds.requests.qstash_api.call import Refused
from duetime.kinds.requests.qstash_api.views import View

T = TypeVar("T")
PAGE = 100
MOST_PAGES = 50
"""Maximum pages searched for one answer, which then ends with a cursor to continue from."""

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_NAMES = ("url", "scheduleId", "messageId", "responseStatus")
_UNKNOWN_HERE = ("topicName", "queueName", "flowControlKey", "callerIp", "callerIP", "api")
"""Filters on fields that no message here has, so that none matches."""
_FILTERS = frozenset({*_NAMES, *_UNKNOWN_HERE, "label", "host", "path", "fromDate", "toDate", "state"})
_BESIDES = frozenset({"count", "cursor", "order", "async", "all", "messageIds", "dlqIds"})


class Filter:
    """Filter of a query: several values of one name match any of them; several names must all match."""

    def __init__(self, query: Mapping[str, list[str]]) -> None:
        self._query = query
        self._since, self._until = self.number("fromDate", 0), self.number("toDate", 10**15)

    def values(self, name: str) -> set[str]:
        """Return the values of a name, split at commas; URLs are not split, because they may contain commas."""
        given = self._query.get(name, [])
        return set(given) if name == "url" else {each for value in given for each in value.split(",") if each}

    def number(self, name: str, otherwise: int) -> int:
        [*_, given] = ["", *self._query.get(name, [])]
        if not given:
            return otherwise
        if not _NUMBER.fullmatch(given):
            raise Refused(400, f"{name}: must be a whole number, not {given[:40]!r}")
        return int(given)

    def count(self, most: int) -> int:
        return max(1, min(self.number("count", most), most))

    @property
    def cursor(self) -> str | None:
        [*_, given] = ["", *self._query.get("cursor", [])]
        return given or None

    @property
    def is_empty(self) -> bool:
        return not _FILTERS & self._query.keys()

    def must_be_known(self) -> Filter:
        """Reject unknown names where an action cannot be undone: ignoring one would widen it to everything."""
        unknown = sorted(self._query.keys() - _FILTERS - _BESIDES)
        if unknown:
            raise Refused(400, f"{unknown[0][:40]}: is no filter; there are {', '.join(sorted(_FILTERS))}")
        return self

    def fits(self, row: View) -> bool:
        if any(self.values(name) for name in _UNKNOWN_HERE):
            return False
        return self._named(row) and self._placed(row) and self._labelled(row) and self._in_time(row)

    def _named(self, row: View) -> bool:
        return all(str(row.get(name)) in wanted for name in _NAMES if (wanted := self.values(name)))

    def _placed(self, row: View) -> bool:
        parts = urlsplit(row["url"])
        host, path = self.values("host"), self.values("path")
        return (not host or parts.netloc in host) and (not path or parts.path in path)

    def _labelled(self, row: View) -> bool:
        wanted = self.values("label")
        return not wanted or bool(wanted & {*row.get("labels", ())})

    def _in_time(self, row: View) -> bool:
        at: int = row["time"] if "time" in row else row["createdAt"]
        return self._since <= at <= self._until


class Source(NamedTuple, Generic[T]):
    page: Callable[[str | None, int], Page[T]]
    """Returns a page of at most so many items from one of the source's cursors on."""
    rows: Callable[[T], Sequence[View]]


def walk(
    sources: Sequence[Source[Any]], cursor: str | None, count: int, wanted: Callable[[View], bool]
) -> tuple[list[View], str | None]:
    """Read the sources in order, page by page. A cursor names a source, the item to continue after, and a row of the
    next item, so that nothing is left out when other items are added or removed between two pages."""
    number, at, row = _read(cursor, len(sources))
    found: list[View] = []
    for _ in range(MOST_PAGES):
        source = sources[number]
        page = source.page(at, PAGE)
        for index, item in enumerate(page.items):
            for position, each in enumerate(source.rows(item)):
                if (index == 0 and position < row) or not wanted(each):
                    continue
                if len(found) == count:
                    return found, _made(number, source.page(at, index).cursor if index else at, position)
                found.append(each)
        at, row = page.cursor, 0
        if at is None:
            number += 1
        if number == len(sources):
            return found, None
    return found, _made(number, at, 0)


def _made(*position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def _read(cursor: str | None, sources: int) -> tuple[int, str | None, int]:
    if cursor is None:
        return 0, None, 0
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        position = None
    match position:
        case [int(number), str() | None as at, int(row)] if 0 <= number < sources and row >= 0:
            return number, at, row
    raise Refused(400, "cursor: not one that a previous page returned; leave it out to begin anew")
