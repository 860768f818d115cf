"""Searches as SQL that both dialects understand; `?` stands for a parameter."""

from __future__ import annotations

import base64
import binascii
import json
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from duetime.engine.clock import DAY
from duetime.engine.errors import InvalidInput
from duetime.engine.model import Schedule, lane_of
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.queries import whole_rows
from duetime.stores.rows import schedule_of

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_LIVE = ("pending", "queued", "running", "waiting")
_UNWELL = ("failed", "lost", "cancelled", "missed", "skipped")
# Spelled out, and as the indexes of such runs spell it: only then are they known to fit.
LIVE = f"status IN {_LIVE}"
UNWELL = " AND ".join(f"status <> '{status}'" for status in ("completed", "running", "pending", "queued", "waiting"))
OUTGOING = "kind IN ('notification', 'request')"
# Few, where a million schedules may be active, or a million runs may be an owner's.
_HAS_LIVE_RUN = f"p.schedule IN (SELECT schedule FROM runs WHERE {LIVE})"  # noqa: S608 - of constants alone
_AMONG_LIVE = f"id IN (SELECT id FROM runs WHERE {LIVE})"  # noqa: S608 - of constants alone

STATUSES: dict[str, str] = {
    "pending": "p.state = 'active' AND p.active = 0",
    "running": f"p.state IN ('active', 'paused', 'cancelled') AND p.active > 0 AND {_HAS_LIVE_RUN}",
    "completed": "p.state = 'ended' AND p.last_status = 'completed'",
    "failed": (
        "(p.state = 'ended' AND (p.last_status IS NULL OR p.last_status <> 'completed')"
        " OR p.state IN ('active', 'paused') AND p.last_status IN ('failed', 'lost'))"  # as its index spells it
    ),
    "cancelled": "p.state = 'cancelled' AND p.active = 0",
    "paused": "p.state = 'paused' AND p.active = 0",
    "broken": "p.state = 'broken'",
    "living": "p.state IN ('active', 'paused', 'broken')",
}
"""What people call a schedule's status, in terms of its progress row."""


class Where:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self.parts.append(condition)
        self.values.extend(values)

    def equal(self, column: str, value: Any) -> None:
        if value is not None:
            self.add(f"{column} = ?", value)

    def sql(self) -> str:
        return " WHERE " + " AND ".join(self.parts) if self.parts else ""


def schedule_filter(query: ScheduleQuery, *, along_queue: bool = False) -> Where:
    """`along_queue`: the statement goes along the due queue. There, as where few schedules changed, the owner is
    compared without an index: a database that does not know yet how much an owner has would go through all of it."""
    where = Where()
    if query.changed_since is not None:
        where.add("s.updated >= ?", query.changed_since)
    where.equal("p.owner || ''" if along_queue or query.changed_since is not None else "p.owner", query.owner)
    where.equal("p.kind", query.kind)
    where.equal("s.subject", query.subject)
    if query.status is None:
        if query.changed_since is None:  # whoever asks what changed wants to hear of what was deleted
            where.add("p.state <> 'deleted'")
    elif query.status in STATUSES:
        where.add(STATUSES[query.status])
    else:
        raise InvalidInput(f"Unknown status: {query.status}", field="status")
    if query.firing:
        where.add("p.state = 'active' AND p.next IS NOT NULL")
    if query.text:
        where.add("lower(s.name) LIKE ? ESCAPE '!'", f"%{_escape(_folded(query.text))}%")
    if query.due_from is not None:
        where.add("coalesce(p.next, p.through) >= ?", query.due_from)
    if query.due_to is not None:
        where.add("coalesce(p.next, p.through) <= ?", query.due_to)
    return where


def _folded(text: str) -> str:
    """ASCII alone, as both databases' lower() do here: folding more on one side would miss names that are equal."""
    return text.translate(_LOWER)


