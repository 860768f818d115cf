"""Lookup of messages by id. A message is a one-off schedule or one run of a recurring schedule."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from duetime.engine.errors import InvalidInput
from duetime.engine.model import LIVE, OVER, Run, RunStatus, Schedule, ScheduleId
from duetime.engine.policy.follow_ups import NO_PAYLOAD
from duetime.engine.store import Page, RunQuery, ScheduleQuery
from duetime.kinds.requests.qstash_api.call import Asking, whole_number
from duetime.kinds.requests.qstash_api.views import View
from duetime.kinds.requests.wire import KIND, ONCE, failed_run, schedule_and_run
from duetime.service.services import pages_of

# Filters for lists, and pagination with cursors that say where the next page begins.

T = TypeVar("T")
PAGE = 100
MOST_PAGES = 50
"""Maximum pages searched for one answer, which then ends with a cursor to continue from."""

_NAMES = ("url", "scheduleId", "messageId", "responseStatus")
_UNKNOWN_HERE = ("topicName", "queueName", "flowControlKey", "callerIp", "callerIP", "api")
"""Filters on fields that no message here has, so that none matches."""
_FILTERS = frozenset({*_NAMES, *_UNKNOWN_HERE, "label", "host", "path", "fromDate", "toDate"})
_BESIDES = frozenset({"count", "async", "all", "messageIds", "dlqIds"})


class Filter:
    """Filter of a query: several values of one name match any of them; several names must all match."""

    def __init__(self, query: Mapping[str, list[str]]) -> None:
        self._query = query
        self._since, self._until = self._number("fromDate", 0), self._number("toDate", 10**15)

    def values(self, name: str) -> set[str]:
        """Return the values of a name, split at commas; URLs are not split, because they may contain commas."""
        values = self._query.get(name, [])
        return {each for value in values for each in ([value] if name == "url" else value.split(",")) if each}

    def last(self, name: str) -> str | None:
        """Return the last value of a name, or None if there is none or it is empty."""
        [*_, value] = ["", *self._query.get(name, [])]
        return value or None

    def _number(self, name: str, otherwise: int) -> int:
        number = whole_number(name, self.last(name))
        return otherwise if number is None else number

    def count(self, most: int) -> int:
        return max(1, min(self._number("count", most), most))

    @property
    def is_empty(self) -> bool:
        return not _FILTERS & self._query.keys()

    def must_be_known(self, *besides: str) -> Filter:
        """Reject unknown and empty filters, and a count of 0, where an action cannot be undone: ignoring one would
        widen it."""
        unknown = sorted(self._query.keys() - _FILTERS - _BESIDES - {*besides})
        if unknown:
            raise InvalidInput(f"{unknown[0][:40]}: is not a filter; choose from {', '.join(sorted(_FILTERS))}")
        empty = sorted(name for name in _FILTERS & self._query.keys() if not self.values(name))
        if empty:
            raise InvalidInput(f"{empty[0]}: is empty; leave it out or give a value")
        if self._number("count", 1) == 0:
            raise InvalidInput("count: must be at least 1")
        return self

    def fits(self, row: View) -> bool:
        parts = urlsplit(row["url"])
        seen = {name: {str(row.get(name))} for name in _NAMES}
        seen |= {"host": {parts.netloc}, "path": {parts.path}, "label": {*row.get("labels", ())}}
        named = [name for name in (*seen, *_UNKNOWN_HERE) if self.values(name)]
        at: int = row["time"] if "time" in row else row["createdAt"]
        return self._since <= at <= self._until and all(self.values(name) & seen.get(name, set()) for name in named)


class Source(NamedTuple, Generic[T]):
    page: Callable[[str | None, int], Page[T]]
    """Returns a page of at most so many items from one of the source's cursors on."""
    rows: Callable[[T], Sequence[View]]


def walk(
    sources: Sequence[Source[Any]], cursor: str | None, count: int, fits: Callable[[View], bool]
) -> tuple[list[View], str | None]:
    """Read the sources in order, page by page. A cursor names a source, the item to continue after, and a row of the
    next item, so that nothing is left out when other items are added or removed between two pages."""
    number, at, row = _read(cursor, len(sources))
    views: list[View] = []
    for _ in range(MOST_PAGES):
        source = sources[number]
        page = source.page(at, PAGE)
        for index, item in enumerate(page.items):
            for position, each in enumerate(source.rows(item)):
                if (index == 0 and position < row) or not fits(each):
                    continue
                if len(views) == count:
                    return views, _cursor(number, source.page(at, index).cursor if index else at, position)
                views.append(each)
        at, row = page.cursor, 0
        if at is None:
            number += 1
        if number == len(sources):
            return views, None
    return views, _cursor(number, at, 0)


