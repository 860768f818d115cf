"""How threads are divided: long work of one owner or kind leaves room for the others."""

from __future__ import annotations

from collections import Counter

import pytest

from duetime.engine.kind import LOCAL, ThreadUse
from duetime.engine.worker.shares import ClaimShares, ThreadShares

USES = {"job": ThreadUse.SHARED, "prompt": ThreadUse.CAPPED, "notification": ThreadUse.RESERVED}


def shares(threads: int = 16, *, alone: bool = False) -> ThreadShares:
    made = ThreadShares(threads, USES)
    made.alone = alone
    return made


def fill(threads: ThreadShares, kind: str, owner: str) -> int:
    """Begin as many runs as may begin; how many that were."""
    part, number = threads.part(kind, owner), 0
    while threads.may_begin(part):
        threads.begin(part)
        number += 1
    return number


@pytest.mark.parametrize("threads", [4, 8, 16, 32, 64])
def test_one_owner_gets_half_of_the_threads(threads: int) -> None:
    assert fill(shares(threads), "job", "ada") == threads // 2


def test_every_further_owner_finds_a_thread() -> None:
    threads = shares()
    assert [fill(threads, "job", owner) for owner in ("ada", "bob", "cleo", "dora")] == [8, 2, 1, 1]
    assert fill(threads, "job", "eve") == 0


def in_turns(threads: ThreadShares, *owners: str) -> list[int]:
    """Begin runs of these owners, one of each at a time, until none may begin; how many of each that were."""
    parts = [threads.part("job", owner) for owner in owners]
    while starting := [part for part in parts if threads.may_begin(part)]:
        for part in starting:
            if threads.may_begin(part):
                threads.begin(part)
    return [part.number for part in parts]


def claims_of(threads: ThreadShares, **held: int) -> ClaimShares:
    """What a worker may claim beside the jobs that it holds of these owners."""
    claims = ClaimShares(0.05, 1000)
    claims.threads = threads
    claims.count(Counter({("job", owner): number for owner, number in held.items()}))
    return claims


def test_owners_that_take_turns_leave_more_than_those_that_come_one_after_the_other() -> None:
    assert in_turns(shares(), "ada", "bob", "cleo") == [4, 3, 3]


def test_what_waits_for_its_owners_share_takes_no_room_from_the_next_owner() -> None:
    threads = shares()
    in_turns(threads, "ada", "bob", "cleo")
    claims = claims_of(threads, ada=4, bob=4, cleo=4)
    assert (claims.idle, claims.limit("job", claims.idle, claims.idle)) == (6, 2)
    turns = claims.turns("job", "job", at_once=False)
    assert turns is not None
    assert [turns.left_for(owner) for owner in ("ada", "bob", "cleo", "dora")] == [0, 0, 0, 1]


def test_what_is_claimed_and_may_start_takes_its_room_before_a_thread_has_begun_it() -> None:
    claims = claims_of(shares(), ada=8, bob=2)
    assert (claims.idle, claims.limit("job", claims.idle, claims.idle)) == (6, 2)


def test_prompts_that_wait_for_their_owners_share_take_no_room_from_another_owners() -> None:
    threads = shares()
    assert fill(threads, "prompt", "ada") == 5
    claims = ClaimShares(0.05, 1000)
    claims.threads = threads
    claims.count(Counter({("prompt", "ada"): 8}))
    assert claims.limit("prompt", claims.idle, claims.idle) == 3


@pytest.mark.parametrize("kind", ["job", "request", "prompt"])
def test_a_quarter_is_kept_for_notifications(kind: str) -> None:
    threads = shares(alone=True)
    fill(threads, kind, LOCAL)
    fill(threads, "job", LOCAL)
    assert threads.in_flight == 12
    assert fill(threads, "notification", LOCAL) == 4


def test_notifications_in_flight_count_towards_what_is_kept_for_them() -> None:
    threads = shares(alone=True)
    for _ in range(3):
        threads.begin(threads.part("notification", LOCAL))
    assert fill(threads, "job", LOCAL) == 12


def test_a_worker_without_notifications_keeps_nothing_for_them() -> None:
    threads = ThreadShares(16, {"job": ThreadUse.SHARED})
    assert fill(threads, "job", LOCAL) == 16


def test_prompts_take_at_most_half() -> None:
    assert fill(shares(alone=True), "prompt", LOCAL) == 8


def test_local_takes_all_but_what_is_kept_only_while_it_is_alone() -> None:
    assert fill(shares(alone=True), "job", LOCAL) == 12
    assert fill(shares(alone=False), "job", LOCAL) == 8
    assert fill(shares(alone=True), "job", "ada") == 8


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_few_threads_are_not_divided(threads: int) -> None:
    assert fill(shares(threads), "prompt", "ada") == threads


def test_an_owners_notifications_pass_its_own_long_jobs() -> None:
    threads = shares()
    fill(threads, "job", "ada")
    assert fill(threads, "notification", "ada") >= 1


def test_what_could_begin_is_what_then_begins() -> None:
    threads = shares()
    for owner in ("ada", "bob", "cleo"):
        for kind in ("job", "prompt", "notification"):
            promised = threads.startable(kind, owner)
            assert fill(threads, kind, owner) == promised


def test_what_has_ended_is_forgotten() -> None:
    threads = shares()
    part = threads.part("job", "ada")
    threads.begin(part)
    assert threads.held("ada") == 1
    threads.end(part)
    threads.forget(part)
    assert (threads.held("ada"), threads.in_flight, threads.in_flight_of()) == (0, 0, [])
