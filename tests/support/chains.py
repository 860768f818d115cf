"""Schedules that follow others, and a worker that goes through a chain, in this process or in one that dies."""

from __future__ import annotations

from typing import Any

from duetime.engine.clock import HOUR, NEVER, Instant
from duetime.engine.model import FOLLOWED, Definition, ScheduleId
from duetime.engine.policy.rows import Draft
from duetime.engine.triggers import trigger_to_json
from duetime.engine.triggers.build import build_trigger
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every
from tests.support.dying import Death, die_at, open_quietly
from tests.support.hand import Hand, the
from tests.support.happenings import expand


def after(store: BaseStore, first: ScheduleId, outcome: str = "succeeds", **given: Any) -> Draft:
    """Return the draft of a schedule that follows another one, which is told that somebody follows it."""
    store.follow(first)
    definition = every(HOUR, **given).definition
    return Draft(definition._replace(trigger=rule(the(store, first).definition, outcome)), NEVER)


def rule(followed: Definition, outcome: str = "succeeds") -> str:
    config = {"outcome": outcome, FOLLOWED: (followed.id, followed.public_id, followed.name)}
    return trigger_to_json(build_trigger("after", config, zone="UTC", now=Instant(T0)))


def go_through(store: BaseStore, now: int) -> None:
    """Work until nothing is left to do, as a worker that has just started, which first finds what dead ones held."""
    for row in store.workers():
        store.rescue(row.id, row.beat, Instant(now))
    hand = Hand(store, now=now)
    while (done := expand(store, now)) or (claims := hand.claim(now)):
        if not done:
            hand.record(claims, now)


def go_until_death(url: str, now: int, death: Death) -> None:
    store = open_quietly(url)
    die_at(store, death)
    go_through(store, now)
    store.close()
