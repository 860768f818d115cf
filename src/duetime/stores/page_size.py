"""Pages of lists that end early when they grow too large, so that no list takes the memory of the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from duetime.engine.model import Run, Schedule
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.search import make_cursor

Q = TypeVar("Q", ScheduleQuery, RunQuery)
T = TypeVar("T")

CHUNK, LARGEST_CHUNK = 100, 500
"""Rows that are read at once where a page has a limit of bytes: more, where those before were small."""


def read_page(
    query: Q, read: Callable[[Q], list[tuple[tuple[int, ...], T]]], size_of: Callable[[T], int]
) -> tuple[list[T], str | None]:
    """The rows of a page, at least one, and the cursor of the next page. `read` gives one more than is asked for, if
    there is one, each with its place in the list."""
    items: list[T] = []
    size, asked = 0, query
    while True:
        chunk = query.limit - len(items)
        if query.most_bytes is not None:
            fitting = (query.most_bytes - size) * len(items) // max(1, size)
            chunk = min(chunk, LARGEST_CHUNK, max(CHUNK, fitting))
        found = read(replace(asked, limit=chunk))
        for number, (place, item) in enumerate(found[:chunk], start=1):
            items.append(item)
            size += size_of(item)
            full = query.most_bytes is not None and size >= query.most_bytes
            if (full or len(items) == query.limit) and number < len(found):
                return items, make_cursor(*place)
        if len(found) <= chunk or len(items) >= query.limit:
            return items, None
        asked = replace(asked, cursor=make_cursor(*found[chunk - 1][0]))


def schedule_bytes(schedule: Schedule) -> int:
    """About what it takes: characters of the texts that may be long."""
    definition = schedule.definition
    return 500 + len(definition.payload) + len(definition.trigger) + len(definition.policy)


def run_bytes(run: Run) -> int:
    return 300 + len(run.result or "") + len(run.error or "")
