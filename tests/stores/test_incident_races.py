"""What happens while a worker decides what to tell: nothing is lost, and nothing is said twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.engine.worker.label_check import note_unreachable
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.base import BaseStore
from tests.stores.test_incidents import NO_WATER, open_incidents, run_at, tell, told
from tests.support.drafts import T0, every, once
from tests.support.hand import DONE, Hand, create, create_one

OVERLAPPING = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
"""Only there others can write during a transaction."""
During = Callable[[Callable[[Hand], object]], None]


def meanwhile(store: BaseStore, name: str, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something after a worker has read these rows, and before it writes. It happens once."""
    read = store._named
    waiting = [act]

    def named(query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows = read(query, *values)
        if query == name and waiting:
            waiting.pop()()
        return rows

    monkeypatch.setattr(store, "_named", named)


def test_a_failure_while_an_incident_is_ended_keeps_it_open(
    store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    run_at(hand, T0 + 2 * HOUR, DONE)
    meanwhile(store, "incidents_over", lambda: run_at(hand, T0 + 3 * HOUR, NO_WATER), monkeypatch)
    tell(store, T0 + 3 * HOUR)
    tell(store, T0 + 4 * HOUR)
    assert told(store) == ["water the plants failed"], "nobody hears that it works while it does not"
    (incident,) = open_incidents(store)
    assert (incident.number, incident.last) == (2, T0 + 3 * HOUR)


@pytest.fixture
def telling(store: BaseStore, opener: Callable[[], BaseStore]) -> During:
    """Let something happen in another process while a message is made, between the rows that it is about and the
    write that marks them."""
    other = Hand(opener(), "other")

    def tell_during(act: Callable[[Hand], object]) -> None:
        def payload(message: Any) -> Any:
            act(other)
            return MESSENGER.payload(message)

        store.messenger = replace(MESSENGER, payload=payload)
        tell(store, T0 + 2 * HOUR)
        store.messenger = MESSENGER

    return tell_during


@OVERLAPPING
def test_a_failure_while_the_message_is_made_gets_its_own_if_every_one_does(
    store: BaseStore, hand: Hand, telling: During
) -> None:
    create_one(store, every(HOUR, alert="every"))
    run_at(hand, T0 + HOUR, NO_WATER)
    telling(lambda other: run_at(other, T0 + 2 * HOUR, NO_WATER))
    assert (len(told(store)), tell(store, T0 + 3 * HOUR)) == (1, 1)
    assert tell(store, T0 + 4 * HOUR) == 0


@OVERLAPPING
def test_a_further_failure_while_the_message_is_made_is_in_it(store: BaseStore, hand: Hand, telling: During) -> None:
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    telling(lambda other: run_at(other, T0 + 2 * HOUR, NO_WATER))
    assert (len(told(store)), tell(store, T0 + 3 * HOUR)) == (1, 0)


@OVERLAPPING
def test_what_is_resolved_while_the_message_is_made_is_not_reminded_of(
    store: BaseStore, hand: Hand, telling: During
) -> None:
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    (incident,) = open_incidents(store)
    run = incident.run
    assert run is not None
    telling(lambda other: other.store.change_run(run, Instant(T0 + 2 * HOUR), changes.dismiss))
    for day in range(1, 4):
        tell(store, T0 + day * DAY)
    assert len(told(store)) == 1


@pytest.mark.parametrize("engine", ["file", "postgres"], indirect=True)
def test_failures_of_many_and_messages_about_them_wait_in_one_order(
    store: BaseStore, opener: Callable[[], BaseStore]
) -> None:
    """The newest schedules fail first, so that incidents have the opposite order; nobody waits in a circle."""
    create(store, *(every(name=f"plant {each}", pause_after=0, alert="every") for each in range(60)))
    hand, other = Hand(store), opener()
    first = hand.claim(T0 + MINUTE)
    for claim in reversed(first):
        hand.record([claim], T0 + MINUTE, NO_WATER)
    done = threading.Event()
    numbers: list[int] = []

    def keep_telling() -> None:
        now = T0 + MINUTE
        while not done.is_set():
            numbers.append(tell(other, now))
            now += HOUR

    teller = threading.Thread(target=keep_telling)
    teller.start()
    try:
        for minute in range(2, 12):
            hand.record(
                hand.claim(T0 + minute * MINUTE), T0 + minute * MINUTE, Failed("tank 9 is empty", permanent=True)
            )
    finally:
        done.set()
        teller.join()
    assert sum(each.number for each in open_incidents(store)) == 60 * 11
    assert sum(numbers) == len(told(store)) >= 1


@pytest.mark.later
def test_owners_who_wait_do_not_keep_others_waiting(store: BaseStore, hand: Hand) -> None:
    """Far more of one owner is due than a worker looks at in one go."""
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    create(store, *(every(name=f"plant {each}") for each in range(1100)))
    create_one(store, every(2 * MINUTE, owner="bob"))
    while claims := hand.claim(T0 + HOUR + MINUTE, limit=1000):
        hand.record(claims, T0 + HOUR + MINUTE, NO_WATER)
    assert tell(store, T0 + HOUR + MINUTE) == 1
    assert told(store, "bob") == ["water the plants failed"]


def test_a_clock_that_was_ahead_silences_nobody(store: BaseStore, hand: Hand) -> None:
    create(store, every(HOUR), every(HOUR, name="mow"))
    run_at(hand, T0 + 365 * DAY, NO_WATER)
    tell(store, T0 + 365 * DAY)
    run_at(hand, T0 + HOUR, NO_WATER)
    create_one(store, every(HOUR, name="rake"))
    run_at(hand, T0 + 2 * HOUR, NO_WATER)
    tell(store, T0 + 2 * HOUR)
    assert told(store)[-1] == "rake failed"


def test_two_workers_that_find_work_without_a_worker_count_it_once(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_one(store, once(needs="gpu"))
    now = Instant(T0 + HOUR)
    meanwhile(store, "unreachable", lambda: note_unreachable(store, now), monkeypatch)
    note_unreachable(store, now)
    assert [each.number for each in open_incidents(store)] == [1]
