"""What goes wrong is told once for each event of an incident, wherever a process dies and however many there are."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, Instant
from duetime.engine.policy import changes
from duetime.engine.store import ScheduleQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every
from tests.support.dying import AFTER, BEFORE, Death, Step, open_quietly, run, work
from tests.support.hand import Hand, create
from tests.support.invariants import invariants
from tests.support.size import FULL
from tests.support.workers import Crew, eventually, is_killed

TITLES = ["plants failed", "Still open: plants failed", "plants works again"]


@pytest.fixture
def store(store_url: str) -> Iterator[BaseStore]:
    opened = open_quietly(store_url)
    opened.migrate()
    yield opened
    invariants(opened)
    opened.close()


def steps_from(base: int) -> list[Step]:
    """It fails, fails again a day later, when its owner is reminded of it, and then succeeds."""
    return [
        Step(base + 12 * HOUR, False),
        Step(base + 36 * HOUR + MINUTE, False),
        Step(base + 48 * HOUR + MINUTE, True),
        Step(base + 49 * HOUR, True),
    ]


def told(store: BaseStore, owner: str) -> list[str]:
    messages = store.search(ScheduleQuery(owner=owner, kind="notification", limit=1000)).items
    return [json.loads(each.definition.payload)["title"] for each in messages]


def die(store: BaseStore, url: str, steps: Sequence[Step], death: Death, folder: Path) -> int | None:
    """Let a process do the steps and die; return the number of the step in which it died, None if it did not."""
    progress = folder / "progress"
    died = is_killed(store, run, url, steps, death, str(progress))
    text = progress.read_text(encoding="utf-8") if progress.exists() else "0"
    progress.unlink(missing_ok=True)
    return int(text) if died else None


def test_each_event_is_told_once_wherever_a_process_dies(store: BaseStore, store_url: str, tmp_path: Path) -> None:
    """Before and after each commit of a whole incident: the failures, the messages, the reminder and the recovery. What
    is stored before a commit is what is stored after the one before, so that few are tried on both sides."""
    deaths = 0
    for commit in range(1, 100):
        survived = False
        for side in (BEFORE, AFTER) if FULL or commit % 3 == 0 else (AFTER,):
            owner, base = f"{side}{commit}", T0 + 10 * DAY * (2 * commit + (side == AFTER))
            (schedule,) = create(store, every(12 * HOUR, base, owner=owner, name="plants", pause_after=0))
            steps = steps_from(base)
            died = die(store, store_url, steps, Death(commit, side), tmp_path)
            if died is not None:
                for _ in work(store, steps[died:]):
                    pass
            assert told(store, owner) == TITLES, (commit, side)
            store.change(schedule.definition.id, Instant(steps[-1].at), changes.cancel)
            survived, deaths = died is None, deaths + (died is not None)
        if survived:
            break
    assert deaths >= 15, "register, the claims, the records, and the messages"


def at_once(workers: Sequence[BaseStore], act: Callable[[BaseStore], object]) -> None:
    together = threading.Barrier(len(workers))

    def begin(worker: BaseStore) -> None:
        together.wait(30)
        act(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        for result in pool.map(begin, workers):
            assert result is None


def test_workers_that_look_at_the_same_moment_tell_each_event_once(store: BaseStore, store_url: str) -> None:
    workers = [open_quietly(store_url) for _ in range(4)]
    for number in range(20 if FULL else 3):
        owner, base = f"owner{number}", T0 + 10 * DAY * number
        drafts = [every(12 * HOUR, base, owner=owner, name=f"plant {each}", pause_after=0) for each in range(40)]
        schedules = create(store, *drafts)
        hands = {worker: Hand(worker, now=base) for worker in workers}
        for step in steps_from(base):
            at_once(workers, lambda worker: run_some(hands[worker], step))  # noqa: B023 - at once
            at_once(workers, lambda worker: tell_quietly(worker, step.at))  # noqa: B023 - as above
        first, reminder, recovery = told(store, owner)
        assert (first, reminder) == ("40 problems need attention",) * 2
        assert recovery == "40 problems are over"
        for each in schedules:
            store.change(each.definition.id, Instant(base + 50 * HOUR), changes.cancel)
    for worker in workers:
        worker.close()


def run_some(hand: Hand, step: Step) -> None:
    while claims := hand.claim(step.at, limit=5):
        hand.record(claims, step.at, step.outcome)


def tell_quietly(store: BaseStore, now: int) -> None:
    store.tell_incidents(Instant(now))


def test_real_workers_tell_once_although_one_of_them_is_killed(team: Crew) -> None:
    victim, *_ = team.start(3)
    keys = [f"k{number}" for number in range(200)]
    team.add("stumble", keys, policy={"alert": "first"})
    eventually(lambda: len(team.events("ran")) >= 20, 30, "runs fail")
    victim.kill()
    store = team.app.store
    eventually(lambda: len(store.incidents(None, 1000)) == len(keys), 30, "each has an incident")
    messages = ScheduleQuery(kind="notification", limit=100)
    eventually(lambda: store.search(messages).items, 30, "the owner is told")
    first = [each for each in store.incidents(None, 1000) if each.last_told is not None]
    (message,) = store.search(messages).items
    title = json.loads(message.definition.payload)["title"]
    assert title in (f"{len(first)} problems need attention", f"{first[0].name} failed")
    assert {(each.number, each.reminders) for each in store.incidents(None, 1000)} == {(1, 0)}
    team.check()