def _escape(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


NEVER = 2**62
"""Stands for the time of a schedule that has none, so that it sorts last in every dialect."""


def schedule_page(query: ScheduleQuery) -> tuple[str, list[Any]]:
    """The statement of one page, one row longer than asked for, to know whether there is more."""
    where = schedule_filter(query)
    direction = "DESC" if query.newest_first else "ASC"
    beyond = "<" if query.newest_first else ">"
    moment = f"coalesce(p.next, p.through, {NEVER})"
    order = f"{moment} {direction}, p.schedule {direction}" if query.by_time else f"p.schedule {direction}"
    if query.cursor is not None:
        at, last = read_cursor(query.cursor, 2 if query.by_time else 1)
        if query.by_time:
            where.add(f"({moment}, p.schedule) {beyond} (?, ?)", at, last)
        else:
            where.add(f"p.schedule {beyond} ?", last)
    statement = (
        f"SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id{where.sql()} ORDER BY {order} LIMIT ?"  # noqa: S608
    )
    return whole_rows(statement), [*where.values, query.limit + 1]


def place_of(query: ScheduleQuery, schedule: Schedule) -> tuple[int, ...]:
    """Where it stands in such a list."""
    definition, progress = schedule
    return (progress.next or progress.through or NEVER, definition.id) if query.by_time else (definition.id,)


def schedule_count(query: ScheduleQuery) -> tuple[str, list[Any]]:
    where = schedule_filter(query)
    source = "progress p"
    if query.text or query.subject is not None or query.changed_since is not None:
        source = "schedules s JOIN progress p ON p.schedule = s.id"
    return _bounded(f"SELECT 1 FROM {source}{where.sql()} ORDER BY p.schedule", where, query.count_to)  # noqa: S608


def _bounded(rows: str, where: Where, most: int) -> tuple[str, list[Any]]:
    """Counts one more than asked for, to know whether there are. In the order of a page, and so by the same index."""
    return f"SELECT count(*) FROM ({rows} LIMIT ?) AS counted", [*where.values, most + 1]  # noqa: S608


def marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


def _run_status(where: Where, status: str, kinds: Collection[str]) -> None:
    if status == "live":
        where.add(_AMONG_LIVE)
    elif status == "dead":
        where.add("status IN ('failed', 'lost') AND stop = 0")
        where.add(OUTGOING if kinds and {*kinds} <= {"notification", "request"} else UNWELL)
    else:
        where.equal("status", status)
        if status in _LIVE:
            where.add(_AMONG_LIVE)
        elif status in _UNWELL:
            where.add(UNWELL)


def _run_kinds(where: Where, kinds: Collection[str]) -> None:
    if kinds:
        where.add(f"kind IN ({marks(kinds)})" if len(kinds) > 1 else "kind = ?", *kinds)
        if "job" not in kinds:
            where.add("kind <> 'job'")  # as the index of the others spells it


def run_filter(query: RunQuery) -> Where:
    where = Where()
    where.equal("owner", query.owner)
    kinds = query.kinds if query.kind is None else (query.kind,)
    _run_kinds(where, kinds)
    where.equal("schedule", query.schedule)
    if query.status is not None:
        _run_status(where, query.status, kinds)
    where.equal("worker", query.worker)
    if query.above is not None:
        where.add("id > ?", query.above)
    if query.ids is not None:
        where.add(f"id IN ({marks(query.ids)})" if query.ids else "1 = 0", *query.ids)
    if query.subject is not None:
        where.add("EXISTS (SELECT 1 FROM schedules s WHERE s.id = r.schedule AND s.subject = ?)", query.subject)
    if query.depth_below is not None:
        where.add("EXISTS (SELECT 1 FROM schedules s WHERE s.id = r.schedule AND s.depth < ?)", query.depth_below)
    if query.free_at is not None:
        where.add("status = 'waiting'")  # spelled out: only then is the index of waiting runs known to fit
        where.add("(holder IS NULL OR expires <= ?)", query.free_at)
        where.add("EXISTS (SELECT 1 FROM progress p WHERE p.schedule = r.schedule AND p.state = 'active')")
    if query.holder is not None:
        where.add("status = 'waiting'")  # as above
        where.equal("holder", query.holder)
    if query.due_from is not None:
        where.add("due >= ?", query.due_from)
    if query.due_to is not None:
        where.add("due <= ?", query.due_to)
    return where


def runs_by_due(query: RunQuery) -> bool:
    return query.oldest_first or query.schedule is not None


def run_page(query: RunQuery) -> tuple[str, list[Any]]:
    """Latest first: by id across schedules, by due instant within one. Oldest first: always by due instant."""
    where = run_filter(query)
    by_due = runs_by_due(query)
    direction, beyond = ("ASC", ">") if query.oldest_first else ("DESC", "<")
    order = f"due {direction}, id {direction}" if by_due else "id DESC"
    if query.cursor is not None:
        at, last = read_cursor(query.cursor, 2 if by_due else 1)
        if by_due:
            where.add(f"(due, id) {beyond} (?, ?)", at, last)
        else:
            where.add("id < ?", last)
    statement = f"SELECT r.* FROM runs r{where.sql()} ORDER BY {order} LIMIT ?"  # noqa: S608
    return whole_rows(statement), [*where.values, query.limit + 1]


def run_count(query: RunQuery) -> tuple[str, list[Any]]:
    where = run_filter(query)
    return _bounded(f"SELECT 1 FROM runs r{where.sql()}", where, query.count_to)  # noqa: S608


def make_cursor(*position: int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def read_cursor(cursor: str, length: int) -> tuple[int, int]:
    """(instant or 0, id); refuses anything that no page handed out."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        position = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (ValueError, binascii.Error, RecursionError):
        position = None
    numbers = isinstance(position, list) and all(type(part) is int and abs(part) < 2**63 for part in position)
    if not numbers or len(position) != length:
        raise InvalidInput("cursor: not one that a previous page returned; leave it out to begin anew", field="cursor")
    return (position[0] if length == 2 else 0), position[-1]


# Lists of what will fire, in the order of starts, page by page and with every filter.

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
