"""Events for tests of stores: schedules that wait for them, and a way to send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duetime.engine.clock import NEVER, Instant
from duetime.engine.model import EventRow
from duetime.engine.policy.rows import Draft
from duetime.engine.store_interfaces import SentEvent
from duetime.engine.triggers.event import EventTrigger, conditions_of
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, draft
from tests.support.dying import Death, die_at, open_quietly
from tests.support.hand import Hand


def waits(event: str = "push", where: Any = None, cooldown: int = 0, **given: Any) -> Draft:
    """Return a schedule that waits for an event."""
    trigger = EventTrigger(timezone="UTC", event=event, where=conditions_of(where), cooldown=cooldown)
    return draft(trigger, NEVER, **given)


def send(
    store: BaseStore, name: str = "push", data: Any = None, at: int = T0, key: str | None = None, **given: Any
) -> SentEvent:
    owner, depth = given.get("owner", "ada"), given.get("depth", 0)
    return store.emit(EventRow(0, owner, name, key, Instant(at), depth, json.dumps({} if data is None else data)))


def expand(store: BaseStore, now: int = T0) -> int:
    """Turn all events into runs; return the number of transactions that it took."""
    number = 0
    while store.expand_events(Instant(now)):
        number += 1
    return number


# A sender and a worker in a process of their own, which dies at a chosen commit.

KEYS = ("a", "b", "c")
"""The keys of the events that are sent."""


def live(store: BaseStore, owner: str, base: int, acknowledge: Callable[[str], None]) -> None:
    """Send the events, as a sender that repeats what was not acknowledged, and work until nothing is left to do."""
    for row in store.workers():
        store.rescue(row.id, row.beat, Instant(base))
    hand = Hand(store, now=base)
    for number, key in enumerate(KEYS):
        send(store, "push", {"n": number}, at=base + number, key=key, owner=owner)
        acknowledge(key)
        expand(store, base + number)
        hand.record(hand.claim(base + number, lanes=("job",)), base + number)
    while (done := expand(store, base + 10)) or (claims := hand.claim(base + 10)):
        if not done:
            hand.record(claims, base + 10)


def live_until_death(url: str, owner: str, base: int, death: Death, acknowledged: str) -> None:
    store = open_quietly(url)
    die_at(store, death)
    with Path(acknowledged).open("a", encoding="utf-8") as file:

        def acknowledge(key: str) -> None:
            file.write(f"{key}\n")
            file.flush()

        live(store, owner, base, acknowledge)
    store.close()
