"""Named queries, and searches for schedules as SQL that both dialects understand; `?` marks a parameter."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from duetime.engine.clock import DAY
from duetime.engine.clock import NEVER as NO_TIME
from duetime.engine.encoding import clean_text
from duetime.engine.errors import InvalidInput, StoreUnusable
from duetime.engine.model import Attempt, Definition, Progress, Run, Schedule, ScheduleState, WorkerRow, kind_and_label
from duetime.engine.policy.options import checked_tag
from duetime.engine.store import ScheduleQuery
from duetime.engine.store_interfaces import Remote
from duetime.stores.transaction import schedule_of

# Named queries and numbered migrations, read from the SQL files beside this module.

_FOLDER = Path(__file__).parent / "sql"
_NAMED = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
_WHOLE_ROW = re.compile(r"\b([sxprwami])\.\*")
_FIELDS = {
    "s": Definition._fields,
    "p": Progress._fields,
    "r": Run._fields,
    "w": WorkerRow._fields,
    "a": Attempt._fields,
    "m": Remote._fields,
    "i": (
        "id", "owner", "schedule", "trouble", "cause", "text", "run", "first", "last", "number", "alert", "due", "told",
        "reminders", "recovered", "resolved", "actor",
    ),
}  # fmt: skip


@lru_cache(maxsize=512)
def whole_rows(statement: str) -> str:
    """Replace `s.*` and the like with column names, because a newer schema may have more columns than this code reads.
    `x.*` is a schedule as its run `r` executes it: with the run's own payload and author, if it has one."""
    return _WHOLE_ROW.sub(lambda match: _columns(match[1]), statement)


