"""A request to create a schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from duetime.engine.clock import Instant
from duetime.engine.value_class import NamedTuple

T = TypeVar("T")


class NewSchedule(NamedTuple):
    """A request to create a schedule, not validated yet."""

    kind: str
    name: str
    trigger_type: str
    trigger_config: Mapping[str, Any]
    payload: Mapping[str, Any]
    policy: Mapping[str, Any] = {}
    timezone: str | None = None
    idempotency_key: str | None = None
    first: Instant | None = None
    """The next time of a schedule that comes from another store, in place of the next one by its rule. If it has
    passed, the schedule catches up as after downtime."""


def in_order_of_chains(items: Collection[T], new_of: Callable[[T], NewSchedule]) -> list[T]:
    """Return what is to be created, each schedule after the one that it follows."""
    by_name = {new.name: new for new in map(new_of, items)}

    def place(item: T) -> int:
        number, new = 0, by_name.get(new_of(item).name)
        while new is not None and new.trigger_type == "after" and number < len(by_name):
            config, number = new.trigger_config, number + 1
            new = by_name.get(str(config.get("name") or config.get("schedule")))
        return number

    return sorted(items, key=place)
