"""Logs of runs in a store: kept through retries, written only by the holder of the run, trimmed with the history."""

from __future__ import annotations

from functools import partial

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import RunId
from duetime.engine.outcome import Completed, Failed
from duetime.engine.policy import changes
from duetime.engine.policy.claim import Claim
from duetime.engine.store_interfaces import LogChange, LogPart
from duetime.stores.base import BaseStore
from duetime.stores.run_logs import KEPT_ATTEMPTS
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create_one

ALL = (-1, -1)


def part(claim: Claim, text: str, number: int = 0) -> LogPart:
    run = claim.run
    return LogPart(run.id, run.fence, number, run.attempt, T0, text)


def write(store: BaseStore, claim: Claim, text: str, number: int = 0) -> None:
    store.write_logs([LogChange([part(claim, text, number)])])


def texts(store: BaseStore, run: RunId) -> list[str]:
    return [each.text for each in store.logs(run, ALL, 1000)]


def failing(store: BaseStore, hand: Hand, attempts: int, owner: str = "ada") -> Claim:
    """Let a run fail and write as often as that, and return its claim for the last attempt."""
    create_one(store, once(max_attempts=attempts + 1, backoff=SECOND, backoff_limit=SECOND, owner=owner))
    now, claim = T0, hand.claim(T0)[0]
    for number in range(1, attempts + 1):
        write(store, claim, f"attempt {number}\n")
        hand.record([claim], now, Failed("no"))
        now = Instant(now + 10 * SECOND)
        (claim,) = hand.claim(now)
    return claim


def test_parts_are_read_in_order_and_from_a_place_on(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    (claim,) = hand.claim(T0)
    for number, text in ((8, "three\n"), (0, "one\n"), (4, "two\n")):
        write(store, claim, text, number)
    write(store, claim, "two!\n", 4)
    assert texts(store, claim.run.id) == ["one\n", "two!\n", "three\n"]
    fence = claim.run.fence
    assert [each.text for each in store.logs(claim.run.id, (fence, 0), 1)] == ["two!\n"]
    assert store.logs(claim.run.id, (fence, 8), 10) == []
    assert store.logs(RunId(claim.run.id + 1), ALL, 10) == []


def test_the_middle_gives_way(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    (claim,) = hand.claim(T0)
    for number in range(5):
        write(store, claim, f"{number}\n", 2 * number)
    store.write_logs([LogChange([part(claim, "9\n", 18)], 2, 8)])
    assert texts(store, claim.run.id) == ["0\n", "4\n", "9\n"]


def test_only_who_holds_the_run_writes(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(max_attempts=2, backoff=SECOND))
    (claim,) = hand.claim(T0)
    hand.die(T0)
    (taken,) = Hand(store, "other").claim(T0 + 10 * SECOND)
    write(store, claim, "stale\n")
    write(store, taken, "mine\n")
    assert texts(store, claim.run.id) == ["mine\n"]


def test_logs_are_kept_through_retries_of_the_latest_attempts(store: BaseStore, hand: Hand) -> None:
    claim = failing(store, hand, 3)
    write(store, claim, "attempt 4\n")
    hand.record([claim], T0 + MINUTE)
    assert texts(store, claim.run.id) == [f"attempt {number}\n" for number in range(1, 5)]
    many = failing(store, hand, KEPT_ATTEMPTS + 5)
    rows = store.logs(many.run.id, ALL, 1000)
    assert len(rows) == KEPT_ATTEMPTS and rows[-1].attempt == KEPT_ATTEMPTS + 5


def test_a_retry_by_hand_keeps_the_log(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    (claim,) = hand.claim(T0)
    write(store, claim, "first\n")
    hand.record([claim], T0, Failed("no"))
    store.change_run(claim.run.id, T0, changes.retry)
    (again,) = hand.claim(T0 + SECOND)
    write(store, again, "second\n")
    assert [(each.attempt, each.text) for each in store.logs(claim.run.id, ALL, 9)] == [(1, "first\n"), (2, "second\n")]


def test_logs_go_with_their_run(store: BaseStore, hand: Hand) -> None:
    claim = failing(store, hand, 1)
    hand.record([claim], T0 + MINUTE)
    assert store.prune(Instant(T0 + HOUR), 10) > 0
    assert texts(store, claim.run.id) == []


def test_logs_go_with_a_schedule_that_is_deleted_forever(store: BaseStore, hand: Hand) -> None:
    schedules = [create_one(store, once()) for _ in range(3)]
    claims = {claim.run.schedule: claim for claim in hand.claim(T0)}
    for claim in claims.values():
        write(store, claim, "text\n")
    hand.record(list(claims.values()), T0)
    store.change(schedules[0], T0, partial(changes.delete, forever=True))
    store.change(schedules[1], T0, changes.delete)
    assert [texts(store, claims[each].run.id) for each in schedules] == [[], ["text\n"], ["text\n"]]


@pytest.mark.parametrize("is_over", [True, False], ids=["ended", "in progress"])
def test_logs_count_as_bytes_of_their_owner(store: BaseStore, hand: Hand, is_over: bool) -> None:
    """Whoever stores too much loses the oldest logs: with the runs, or those of earlier attempts."""
    claim = failing(store, hand, 2)
    write(store, claim, "x" * 40_000 + "\n")
    before = store._count_bytes("ada", T0)
    assert before > 40_000
    if is_over:
        hand.record([claim], T0 + MINUTE, Completed(None))
    now = Instant(T0 + 3 * HOUR)
    while store.trim(10_000, now, 10):
        now = Instant(now + 2 * HOUR)
    assert len(texts(store, claim.run.id)) == (0 if is_over else 1)
    assert (store.run(claim.run.id) is None) == is_over