def _columns(table: str) -> str:
    if table == "x":
        author = "CASE WHEN r.payload IS NULL THEN s.author ELSE r.actor END"
        return _columns("s").replace("s.payload", "coalesce(r.payload, s.payload)").replace("s.author", author)
    return ", ".join(f"{table}.{name}" for name in _FIELDS[table])


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Return the named queries: those that all dialects share, and those of this dialect. `{name}` stands for a part
    that several of them have, or for an earlier query."""
    files = _FOLDER / "queries.sql", _FOLDER / dialect / "queries.sql"
    pieces = _NAMED.split("".join(file.read_text(encoding="utf-8") for file in files))[1:]
    queries: dict[str, str] = {}
    parts: dict[str, str] = {}
    for sort, name, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        # Without comments, because a statement's text is also its key in the driver's cache.
        lines = [line for line in body.strip().splitlines() if not line.startswith("--")]
        text = _PART.sub(lambda part: parts.get(part[1], part[0]), "\n".join(lines))
        parts[name] = whole_rows(text)
        if sort == "name":
            queries[name] = parts[name]
    return queries


def check_floor(place: str, schema: int, floor: int, known: int) -> None:
    """Refuse a store that is newer than this code, unless its schema says that code of this age may still write."""
    if floor > known:
        raise StoreUnusable(
            f"{place} has schema {schema}, which needs a Duetime that knows schema {floor}, and this Duetime knows"
            f" {known}: install a newer Duetime"
        )


def load_migrations(dialect: str) -> list[tuple[int, str]]:
    """Return (version, script) in order; version n turns schema n-1 into n."""
    migrations = [
        (int(entry.name[:4]), entry.read_text(encoding="utf-8"))
        for entry in (_FOLDER / dialect).iterdir()
        if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
    ]
    return sorted(migrations)


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

# Written exactly as in the partial index of such runs; otherwise, the planner cannot use it.
LIVE = "(status = 'running' OR status = 'pending' OR status = 'queued' OR status = 'waiting')"
# Live runs are few, while a million schedules may be active and an owner may have a million runs.
_HAS_LIVE_RUN = f"p.schedule IN (SELECT schedule FROM runs WHERE {LIVE})"  # noqa: S608 - only constants

_RESTS = "(p.active = 0 OR p.active = p.untaken AND p.next IS NOT NULL)"  # the opposite of `model.is_busy`

STATUSES: dict[str, str] = {
    "pending": f"p.state = 'active' AND {_RESTS}",
    "running": f"p.state IN ('active', 'cancelled') AND p.active > 0 AND NOT {_RESTS} AND {_HAS_LIVE_RUN}",
    "completed": "p.state = 'ended' AND p.last_status = 'completed'",
    "failed": "p.failing = 1",  # as in its partial index
    "cancelled": "p.state = 'cancelled' AND p.active = 0",
    "paused": "p.state = 'paused'",
    "broken": "p.state = 'broken'",
    "living": "p.state IN ('active', 'paused', 'broken')",
    "active": "p.state = 'active'",
    "resting": "p.state IN ('paused', 'broken')",
    "over": "p.state IN ('ended', 'cancelled')",
}
"""The statuses of a schedule that users see, as conditions on its progress row."""
_SEVERAL_STATES = ("resting", "over")
"""Statuses for which no index has the order of a list: they are counted in any order, so that this stays bounded."""


NOT_A_FOLLOW_UP = "substr(s.key, 1, 5) <> '~run:'"
"""See `engine.policy.follow_ups.message_key`."""
ORDERS: dict[str, tuple[str, ...]] = {
    "name": ("lower(s.name)", "s.owner", "s.id"),
    "last_run": ("coalesce(p.last_run, 0)", "p.schedule"),
}
"""The columns of each order."""
PLACE_BY_NAME = "SELECT lower(name), owner, id FROM schedules WHERE id = ?"
"""The same columns for the last schedule of a page by name; cursors contain only numbers."""
NOT_DELETED = "substr(s.key, 1, 6) <> '~gone-'"
"""Written as in the partial indexes by owner and by kind, which leave out deleted schedules."""

HAS_TAGS = """replace(s.policy, '"tagged":"', '') <> s.policy"""
"""Written as in the partial index of tagged schedules."""


def _listed_by(query: ScheduleQuery) -> str:
    """Return the table whose index a list uses: `progress` has the indexes by state, and `schedules` the others."""
    by_name = query.name is not None or query.id_prefix is not None or query.order_by == "name"
    by_name = by_name or query.tagged is not None
    return "s" if by_name or (query.status is None and query.changed_since is None and not query.firing) else "p"


def _number_of(query: ScheduleQuery) -> str:
    return "s.id" if _listed_by(query) == "s" else "p.schedule"


class Where:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self.parts.append(condition)
        self.values.extend(values)

    def optional(self, condition: str, value: Any) -> None:
        """Add a condition on a value, unless that is None."""
        if value is not None:
            self.add(condition, value)

    def equal(self, column: str, value: Any) -> None:
        self.optional(f"{column} = ?", value)

    def sql(self) -> str:
        return " WHERE " + " AND ".join(self.parts) if self.parts else ""


def schedule_filter(query: ScheduleQuery, *, along_queue: bool = False) -> Where:
    """Return the conditions of a query. With `along_queue`, the statement scans the due queue. In that case, and for
    changes and live runs, the owner is compared without its index: a planner without statistics might scan everything
    that the owner has."""
    where, table = Where(), _listed_by(query)
    if query.changed_since is not None:
        where.add("s.updated >= ?", query.changed_since)
    few = query.changed_since is not None or query.id_prefix is not None or query.status == "running"
    indexed = not (along_queue or (few and query.tagged is None))
    where.equal(f"{table}.owner" if indexed else "p.owner || ''", query.owner)
    where.equal(f"{table}.kind", query.kind)
    if query.kinds:
        where.add(f"{table}.kind IN ({marks(query.kinds)})", *query.kinds)
    where.equal("s.subject", query.subject)
    _tagged_with(where, query.tagged)
    _named_by(where, query)
    if query.status is None:
        if query.changed_since is None:  # a caller that asks for changes also needs deletions
            where.add(NOT_DELETED if table == "s" else "p.state <> 'deleted'")
    elif query.status in STATUSES:
        where.add(STATUSES[query.status])
    else:
        raise InvalidInput(f"Unknown status: {query.status}", field="status")
    if query.firing:
        where.add("p.state = 'active' AND p.next <= ?", NO_TIME if query.with_events else NO_TIME - 1)
    if query.order_by == "name" and query.status is not None:
        where.add(NOT_DELETED)  # as in the index by name
    if not query.follow_ups:
        where.add(NOT_A_FOLLOW_UP)
    _matching(where, query)
    return where


def part_of(text: str) -> str:
    """Return the pattern that matches names containing a text. Only ASCII is lowercased, as lower() does in both
    databases here: folding more on one side would miss equal names."""
    escaped = clean_text(text).translate(_LOWER).replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"


def _matching(where: Where, query: ScheduleQuery) -> None:
    if query.text:
        where.add("lower(s.name) LIKE ? ESCAPE '!'", part_of(query.text))
    where.optional("coalesce(p.next, p.through) >= ?", query.due_from)
    where.optional("coalesce(p.next, p.through) <= ?", query.due_to)


def _tagged_with(where: Where, tag: str | None) -> None:
    """Compare the text of the policy, which costs less than reading it as JSON, and no policy can make it fail."""
    if tag is not None:
        pattern = f'%"tagged":"%,{checked_tag(tag).replace("_", "!_")},%'
        where.add(f"{HAS_TAGS} AND {NOT_DELETED} AND s.policy LIKE ? ESCAPE '!'", pattern)


def tagged_schedules(owner: str | None, tag: str) -> Where:
    where = Where()
    where.equal("s.owner", owner)
    _tagged_with(where, tag)
    return where


def _named_by(where: Where, query: ScheduleQuery) -> None:
    if query.name is not None:
        where.add(f"lower(s.name) = ? AND {NOT_DELETED}", query.name.translate(_LOWER))
    if query.id_prefix is not None:
        where.add("s.public_id >= ? AND s.public_id < ?", query.id_prefix, f"{query.id_prefix}\U0010ffff")


NEVER = 2**62
"""Sort key of a schedule that has no time, so that it comes last in every dialect."""
_HELD = (ScheduleState.PAUSED.value, ScheduleState.BROKEN.value)
"""States in which nothing is due, although the last instant is known."""


def schedule_page(query: ScheduleQuery) -> tuple[str, list[Any]]:
    """Return the statement of one page with one row more than asked for, to know whether there are more."""
    where = schedule_filter(query)
    direction = "DESC" if query.newest_first else "ASC"
    beyond = "<" if query.newest_first else ">"
    moment = f"CASE WHEN p.state IN {_HELD} THEN {NEVER} ELSE coalesce(p.next, p.through, {NEVER}) END"
    number = _number_of(query)
    columns = ORDERS.get(query.order_by) or ((moment, number) if query.by_time else (number,))
    place = f"({', '.join(columns)})"
    if query.order_by == "name" and query.cursor is not None:
        owned, owner = ("", []) if query.owner is None else (" AND owner = ?", [query.owner])
        # a caller may have made up the cursor
        where.add(f"{place} {beyond} ({PLACE_BY_NAME}{owned})", *read_cursor(query.cursor, 1), *owner)
    elif query.cursor is not None:
        where.add(f"{place} {beyond} ({marks(columns)})", *read_cursor(query.cursor, len(columns)))
    order = ", ".join(f"{column} {direction}" for column in columns)
    statement = (
        f"SELECT s.*, p.* FROM schedules s JOIN progress p ON p.schedule = s.id{where.sql()} ORDER BY {order} LIMIT ?"  # noqa: S608
    )
    return whole_rows(statement), [*where.values, query.limit + 1]


def place_of(query: ScheduleQuery, schedule: Schedule) -> tuple[int, ...]:
    """Return the position of a schedule in the list."""
    definition, progress = schedule
    if query.order_by == "last_run":
        return progress.last_run or 0, definition.id
    if not query.by_time:
        return (definition.id,)
    return NEVER if progress.state in _HELD else progress.next or progress.through or NEVER, definition.id


def schedule_count(query: ScheduleQuery) -> tuple[str, list[Any]]:
    where = schedule_filter(query)
    order = "" if query.status in _SEVERAL_STATES else f" ORDER BY {_number_of(query)}"
    matching = f"{where.sql()}{order}"
    # Only what the conditions name: looking up the other row of each match would take most of the time.
    source = "schedules s" if "s." in matching else "progress p"
    if "s." in matching and "p." in matching:
        source = "schedules s JOIN progress p ON p.schedule = s.id"
    return bounded_count(f"SELECT 1 FROM {source}{matching}", where, query.count_to)  # noqa: S608


def bounded_count(rows: str, where: Where, most: int) -> tuple[str, list[Any]]:
    """Count one row more than asked for, to know whether there are more; in page order, to use the same index."""
    return f"SELECT count(*) FROM ({rows} LIMIT ?) AS counted", [*where.values, most + 1]  # noqa: S608


def marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


def make_cursor(*position: int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def read_cursor(cursor: str, length: int) -> list[int]:
    """Return the numbers of a position; refuse anything that is not the cursor of a page."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        position = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (ValueError, RecursionError):
        position = None
    numbers = isinstance(position, list) and all(type(part) is int and abs(part) < 2**63 for part in position)
    if not numbers or len(position) != length:
        raise InvalidInput(field="cursor", problem="not a cursor from a previous page; leave it out to start over")
    return list(position)


