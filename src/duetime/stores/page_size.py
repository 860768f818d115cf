"""Pages of lists that end early when they get too large, so that no list exhausts the memory of the process."""

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
"""Least and most rows read at once if a page has a limit in bytes: more if the rows before were small."""


def read_page(
    query: Q, read: Callable[[Q], list[tuple[tuple[int, ...], T]]], size_of: Callable[[T], int]
) -> tuple[list[T], str | None]:
    """Return the rows of a page, at least one if there are any, and the cursor of the next page. `read` returns one row
    more than asked for, if there is one, each with its position in the list."""
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
    """Return the approximate size, from the characters of the texts that may be long."""
    definition = schedule.definition
    return 500 + len(definition.payload) + len(definition.trigger) + len(definition.policy)


def run_bytes(run: Run) -> int:
    return 300 + len(run.result or "") + len(run.error or "")
