"""Many at once, in threads and in processes: nothing runs twice, nobody waits in a circle."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.errors import DuetimeError, WorkerGone
from duetime.engine.model import RunStatus, ScheduleId
from duetime.engine.outcome import Completed, Failed, Outcome, Returned, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import SqliteStore
from tests.stores.conftest import Engine, Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create
from tests.support.refusals import attempt

pytestmark = pytest.mark.slow

PATIENCE = 60.0


def together(*jobs: Callable[[], None]) -> None:
    """Runs them side by side; the first error of any is raised, and so is waiting too long."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    if errors:
        raise errors[0]


def test_workers_changes_and_rescues_side_by_side(opener: Opener, store: BaseStore) -> None:
    """Every kind of transaction against every other on the same few schedules."""
    schedules = [
        schedule.definition.id
        for schedule in create(
            store,
            *[every(SECOND, overlap=overlap, max_attempts=3, backoff=1) for overlap in ("skip", "queue", "allow") * 4],
        )
    ]
    rounds = 40

    def work(seed: int) -> None:
        dice = random.Random(seed)
        hand = Hand(opener())
        for step in range(rounds):
            now = T0 + step * SECOND
            try:
                claims = hand.claim(now, limit=5)
                dice.shuffle(claims)
                outcomes: list[Outcome] = [Completed(), Failed("no"), Returned(), Waiting(Instant(now + SECOND))]
                hand.record(claims, now, dice.choice(outcomes))
                hand.store.beat(hand.id, Instant(now), {claim.run.id: "1" for claim in claims})
            except WorkerGone:
                hand = Hand(hand.store)

    def meddle(seed: int) -> None:
        dice = random.Random(seed)
        own = opener()
        verbs: list[Callable[[changes.Change], changes.Decision[Any]]] = [
            changes.pause,
            changes.resume,
            changes.fire,
            lambda c: changes.edit(c, Edit(name="x")),
        ]
        for step in range(rounds):
            now = Instant(T0 + step * SECOND)
            attempt(own.change, dice.choice(schedules), now, dice.choice(verbs))
            runs = own.runs(RunQuery(schedule=dice.choice(schedules), limit=5)).items
            if runs:
                attempt(own.change_run, dice.choice(runs).id, now, dice.choice([changes.cancel_run, changes.retry]))
            own.prune(Instant(now - 20 * SECOND), 5)

    def bury(seed: int) -> None:
        dice = random.Random(seed)
        own = opener()
        for step in range(rounds // 4):
            found = own.workers()
            if found:
                unlucky = dice.choice(found)
                own.rescue(unlucky.id, unlucky.beat, Instant(T0 + step * SECOND))

    together(
        *[lambda seed=seed: work(seed) for seed in range(3)], lambda: meddle(1), lambda: meddle(2), lambda: bury(1)
    )
    for schedule in schedules:
        attempt(store.change, schedule, Instant(T0 + MINUTE), changes.resume)
    # Apart from alerts: a schedule that failed often enough in a row was paused, and its owner told.
    assert store.search(ScheduleQuery(kind="job")).total == len(schedules)


def test_batches_in_opposite_orders_do_not_wait_in_a_circle(opener: Opener, store: BaseStore) -> None:
    create(store, *[every(SECOND, overlap="allow") for _ in range(30)])
    hands = [Hand(opener()) for _ in range(2)]
    claims = [hand.claim(T0 + (number + 1) * SECOND, limit=30) for number, hand in enumerate(hands)]
    assert [len(mine) for mine in claims] == [30, 30]

    def record(number: int) -> None:
        mine = claims[number] if number else claims[number][::-1]
        for begin in range(0, 30, 10):
            hands[number].record(mine[begin : begin + 10], T0 + 5 * SECOND)

    together(lambda: record(0), lambda: record(1))
    assert store.runs(RunQuery(status=RunStatus.COMPLETED)).total == 60


def test_edits_raced_with_one_version_win_once(opener: Opener, store: BaseStore) -> None:
    (schedule,) = [s.definition.id for s in create(store, every(MINUTE))]
    won: list[int] = []

    def edit(own: BaseStore, number: int) -> None:
        patch = Edit(name=f"name {number}", version=1)
        result = attempt(own.change, schedule, T0, lambda change: changes.edit(change, patch))
        if not isinstance(result, DuetimeError):
            won.append(number)

    stores = [opener() for _ in range(4)]
    together(*[lambda n=n, own=own: edit(own, n) for n, own in enumerate(stores)])
    assert len(won) == 1
    found = store.get(ScheduleId(schedule))
    assert found is not None
    assert found.definition.name == f"name {won[0]}"


CLAIMER = """
import json, sys
from duetime.engine.clock import Instant
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import T0
from tests.support.hand import Hand

engine, place = sys.argv[1:]
store = PostgresStore(place) if engine == "postgres" else SqliteStore(place)
hand, taken, idle = Hand(store), [], 0
while idle < 3:
    claims = hand.claim(T0 + 10_000, limit=20, lanes=["job"])
    idle = 0 if claims else idle + 1
    taken += [claim.run.id for claim in claims]
    assert all(answer == "recorded" for answer in hand.record(claims, T0 + 10_000))
store.close()
print(json.dumps(taken))
"""


def test_four_processes_share_the_work(
    engine: Engine, opener: Opener, store: BaseStore, request: pytest.FixtureRequest
) -> None:
    if engine == "memory":
        pytest.skip("a store in memory has one process")
    create(store, *[once(T0 + number) for number in range(2000)])
    place = store.path if isinstance(store, SqliteStore) else request.getfixturevalue("clean_postgres_url")
    processes = [
        subprocess.Popen([sys.executable, "-c", CLAIMER, engine, place], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    taken: Counter[int] = Counter()
    for process in processes:
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        taken.update(json.loads(output))
    assert len(taken) == 2000
    assert set(taken.values()) == {1}
    assert store.runs(RunQuery(status=RunStatus.COMPLETED)).total == 2000
