"""A request to create a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from duetime.engine.clock import Instant


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