# Lists of schedules that will fire, in the order of starts, in pages and with every filter.

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Placed = tuple[tuple[int, ...], Schedule]
"""A schedule's position in a list, from which the next page continues, and the schedule."""

MAX_SORTED: Final = 2_000
"""Number of schedules that are cheap to read and sort. The schedules of an owner with more soon appear in a scan of the
queue."""
_OWN: Final = "SELECT count(*) FROM (SELECT 1 FROM progress WHERE owner = ? AND state = 'active' LIMIT ?) AS own"
_LATEST_JITTER: Final = DAY
_ROWS: Final = (
    "SELECT d.at, s.*, p.* FROM due d JOIN progress p ON p.schedule = d.schedule JOIN schedules s ON s.id = d.schedule"
)
# Skips from each lane to the next: the queue may be long, but it has few lanes.
LANES: Final = (
    "WITH RECURSIVE lanes (lane) AS (SELECT min(lane) FROM due UNION ALL"
    " SELECT (SELECT min(due.lane) FROM due WHERE due.lane > lanes.lane) FROM lanes WHERE lanes.lane IS NOT NULL)"
    " SELECT lane FROM lanes WHERE lane IS NOT NULL"
)


def firing(ask: Ask, query: ScheduleQuery) -> list[Placed]:
    """Return one more schedule than asked for, to know whether there are more."""
    few = query.owner is not None and ask(_OWN, (query.owner, MAX_SORTED))[0][0] < MAX_SORTED
    if query.tagged is not None and not few:
        few = ask(*_tagged(query.owner, query.tagged))[0][0] < MAX_SORTED
    lanes: Sequence[str | None] = [None]
    if not few:
        lanes = [lane for (lane,) in ask(LANES, ()) if query.kind in (None, kind_and_label(lane)[0])]
    rows = [(row[0], schedule_of(row[1:])) for lane in lanes for row in ask(*firing_page(query, lane))]
    placed: list[Placed] = [((at, schedule.definition.id), schedule) for at, schedule in rows]
    return sorted(placed, key=lambda each: each[0])[: query.limit + 1]


