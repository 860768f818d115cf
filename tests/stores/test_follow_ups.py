"""What begins with the end of a run: its message, its callbacks, the alert of a schedule that keeps failing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.outcome import Alert, Cancelled, Completed, Failed, Outcome, Returned
from duetime.engine.policy import changes
from duetime.engine.policy.finish import HeldRun, was_paused_by_engine
from duetime.engine.policy.record import Finished, Receipt, plan_settlement
from duetime.engine.store import ScheduleQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, the, the_run

CALLBACK = {"on": "failure", "kind": "request", "payload": {"url": "https://example.org/hook"}}


def followers(store: BaseStore, kind: str = "notification") -> list[Schedule]:
    return store.search(ScheduleQuery(owner="ada", kind=kind, limit=1000)).items


def payloads(store: BaseStore, kind: str = "notification") -> list[dict[str, Any]]:
    return [json.loads(schedule.definition.payload) for schedule in followers(store, kind)]


@pytest.mark.parametrize(
    ("notify_on", "outcome", "title"),
    [
        ("always", Completed('"42 plants"'), "water the plants completed"),
        ("always", Failed("no water", permanent=True), "water the plants failed"),
        ("failure", Failed("no water", permanent=True), "water the plants failed"),
        ("success", Completed("null"), "water the plants completed"),
        ("failure", Completed('"42 plants"'), None),
        ("success", Failed("no water", permanent=True), None),
        ("always", Cancelled("taken back"), None),
    ],
)
def test_an_ending_is_told_to_its_topic(
    store: BaseStore, hand: Hand, notify_on: str, outcome: Outcome, title: str | None
) -> None:
    create_one(store, once(deliver_to="garden", notify_on=notify_on))
    hand.record(hand.claim(T0), T0 + SECOND, outcome)
    assert [(each["topic"], each["title"]) for each in payloads(store)] == (
        [] if title is None else [("garden", title)]
    )


def test_the_message_quotes_what_came_of_it(store: BaseStore, hand: Hand) -> None:
    for deliver_to in ("one", "two", "three"):
        create_one(store, once(deliver_to=deliver_to))
    results = ('"42 plants"', '{"text": "all green", "tokens": 7}', json.dumps("x" * 10_000))
    for claim, result in zip(hand.claim(T0), results, strict=True):
        hand.record([claim], T0, Completed(result))
    told = {each["topic"]: each["message"] for each in payloads(store)}
    assert (told["one"], told["two"]) == ("42 plants", "all green")
    assert len(told["three"]) < 4100


def test_a_result_may_give_the_message_its_title_which_is_cut(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(deliver_to="garden"))
    hand.record(hand.claim(T0), T0, Completed(json.dumps({"title": "ä" * 201, "text": "all green"})))
    (follower,) = followers(store)
    told = json.loads(follower.definition.payload)
    assert (told["title"], told["message"], follower.definition.name) == ("ä" * 200, "all green", "ä" * 200)


def test_it_is_due_at_once_and_made_in_the_same_commit(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(deliver_to="garden"))
    (claim,) = hand.claim(T0)
    assert hand.record([claim], T0 + SECOND) == [Receipt.RECORDED]
    assert hand.record([claim], T0 + SECOND) == [Receipt.ALREADY]
    (follower,) = followers(store)
    assert follower.definition.key.startswith(f"~run:{claim.run.id}.")
    entry = store.earliest(["notification"])
    assert entry is not None and (entry.schedule, entry.at) == (follower.definition.id, T0 + SECOND)


def test_a_run_that_is_tried_again_is_told_again(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(deliver_to="garden"))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Failed("no water"))
    store.change_run(claim.run.id, Instant(T0 + 1), changes.retry)
    hand.record(hand.claim(T0 + 1), T0 + 2)
    assert sorted(each["title"] for each in payloads(store)) == [
        "water the plants completed",
        "water the plants failed",
    ]


def test_a_lost_run_is_told_too(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(deliver_to="garden", notify_on="failure", at_most_once=True))
    hand.claim(T0)
    hand.die(T0)
    assert [each["title"] for each in payloads(store)] == ["water the plants failed"]


def test_a_callback_is_told_what_it_follows(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(payload='{"url": "https://example.org"}', callbacks=[CALLBACK]))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Failed("404", permanent=True))
    (payload,) = payloads(store, "request")
    assert payload["url"] == "https://example.org/hook"
    about = payload["about"]
    assert (about["run"], about["status"], about["error"]) == (claim.run.id, "failed", "404")
    assert json.loads(about["payload"]) == {"url": "https://example.org"}


def test_a_schedule_that_keeps_failing_is_paused_and_tells_once(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, pause_after=3))
    runs = []
    for number in range(1, 4):
        now = T0 + number * MINUTE
        assert the(store, schedule).progress.state == ScheduleState.ACTIVE
        [claim] = hand.claim(now)
        hand.record([claim], now, Failed(f"no water {number}"))
        runs.append(claim.run.id)
    progress = the(store, schedule).progress
    assert (progress.state, progress.failures) == (ScheduleState.PAUSED, 3)
    assert progress.note is not None and "3 failures in a row" in progress.note
    assert was_paused_by_engine(progress)
    assert hand.claim(T0 + 10 * MINUTE) == []
    store.tell_incidents(Instant(T0 + 3 * MINUTE))
    (told,) = payloads(store)
    assert (told["topic"], told["title"]) == ("duetime-alerts", "water the plants is paused")
    assert told["message"].startswith("water the plants is paused after 3 failures"), "a person knows it by its name"
    assert "no water 3" in told["message"] and "resume" in told["message"]
    assert told["tags"] == ["rotating_light", f"run-{runs[-1]}"]


def test_a_success_in_between_begins_the_count_anew(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, pause_after=2))
    outcomes: list[Outcome] = [Failed("no"), Completed(), Failed("no"), Completed()]
    for number, outcome in enumerate(outcomes, start=1):
        now = T0 + number * MINUTE
        hand.record(hand.claim(now), now, outcome)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    assert payloads(store) == []


def test_what_a_person_stopped_neither_counts_nor_begins_the_count_anew(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, pause_after=2))
    outcomes: tuple[Outcome, ...] = (Failed("no"), Cancelled("stopped on request"), Failed("no"))
    for number, (outcome, failures) in enumerate(zip(outcomes, (1, 1, 2), strict=True), 1):
        assert the(store, schedule).progress.state == ScheduleState.ACTIVE
        hand.record(hand.claim(T0 + number * MINUTE), T0 + number * MINUTE, outcome)
        assert the(store, schedule).progress.failures == failures
    assert the(store, schedule).progress.state == ScheduleState.PAUSED


def test_never_pausing_can_be_asked_for(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, pause_after=0))
    for number in range(1, 15):
        now = T0 + number * MINUTE
        hand.record(hand.claim(now), now, Failed("no"))
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE


def test_what_was_resumed_is_paused_at_its_next_failure(store: BaseStore, hand: Hand) -> None:
    """The row of failures goes on: nothing has shown that the cause is mended."""
    schedule = create_one(store, every(MINUTE, pause_after=1, deliver_to="garden", notify_on="success"))
    first = hand.claim(T0 + MINUTE)
    hand.record(first, T0 + MINUTE, Failed("no"))
    store.change(schedule, Instant(T0 + MINUTE), changes.resume)
    again = hand.claim(T0 + 2 * MINUTE)
    hand.record(again, T0 + 2 * MINUTE, Failed("no"))
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    assert [each["topic"] for each in payloads(store)] == ["garden", "garden"]
    assert the_run(store, again[0].run.id).status == "failed"


@pytest.mark.parametrize(
    ("policy", "topics"),
    [
        ({}, ["duetime-alerts"]),
        ({"deliver_to": "garden", "notify_on": "success"}, ["garden"]),
        ({"pause_after": 1}, ["duetime-alerts"]),
    ],
)
def test_a_quarantine_tells_once_too(store: BaseStore, policy: dict[str, Any], topics: list[str]) -> None:
    schedule = create_one(store, every(MINUTE, **policy))
    for _ in range(3):
        hand = Hand(store)
        hand.claim(T0 + MINUTE)
        hand.die(T0 + MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.PAUSED
    store.tell_incidents(Instant(T0 + MINUTE))
    told = payloads(store)
    assert [each["topic"] for each in told] == topics
    assert told[0]["title"] == "water the plants is paused"
    assert "3 workers died" in told[0]["message"] and "resume" in told[0]["message"]


def test_an_alert_that_somebody_else_gives_at_the_same_moment(
    store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look for its key comes before the other worker's commit: the outcome must be recorded all the same."""
    for _ in range(2):
        create_one(store, once())
    first, second = hand.claim(T0)
    held_back = Returned("the limit is reached", SECOND, Alert("limit:today", "A limit is reached", "It waits."))
    hand.record([first], T0, held_back)
    with store._write() as tx:
        transaction = type(tx)
    look, looks = transaction.by_keys, iter([True])
    monkeypatch.setattr(transaction, "by_keys", lambda tx, keys: {} if next(looks, False) else look(tx, keys))
    assert hand.record([second], T0, held_back) == [Receipt.RECORDED]
    assert len(followers(store)) == 1
    assert the_run(store, second.run.id).status == "pending"