def _cursor(*position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def _read(cursor: str | None, sources: int) -> tuple[int, str | None, int]:
    if cursor is None:
        return 0, None, 0
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        position = None
    match position:
        case [int(number), str() | None as at, int(row)] if 0 <= number < sources and row >= 0:
            return number, at, row
    raise InvalidInput("cursor: not a cursor from a previous page; leave it out to start over")


def chosen(asking: Asking, ids: str, *besides: str) -> tuple[list[str] | None, Filter]:
    """Return the selection for an action: the ids in the field `ids`, or a filter."""
    named, filter_ = asking.few_ids(ids), Filter(asking.filters(ids)).must_be_known(*besides)
    if named is not None and not filter_.is_empty:
        raise InvalidInput(f"{ids}: give it or a filter, not both")
    return named, filter_


class QStashMessage(NamedTuple):
    schedule: Schedule
    run: Run | None
    """None for a one-off that has not started."""

    @property
    def is_once(self) -> bool:
        return self.schedule.definition.public_id.startswith(ONCE)

    @property
    def is_living(self) -> bool:
        if self.is_once:
            return self.schedule.progress.state not in OVER
        return self.run is not None and self.run.status in LIVE


class FailedMessage(NamedTuple):
    """A message whose attempts are used up."""

    schedule: Schedule
    run: Run


def find_message(asking: Asking, id: str) -> QStashMessage | None:
    scheduler, caller = asking.scheduler, asking.caller
    made_by = schedule_and_run(id)
    if made_by is not None:
        schedule_id, run_id = made_by
        run = scheduler.run(caller, run_id)
        message = None if run is None or run.kind != KIND else message_of(asking, run)
        return message if message is not None and message.schedule.definition.public_id == schedule_id else None
    if not id.startswith(ONCE):
        return None
    schedule = scheduler.find(caller, id, deleted=True)
    run = None if schedule is None else latest_run(asking, schedule.definition.id)
    if run is not None:
        return message_of(asking, run)
    schedule = scheduler.find(caller, id, KIND)
    return None if schedule is None else QStashMessage(schedule, None)


def find_living(asking: Asking, id: str) -> QStashMessage | None:
    """Return an unfinished message; delivered, failed and cancelled ones are only in the logs and the DLQ."""
    message = find_message(asking, id)
    return message if message is not None and message.is_living else None


def find_failure(asking: Asking, dlq: str) -> FailedMessage | None:
    number = failed_run(dlq)
    run = None if number is None else asking.scheduler.run(asking.caller, number)
    return None if run is None or run.kind != KIND else failure_of(asking, run)


def failure_of(asking: Asking, run: Run) -> FailedMessage | None:
    """Return the failure of a run, or None if it has not failed or was dismissed."""
    message = None if run.status != RunStatus.FAILED or run.stop else message_of(asking, run)
    return None if message is None else FailedMessage(message.schedule, run)


def message_of(asking: Asking, run: Run) -> QStashMessage | None:
    """Return the message of a run, even if its schedule was deleted, because the history outlives it."""
    schedule = asking.scheduler.schedule_of(asking.caller, run, deleted=True)
    if schedule is None or schedule.definition.payload == NO_PAYLOAD:  # deleted by a version that kept nothing
        return None
    return QStashMessage(schedule, run)


def latest_run(asking: Asking, schedule: ScheduleId) -> Run | None:
    runs = find_runs(asking, schedule=schedule, limit=1).items
    return runs[0] if runs else None


def find_runs(asking: Asking, **query: Any) -> Page[Run]:
    return asking.scheduler.runs(asking.caller, RunQuery(kind=KIND, **query))


def find_schedules(asking: Asking, status: str, cursor: str | None, limit: int) -> Page[Schedule]:
    query = ScheduleQuery(kind=KIND, status=status, newest_first=True, limit=limit, cursor=cursor)
    return asking.scheduler.search(asking.caller, query)


def living_schedules(asking: Asking, prefix: str) -> Iterator[Schedule]:
    """Yield all one-offs or all recurring schedules that are not over, by the prefix of their ids."""
    query = ScheduleQuery(kind=KIND, status="living", newest_first=True, limit=PAGE)
    pages = pages_of(asking.scheduler.search, asking.caller, query)
    return (each for page in pages for each in page.items if each.definition.public_id.startswith(prefix))


def living_runs(asking: Asking) -> Iterator[Run]:
    queries = (RunQuery(kind=KIND, status=status, limit=PAGE) for status in sorted(LIVE))
    pages = (page for query in queries for page in pages_of(asking.scheduler.runs, asking.caller, query))
    return (run for page in pages for run in page.items)