def _tagged(owner: str | None, tag: str) -> tuple[str, list[Any]]:
    where = tagged_schedules(owner, tag)
    return bounded_count(f"SELECT 1 FROM schedules s{where.sql()}", where, MAX_SORTED)  # noqa: S608


def firing_page(query: ScheduleQuery, lane: str | None) -> tuple[str, list[Any]]:
    """Return the statement for one lane, along the owner's part of the queue; without a lane, for all of an owner."""
    # The entry's owner is enough. From a second comparison, a planner would expect few rows, and sort all there are.
    compared = query if lane is None else replace(query, owner=None)
    where = schedule_filter(compared, along_queue=lane is not None)
    where.add("d.run = 0")  # not retries
    if lane is not None:
        where.equal("d.lane", lane)
        where.equal("d.owner", query.owner)
    where.optional("d.at >= ?", query.due_from)
    if query.due_to is not None:  # read the queue no further than jitter can delay what is due by then
        where.add("d.at <= ?", query.due_to + _LATEST_JITTER)
    if query.cursor is not None:
        where.add("(d.at, d.schedule) > (?, ?)", *read_cursor(query.cursor, 2))
    statement = f"{_ROWS}{where.sql()} ORDER BY d.at, d.schedule LIMIT ?"
    return whole_rows(statement), [*where.values, query.limit + 1]