@pytest.mark.parametrize(("remembered", "kept"), [((), "null"), (("url",), '{"url": "https://example.org"}')])
def test_a_deleted_schedule_leaves_no_callback_that_has_nothing_to_tell(
    store: BaseStore, hand: Hand, remembered: tuple[str, ...], kept: str
) -> None:
    schedule = create_one(
        store, once(payload='{"url": "https://example.org"}', callbacks=[CALLBACK], at_most_once=True)
    )
    hand.claim(T0)
    store.change(schedule, T0, lambda change: changes.delete(change, remembered))
    hand.die(T0)
    assert payloads(store, "request") == []
    assert the(store, schedule).definition.payload == kept


def test_a_callback_that_cannot_be_made_does_not_keep_its_run_from_ending(store: BaseStore, hand: Hand) -> None:
    """It can only have been written into the database by hand."""
    broken = json.dumps({"callbacks": [{**CALLBACK, "on": "always", "policy": {"max_attempts": 0}}]})
    create_one(store, once())
    (claim,) = hand.claim(T0)
    damaged = HeldRun(claim.run, claim.definition._replace(policy=broken), the(store, claim.run.schedule).progress)
    item = Finished(claim.run.id, claim.run.fence, Completed(), T0, T0)
    writes, answers = plan_settlement({claim.run.id: damaged}, [item], hand.id, T0, None)  # type: ignore[arg-type]
    assert answers == [Receipt.RECORDED] and writes.follow_ups == []
