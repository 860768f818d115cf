"""Events for tests of stores: schedules that wait for them, and a way to send them."""

from __future__ import annotations

import json
from typing import Any

from duetime.engine.clock import NEVER, Instant
from duetime.engine.model import NewEvent
from duetime.engine.policy.rows import Draft
from duetime.engine.store_interfaces import StoredEvent
from duetime.engine.triggers.event import EventTrigger, conditions_of
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, draft


def waits(event: str = "push", where: Any = None, cooldown: int = 0, **given: Any) -> Draft:
    """Return a schedule that waits for an event."""
    trigger = EventTrigger(timezone="UTC", event=event, where=conditions_of(where), cooldown=cooldown)
    return draft(trigger, NEVER, **given)


def send(
    store: BaseStore, name: str = "push", data: Any = None, at: int = T0, key: str | None = None, **given: Any
) -> StoredEvent:
    owner, depth = given.get("owner", "ada"), given.get("depth", 0)
    return store.emit(NewEvent(owner, name, key, Instant(at), depth, json.dumps({} if data is None else data)))


def expand(store: BaseStore, now: int = T0) -> int:
    """Turn all events into runs; return the number of transactions that it took."""
    number = 0
    while store.expand_events(Instant(now)):
        number += 1
    return number
