"""Limits in bytes: on what an owner stores (every create adds to the total, which is recounted periodically) and on
pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Final, TypeVar

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.errors import LimitReached
from duetime.engine.model import Run, Schedule
from duetime.engine.policy.bulk import CREATED, OWNER, PAYLOAD, POLICY, drafts_in_columns
from duetime.engine.policy.rows import Draft
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.search import make_cursor
from duetime.stores.transaction import Transaction

_BYTES_PER_SCHEDULE: Final = 500
"""Approximate bytes of a schedule besides its payload and policy."""
MAX_TOTAL_AGE: Final = HOUR
"""Age after which a total is recounted, to include the results of later runs and deletions."""
MAX_TOTAL_AGE_WHEN_FULL: Final = MINUTE
"""The same for an owner over the limit, so that deleting something takes effect soon."""


class NeedsCount(Exception):
    """The total of an owner is too old for a decision."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def size_of(payload: str, policy: str) -> int:
    """Return the size of a schedule with this payload and this policy, which includes its callbacks."""
    return len((payload + policy).encode("utf-8", "surrogatepass")) + _BYTES_PER_SCHEDULE


def add_bytes_of(tx: Transaction, drafts: Sequence[Draft], most: Mapping[str, int]) -> None:
    if not most or not drafts:
        return
    columns = drafts_in_columns(drafts).definitions
    sizes = list(map(size_of, columns[PAYLOAD], columns[POLICY]))
    for owner, limit in sorted(most.items()):
        number = sum(compress(sizes, map(owner.__eq__, columns[OWNER])))
        if number:
            add_bytes(tx, owner, number, limit, columns[CREATED][0])


def add_bytes(tx: Transaction, owner: str, number: int, limit: int, now: Instant) -> None:
    """Add to an owner's total. Raise LimitReached, or NeedsCount to have the transaction retried after a recount."""
    [(total, counted)] = tx.rows("add_stored_bytes", owner, number)
    if now - counted > (MAX_TOTAL_AGE_WHEN_FULL if total > limit else MAX_TOTAL_AGE):
        raise NeedsCount(owner)
    if total > limit:
        message = (
            f"the limit of {limit / 1024 / 1024:.3g} MB of stored schedules and results is reached; delete some that"
            " are no longer needed and try again in a minute, or ask the operator to raise max_stored_bytes or to"
            " shorten retention_days"
        )
        raise LimitReached(message, details={"limit": limit})


# Pages of lists end early when they get too large, so that no list exhausts the memory of the process.

Q = TypeVar("Q", ScheduleQuery, RunQuery)
T = TypeVar("T")

CHUNK, LARGEST_CHUNK = 100, 500
"""Minimum and maximum number of rows read at once if a page has a limit in bytes: more if the previous rows were
small."""


def read_page(
    query: Q, read: Callable[[Q], list[tuple[tuple[int, ...], T]]], size_of: Callable[[T], int]
) -> tuple[list[T], str | None]:
    """Return the rows of a page, at least one if there are any, and the cursor of the next page. `read` returns one row
    more than asked for, if there is one, each with its position in the list."""
    items: list[T] = []
    size, part = 0, query
    while True:
        chunk = query.limit - len(items)
        if query.most_bytes is not None:
            fitting = (query.most_bytes - size) * len(items) // max(1, size)
            chunk = min(chunk, LARGEST_CHUNK, max(CHUNK, fitting))
        rows = read(part if part.limit == chunk else replace(part, limit=chunk))
        for number, (place, item) in enumerate(rows[:chunk], start=1):
            items.append(item)
            size += size_of(item)
            full = query.most_bytes is not None and size >= query.most_bytes
            if (full or len(items) == query.limit) and number < len(rows):
                return items, make_cursor(*place)
        if len(rows) <= chunk or len(items) >= query.limit:
            return items, None
        part = replace(part, cursor=make_cursor(*rows[chunk - 1][0]))


def schedule_bytes(schedule: Schedule) -> int:
    """Return the approximate size, from the lengths of the texts that may be long."""
    definition = schedule.definition
    return 500 + len(definition.payload) + len(definition.trigger) + len(definition.policy)


def run_bytes(run: Run) -> int:
    return 300 + len(run.result or "") + len(run.error or "")
