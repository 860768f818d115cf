"""Restoring schedules that were cancelled or deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.errors import Conflict, LimitReached, Refused
from duetime.engine.model import Schedule, ScheduleId, ScheduleState
from duetime.engine.policy import changes
from duetime.engine.store import Creation, ScheduleQuery
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, runs_of, the
from tests.support.size import FULL

END: dict[str, Callable[[changes.Change], changes.Decision[Any]]] = {
    "cancel": changes.cancel,
    "delete": changes.delete,
}


def end(store: BaseStore, schedule: ScheduleId, how: str, now: int = T0) -> None:
    store.change(schedule, Instant(now), END[how])


def restore(store: BaseStore, schedule: ScheduleId, now: int = T0, limit: int | None = None) -> Schedule:
    return store.change(schedule, Instant(now), partial(changes.restore, max_schedules=limit))


@pytest.mark.parametrize("how", END)
def test_it_goes_on_from_now_with_what_it_had(store: BaseStore, hand: Hand, how: str) -> None:
    schedule = create_one(store, every(HOUR, payload='{"task":"echo"}', key="plants"))
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
    before = the(store, schedule)
    end(store, schedule, how, T0 + HOUR + MINUTE)
    restored = restore(store, schedule, T0 + 4 * HOUR + MINUTE)
    assert restored == the(store, schedule)
    assert (restored.definition.payload, restored.definition.key) == ('{"task":"echo"}', "plants")
    assert restored.progress.state == ScheduleState.ACTIVE
    assert (restored.progress.run_count, restored.progress.next) == (before.progress.run_count, T0 + 5 * HOUR)
    assert hand.claim(T0 + 5 * HOUR - 1) == []
    hand.record(hand.claim(T0 + 5 * HOUR), T0 + 5 * HOUR)
    assert [run.due for run in runs_of(store, schedule) if run.status == "completed"] == [T0 + HOUR, T0 + 5 * HOUR]


@pytest.mark.parametrize("how", END)
def test_the_occurrence_that_was_withdrawn_comes_back_if_its_time_has_not_come(
    store: BaseStore, hand: Hand, how: str
) -> None:
    schedule = create_one(store, once(T0 + HOUR))
    end(store, schedule, how)
    restore(store, schedule, T0 + MINUTE)
    (claim,) = hand.claim(T0 + HOUR)
    assert claim.run.due == T0 + HOUR


@pytest.mark.parametrize("how", END)
def test_a_time_that_has_passed_cannot_be_restored(store: BaseStore, how: str) -> None:
    schedule = create_one(store, once(T0 + HOUR))
    end(store, schedule, how)
    before = the(store, schedule)
    with pytest.raises(Conflict, match="its time has passed"):
        restore(store, schedule, T0 + HOUR)
    assert the(store, schedule) == before


def test_runs_that_are_used_up_are_not_restored(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, max_runs=1))
    (claim,) = hand.claim(T0 + HOUR)
    end(store, schedule, "cancel", T0 + HOUR)
    hand.record([claim], T0 + HOUR)
    with pytest.raises(Conflict, match="all of its 1 runs"):
        restore(store, schedule, T0 + HOUR)


def test_what_still_exists_cannot_be_restored(store: BaseStore) -> None:
    with pytest.raises(Conflict, match="it is active"):
        restore(store, create_one(store, every()))


def test_a_deleted_schedule_can_be_restored_for_a_day(store: BaseStore) -> None:
    first, second = create_one(store, every(HOUR)), create_one(store, every(HOUR))
    for schedule in (first, second):
        end(store, schedule, "delete")
    restore(store, first, T0 + DAY - 1)
    with pytest.raises(Conflict, match="create it again"):
        restore(store, second, T0 + DAY)


def test_nothing_is_kept_of_what_is_deleted_forever(store: BaseStore) -> None:
    first, second = create_one(store, every(HOUR)), create_one(store, every(HOUR))
    store.change(first, T0, partial(changes.delete, forever=True))
    end(store, second, "delete")
    store.change(second, T0, partial(changes.delete, forever=True))
    for schedule in (first, second):
        with pytest.raises(Conflict, match="create it again"):
            restore(store, schedule)


def test_a_worker_drops_what_is_kept_too_long(store: BaseStore) -> None:
    first, second = create_one(store, every(HOUR)), create_one(store, every(HOUR))
    end(store, first, "delete", T0)
    end(store, second, "delete", T0 + 2)
    store.drop_tombstones(Instant(T0 + 1))
    restore(store, second)
    with pytest.raises(Conflict, match="create it again"):
        restore(store, first)


def test_a_key_that_was_used_since_is_not_taken_back(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR, key="plants"))
    end(store, schedule, "delete")
    other = create_one(store, every(HOUR, key="plants"))
    with pytest.raises(Conflict, match="another schedule has its key"):
        restore(store, schedule)
    end(store, other, "delete")
    assert restore(store, schedule).definition.key == "plants"


def test_a_full_quota_refuses(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR))
    end(store, schedule, "delete")
    create_one(store, every(HOUR))
    with pytest.raises(LimitReached):
        restore(store, schedule, limit=1)
    assert restore(store, schedule, limit=2).progress.state == ScheduleState.ACTIVE


def test_it_can_be_deleted_and_restored_again_and_again(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR, key="plants"))
    for minute in range(3):
        end(store, schedule, "delete", T0 + minute * MINUTE)
        restore(store, schedule, T0 + minute * MINUTE)
    assert the(store, schedule).definition.key == "plants"


# -- at the same moment ----------------------------------------------------------------------------------------------

SEVERAL = pytest.mark.parametrize("engine", ["file", "postgres"], indirect=True)
ROUNDS = 60 if FULL else 12


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Do several things at the same moment, and return what came of each: a result, or a refusal."""
    together = threading.Barrier(len(acts))

    def begin(act: Callable[[], object]) -> object:
        together.wait(30)
        try:
            return act()
        except Refused as refusal:
            return refusal

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(begin, acts))


