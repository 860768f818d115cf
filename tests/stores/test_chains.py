"""Schedules that follow others: the end of a run starts them, once, whatever path recorded it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.errors import Conflict, WorkerGone
from duetime.engine.model import ScheduleId
from duetime.engine.outcome import Completed, Failed
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.stores.base import BaseStore
from tests.support.chains import after, rule
from tests.support.drafts import T0, every
from tests.support.hand import Hand, create_one, runs_of, statuses, the


def expand(store: BaseStore, now: int) -> None:
    while store.expand_events(Instant(now)):
        pass


def end_first(store: BaseStore, hand: Hand, now: int, outcome: object = None) -> None:
    claims = hand.claim(now)
    assert claims
    hand.record(claims, now, outcome or Completed('"done"'))  # type: ignore[arg-type]
    expand(store, now)


OUTCOMES = {"completed": Completed('{"text": "3 files"}'), "failed": Failed("no disk")}


@pytest.mark.parametrize("ends", OUTCOMES)
def test_the_outcome_decides_who_follows(store: BaseStore, hand: Hand, ends: str) -> None:
    first = create_one(store, every(HOUR, max_attempts=1))
    rest = {name: create_one(store, after(store, first, name, name=name)) for name in ("succeeds", "fails", "ends")}
    end_first(store, hand, T0 + HOUR, OUTCOMES[ends])
    fired = {name for name, schedule in rest.items() if runs_of(store, schedule)}
    assert fired == {"completed": {"succeeds", "ends"}, "failed": {"fails", "ends"}}[ends]
    [run] = runs_of(store, rest["ends"])
    event = store.event(int(run.cause.removeprefix("event:")))
    assert event is not None
    data = json.loads(event.data)
    expected = {"completed": ("completed", "3 files", None), "failed": ("failed", "", "no disk")}[ends]
    assert (data["status"], data["text"], data["error"]) == expected
    assert data["run"] == runs_of(store, first)[0].id and event.name == f"~ended.{first}"


def test_the_plain_path_and_the_decided_one_write_the_same_event(store: BaseStore, hand: Hand) -> None:
    events = []
    for overlap in ("skip", "queue"):  # a policy that queues runs is always decided
        first = create_one(store, every(HOUR, overlap=overlap))
        second = create_one(store, after(store, first))
        end_first(store, hand, T0 + HOUR)
        [run] = runs_of(store, second)
        event = store.event(int(run.cause.removeprefix("event:")))
        assert event is not None and run.due == event.at == T0 + HOUR and statuses(store, second) == ["pending"]
        hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
        data = json.loads(event.data)
        assert data.pop("schedule") and data.pop("run") == runs_of(store, first)[0].id
        events.append((event._replace(id=0, name="", key="", data=""), data))
        store.change(first, Instant(T0 + HOUR), changes.cancel)
    assert events[0] == events[1]


def test_a_schedule_that_nobody_follows_any_more_writes_no_event(store: BaseStore, hand: Hand) -> None:
    first = create_one(store, every(HOUR))
    second = create_one(store, after(store, first))
    store.change(second, Instant(T0), changes.delete)
    end_first(store, hand, T0 + HOUR)
    assert store.events_of(None, 10) == [] and runs_of(store, second) == []


def test_a_retry_by_hand_that_succeeds_fires(store: BaseStore, hand: Hand) -> None:
    first = create_one(store, every(HOUR, max_attempts=1))
    second = create_one(store, after(store, first))
    end_first(store, hand, T0 + HOUR, Failed("no disk"))
    assert runs_of(store, second) == []
    [run] = runs_of(store, first)
    store.change_run(run.id, Instant(T0 + HOUR + MINUTE), changes.retry)
    end_first(store, hand, T0 + HOUR + MINUTE)
    assert statuses(store, first) == ["completed"] and statuses(store, second) == ["pending"]


def test_what_did_not_run_is_no_end(store: BaseStore, hand: Hand) -> None:
    first = create_one(store, every(HOUR, catch_up="skip", grace=MINUTE))
    second = create_one(store, after(store, first, "ends"))
    assert hand.claim(T0 + 5 * HOUR + 30 * MINUTE) == []
    run = store.change(first, Instant(T0 + 5 * HOUR + 40 * MINUTE), changes.fire)
    store.change_run(run.id, Instant(T0 + 5 * HOUR + 41 * MINUTE), changes.cancel_run)
    expand(store, T0 + 5 * HOUR + 50 * MINUTE)
    assert set(statuses(store, first)) == {"missed", "cancelled"} and runs_of(store, second) == []


def test_a_lost_run_is_a_failure(store: BaseStore, hand: Hand) -> None:
    first = create_one(store, every(HOUR, at_most_once=True))
    second = create_one(store, after(store, first, "fails"))
    assert hand.claim(T0 + HOUR)
    hand.die(T0 + 2 * HOUR)
    expand(store, T0 + 2 * HOUR)
    assert statuses(store, first)[0] == "lost" and len(runs_of(store, second)) == 1


def test_a_circle_is_refused(store: BaseStore) -> None:
    first = create_one(store, every(HOUR, name="first"))
    second = create_one(store, after(store, first, name="second"))
    third = create_one(store, after(store, second, name="third"))
    for target in (first, second, third):
        patch = Edit(trigger=rule(the(store, target).definition))
        with pytest.raises(Conflict, match="it would follow itself"):
            store.change(first, Instant(T0), partial(changes.edit, patch=patch))
    patch = Edit(trigger=rule(the(store, first).definition))
    store.change(third, Instant(T0), partial(changes.edit, patch=patch))  # two may follow one


@pytest.mark.parametrize("end", [changes.cancel, changes.delete])
def test_a_schedule_that_may_be_restored_is_a_part_of_the_circle(store: BaseStore, end: Callable[..., Any]) -> None:
    first = create_one(store, every(HOUR, name="first"))
    second = create_one(store, after(store, first, name="second"))
    patch = Edit(trigger=rule(the(store, second).definition))
    store.change(second, Instant(T0), end)
    with pytest.raises(Conflict, match="it would follow itself"):
        store.change(first, Instant(T0), partial(changes.edit, patch=patch))


def test_of_two_edits_that_close_a_circle_together_one_is_refused(store: BaseStore) -> None:
    for number in range(10):
        pair = [create_one(store, every(HOUR, name=f"{number} {each}")) for each in "ab"]
        for each in pair:
            store.follow(each)
        start = threading.Barrier(2)

        def follow(own: ScheduleId, other: ScheduleId, start: threading.Barrier = start) -> bool:
            start.wait(10)
            try:
                patch = Edit(trigger=rule(the(store, other).definition))
                store.change(own, Instant(T0), partial(changes.edit, patch=patch))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(follow, pair, reversed(pair))) == [False, True]


def test_a_run_that_another_worker_completes_fires_once(store: BaseStore, hand: Hand) -> None:
    first = create_one(store, every(HOUR, max_attempts=3))
    second = create_one(store, after(store, first))
    claims = hand.claim(T0 + HOUR)
    hand.die(T0 + HOUR + MINUTE)
    other = Hand(store, "other", T0 + HOUR + MINUTE)
    again = other.claim(T0 + HOUR + 2 * MINUTE)
    other.record(again, T0 + HOUR + 2 * MINUTE)
    with suppress(WorkerGone):
        hand.record(claims, T0 + HOUR + 3 * MINUTE)
    expand(store, T0 + HOUR + 3 * MINUTE)
    assert statuses(store, first) == ["completed"] and len(runs_of(store, second)) == 1


@pytest.mark.later
def test_a_chain_of_a_thousand_ends(store: BaseStore, hand: Hand) -> None:
    length = 1000 if store.__class__.__name__ == "SqliteStore" else 60
    first = last = create_one(store, every(HOUR, name="0"))
    for number in range(1, length):
        last = create_one(store, after(store, last, name=str(number)))
    for _ in range(length):
        end_first(store, hand, T0 + HOUR)
    assert statuses(store, last) == ["completed"] and hand.claim(T0 + HOUR) == []
    patch = Edit(trigger=rule(the(store, last).definition))
    with pytest.raises(Conflict, match="it would follow itself"):
        store.change(first, Instant(T0 + HOUR), partial(changes.edit, patch=patch))
