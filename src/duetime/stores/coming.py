"""What fires next, in time order: by the owner's own schedules where they are few, else along the due queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from duetime.core.clock import DAY, Instant
from duetime.stores.queries import whole_rows

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

FEW: Final = 2_000
"""Schedules that are quickly read and sorted. Of an owner who has more, the queue soon shows some."""

OWN: Final = "SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state = 'active' LIMIT ?) AS own"
_ROWS: Final = (
    "SELECT s.*, p.* FROM {source} JOIN schedules s ON s.id = p.schedule WHERE {where} ORDER BY {order} LIMIT ?"
)
_SOON: Final = " AND p.next <= ?"
_LATEST_JITTER: Final = DAY


def is_few(ask: Ask, owner: str) -> bool:
    return bool(ask(OWN, (owner, FEW))[0][0] < FEW)


def of_owner(owner: str, until: Instant | None, limit: int) -> tuple[str, list[Any]]:
    where = "p.owner = ? AND p.state = 'active' AND p.next IS NOT NULL" + ("" if until is None else _SOON)
    statement = _ROWS.format(source="progress p", where=where, order="p.next, p.schedule")
    return whole_rows(statement), [owner, *([] if until is None else [until]), limit]


def in_lane(lane: str, owner: str | None, until: Instant | None, limit: int) -> tuple[str, list[Any]]:
    """The queue is in the order of starts, which jitter may put off: a start by then may be due before."""
    where, values = "d.lane = ? AND d.run = 0 AND p.state = 'active'", [lane]
    if owner is not None:
        where += " AND p.owner = ?"
        values.append(owner)
    bounds: list[Any] = []
    if until is not None:
        where += " AND d.at <= ?" + _SOON
        bounds = [until + _LATEST_JITTER, until]
    source = "due d JOIN progress p ON p.schedule = d.schedule"
    statement = _ROWS.format(source=source, where=where, order="d.at, d.schedule")
    return whole_rows(statement), [*values, *bounds, limit]