@SEVERAL
def test_a_restore_and_a_create_with_its_key_at_once_leave_one_schedule(store: BaseStore, opener: Opener) -> None:
    """Whichever is first: a create that comes later finds the restored one, and a restore that comes later is
    refused."""
    other = opener()
    winners = set()
    for number in range(ROUNDS):
        key = f"plants {number}"
        schedule = create_one(store, every(HOUR, key=key))
        end(store, schedule, "delete")
        restored, created = at_once(
            partial(restore, store, schedule),
            lambda: other.create([every(HOUR, key=key)])[0],  # noqa: B023 - at once
        )
        assert isinstance(created, Creation)
        living = [each for each in store.search(ScheduleQuery(owner="ada", status="living", limit=1000)).items
                  if each.definition.key == key]  # fmt: skip
        assert [each.definition.id for each in living] == [created.schedule.definition.id]
        if isinstance(restored, Conflict):
            assert "another schedule has its key" in restored.message
            assert created.fresh and the(store, schedule).progress.state == ScheduleState.DELETED
        else:
            assert created.schedule.definition.id == schedule and not created.fresh
        winners.add(type(restored))
        end(store, created.schedule.definition.id, "delete")
    assert winners <= {Conflict, Schedule}


def test_a_create_after_a_restore_returns_the_restored_one(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR, key="plants"))
    end(store, schedule, "delete")
    restore(store, schedule)
    (creation,) = store.create([every(HOUR, key="plants")])
    assert (creation.schedule.definition.id, creation.fresh) == (schedule, False)


@SEVERAL
@pytest.mark.parametrize("rival", ["restore", "create"])
def test_a_quota_holds_if_two_come_at_once(store: BaseStore, opener: Opener, rival: str) -> None:
    other = opener()
    for number in range(ROUNDS):
        owner = f"owner{number}"
        first, second = (create_one(store, every(HOUR, owner=owner)) for _ in range(2))
        for schedule in (first, second):
            end(store, schedule, "delete")
        rivals: dict[str, Callable[[], object]] = {
            "restore": partial(restore, other, second, limit=1),
            "create": lambda: other.create([every(HOUR, owner=owner)], {owner: 1}),  # noqa: B023 - at once
        }
        results = at_once(partial(restore, store, first, limit=1), rivals[rival])
        assert [isinstance(each, LimitReached) for each in results].count(True) == 1, results
        assert store.search(ScheduleQuery(owner=owner, status="living", limit=10)).total == 1


@SEVERAL
def test_two_restores_at_once_restore_it_once(store: BaseStore, opener: Opener) -> None:
    other = opener()
    for _ in range(ROUNDS):
        schedule = create_one(store, every(HOUR))
        end(store, schedule, "delete")
        results = at_once(partial(restore, store, schedule), partial(restore, other, schedule))
        assert sorted(isinstance(each, Conflict) for each in results) == [False, True]


@SEVERAL
def test_a_delete_forever_and_a_restore_at_once_leave_one_of_both(store: BaseStore, opener: Opener) -> None:
    other = opener()
    for _ in range(ROUNDS):
        schedule = create_one(store, every(HOUR, payload='{"task":"echo"}'))
        end(store, schedule, "delete")
        drop = partial(other.change, schedule, T0, partial(changes.delete, forever=True))
        restored, _ = at_once(partial(restore, store, schedule), drop)
        after = the(store, schedule)
        # whichever is first, it is gone in the end: a restored one is deleted, a dropped one cannot be restored
        assert (after.progress.state, after.definition.payload) == (ScheduleState.DELETED, "null")
        with pytest.raises(Conflict, match="create it again"):
            restore(store, schedule)
        assert isinstance(restored, Conflict | Schedule)
