"""Of a chain, each schedule runs once after the one before, wherever a worker dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from duetime.engine.clock import DAY, Instant
from duetime.engine.model import ScheduleId, event_of
from duetime.stores.base import BaseStore
from tests.faults.conftest import ONE_STORE
from tests.support.chains import after, go_through, go_until_death
from tests.support.drafts import T0, once
from tests.support.dying import AFTER, BEFORE, Death, die_at, open_quietly
from tests.support.hand import create_one, runs_of
from tests.support.invariants import invariants
from tests.support.workers import is_killed

STEPS = 9
"""Commits of a worker that goes through the chain: it registers, and then claims a run, records its end and turns that
into the next run. The end of the last one starts nothing."""


@pytest.fixture
def store(store_url: str) -> Iterator[BaseStore]:
    opened = open_quietly(store_url)
    opened.migrate()
    yield opened
    invariants(opened)
    opened.close()


def chain(store: BaseStore, owner: str, at: int) -> list[ScheduleId]:
    """Create three schedules, of which the second and the third follow the one before."""
    given = {"owner": owner, "created": Instant(at)}
    first = create_one(store, once(at, **given))
    second = create_one(store, after(store, first, "ends", **given))
    return [first, second, create_one(store, after(store, second, "succeeds", **given))]


def check(store: BaseStore, schedules: list[ScheduleId]) -> None:
    """Each has one completed run, which the end of the run before has started."""
    before = None
    for schedule in schedules:
        (run,) = runs_of(store, schedule)
        assert run.status == "completed"
        event = store.event(event_of(run.cause) or 0)
        assert before == (None if event is None else json.loads(event.data)["run"])
        before = run.id
    assert not store.has_open_events()


def die_at_each_step(store: BaseStore, is_dead: Callable[[int, Death], bool]) -> None:
    """Let a worker die before and after each of its commits, and another one go on."""
    deaths = survived = 0
    for commit in range(1, 60):
        for side in (BEFORE, AFTER):
            at = T0 + DAY * (2 * commit + (side == AFTER))
            schedules = chain(store, f"{side}{commit}", at)
            died = is_dead(at, Death(commit, side))
            if died:
                go_through(store, at)
            check(store, schedules)
            deaths, survived = deaths + died, 0 if died else survived + 1
        if survived > 4:  # a transaction that is given up for another one has no commit
            break
    assert deaths >= 2 * STEPS


@pytest.mark.later
def test_no_end_is_lost_and_none_counts_twice_wherever_a_process_is_killed(store: BaseStore, store_url: str) -> None:
    die_at_each_step(store, lambda at, death: is_killed(store, go_until_death, store_url, at, death))


class _Death(BaseException):
    pass


@ONE_STORE
def test_no_end_is_lost_and_none_counts_twice_wherever_a_worker_ends(store: BaseStore, store_url: str) -> None:
    """In this process: a transaction is rolled back, or its worker never hears of its commit."""

    def die() -> None:
        raise _Death

    def is_dead(at: int, death: Death) -> bool:
        other = open_quietly(store_url)
        die_at(other, death, die)
        with closing(other), suppress(_Death):
            go_through(other, at)
            return False
        return True

    die_at_each_step(store, is_dead)
