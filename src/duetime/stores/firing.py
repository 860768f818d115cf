"""Lists of what will fire, in the order of starts, page by page and with every filter.

By the owner's own schedules where they are few, else along the due queue, which is in that order already: an index of
next instants would have to be rewritten with every claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from duetime.core.clock import DAY
from duetime.core.model import Schedule, lane_of
from duetime.core.store import ScheduleQuery
from duetime.stores.queries import whole_rows
from duetime.stores.rows import schedule_of
from duetime.stores.search import read_cursor, schedule_filter

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Placed = tuple[tuple[int, ...], Schedule]
"""A schedule and its place in a list, from which the next page goes on."""

NOBODY: Final = ""
FEW: Final = 2_000
"""Schedules that are quickly read and sorted. Of an owner who has more, the queue soon shows some."""
_OWN: Final = "SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state = 'active' LIMIT ?) AS own"
_LATEST_JITTER: Final = DAY
_ROWS: Final = (
    "SELECT d.at, s.*, p.* FROM due d JOIN progress p ON p.schedule = d.schedule JOIN schedules s ON s.id = d.schedule"
)
# From each lane to the one after it: the queue may be long, and its lanes are few.
_LANES: Final = (
    "WITH RECURSIVE lanes (lane) AS (SELECT min(lane) FROM due UNION ALL"
    " SELECT (SELECT min(due.lane) FROM due WHERE due.lane > lanes.lane) FROM lanes WHERE lanes.lane IS NOT NULL)"
    " SELECT lane FROM lanes WHERE lane IS NOT NULL"
)


def firing(ask: Ask, query: ScheduleQuery) -> list[Placed]:
    """One more than asked for, to know whether there is more."""
    few = query.owner is not None and ask(_OWN, (query.owner, FEW))[0][0] < FEW
    lanes = [None] if few else list(_lanes(ask, query.kind))
    pages = [firing_page(query, lane) for lane in lanes]
    if not few and query.owner is not None:  # entries that an earlier version wrote name no owner
        pages += [firing_page(query, lane, NOBODY) for lane in lanes]
    found = [(row[0], schedule_of(row[1:])) for page in pages for row in ask(*page)]
    placed: list[Placed] = [((at, schedule.definition.id), schedule) for at, schedule in found]
    return sorted(placed, key=lambda each: each[0])[: query.limit + 1]


def firing_page(query: ScheduleQuery, lane: str | None, owner: str | None = None) -> tuple[str, list[Any]]:
    """Of one lane, along the owner's part of the queue; without a lane, of all that an owner has.

    `owner`: whose part of the queue, where it is not that of the owner who is asked for.
    """
    where = schedule_filter(query, along_queue=lane is not None)
    where.add("d.run = 0")  # not the retries
    if lane is not None:
        where.equal("d.lane", lane)
        where.equal("d.owner", query.owner if owner is None else owner)
    if query.due_to is not None:  # the queue is read no further than jitter may put off what is due by then
        where.add("d.at <= ?", query.due_to + _LATEST_JITTER)
    if query.cursor is not None:
        where.add("(d.at, d.schedule) > (?, ?)", *read_cursor(query.cursor, 2))
    statement = f"{_ROWS}{where.sql()} ORDER BY d.at, d.schedule LIMIT ?"
    return whole_rows(statement), [*where.values, query.limit + 1]


def _lanes(ask: Ask, kind: str | None) -> Iterator[str]:
    if kind is not None:
        return (lane_of(kind, at_most_once=exact) for exact in (False, True))
    return (row[0] for row in ask(_LANES, ()))
