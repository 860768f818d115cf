"""No event is lost and none runs twice, wherever a process dies, and however many send, expand, record and edit."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import DAY, Instant
from duetime.engine.errors import Refused
from duetime.engine.model import EventRow, ScheduleId, event_of
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.stores import events
from duetime.stores.base import BaseStore
from duetime.stores.trim import delete_oldest_events
from tests.support.drafts import T0, every
from tests.support.dying import AFTER, BEFORE, Death, open_quietly
from tests.support.hand import DONE, Hand, create, create_one, runs_of
from tests.support.happenings import KEYS, expand, live, live_until_death, send, waits
from tests.support.invariants import invariants
from tests.support.shell import write
from tests.support.size import FULL
from tests.support.workers import eventually, is_killed


@pytest.fixture
def store(store_url: str) -> Iterator[BaseStore]:
    opened = open_quietly(store_url)
    opened.migrate()
    yield opened
    invariants(opened)
    opened.close()


def test_no_event_is_lost_and_none_runs_twice_wherever_a_process_dies(
    store: BaseStore, store_url: str, tmp_path: Path
) -> None:
    """Before and after each commit: of the events, of their expansion, of the claims and of the outcomes."""
    deaths = 0
    for commit in range(1, 60):
        survived = False
        for side in (BEFORE, AFTER):
            owner, base, file = f"{side}{commit}", T0 + DAY * (2 * commit + (side == AFTER)), tmp_path / "acknowledged"
            each, newest = create(
                store,
                waits(owner=owner, overlap="queue", created=Instant(base)),
                waits(owner=owner, overlap="latest", created=Instant(base)),
            )
            died = is_killed(store, live_until_death, store_url, owner, base, Death(commit, side), str(file))
            sent = set(file.read_text(encoding="utf-8").split()) if file.exists() else set()
            file.unlink(missing_ok=True)
            if died:
                kept = {event.key for event in store.events_of(owner, 10)}
                assert sent <= kept, (commit, side)
                live(store, owner, base, lambda key: None)
            check(store, owner, each.definition.id, newest.definition.id)
            survived, deaths = not died, deaths + died
        if survived:
            break
    assert deaths >= 12, "register, three events, their expansions, claims and outcomes"


def check(store: BaseStore, owner: str, each: ScheduleId, newest: ScheduleId) -> None:
    """Every event has become exactly one run of one schedule, and the latest one has run of the other."""
    ids = sorted(event.id for event in store.events_of(owner, 10))
    assert len(ids) == len(KEYS)
    assert sorted(event_of(run.cause) or 0 for run in runs_of(store, each)) == ids
    assert {run.status for run in runs_of(store, each)} == {"completed"}
    rows = runs_of(store, newest)
    assert max((event_of(run.cause) or 0, run.status) for run in rows) == (ids[-1], "completed")
    assert sum(run.number for run in rows) == len(KEYS)
    assert not store.has_open_events()


def test_one_key_from_many_processes_is_one_event(store: BaseStore, store_url: str) -> None:
    schedule = create_one(store, waits(overlap="queue"))
    stores = [open_quietly(store_url) for _ in range(4)]
    together = threading.Barrier(len(stores))

    def emit(each: BaseStore) -> list[tuple[int, bool]]:
        together.wait(30)
        return [tuple(send(each, key=f"key {number}", at=T0 + number)) for number in range(20)]  # type: ignore[misc]

    with ThreadPoolExecutor(len(stores)) as pool:
        answers = list(pool.map(emit, stores))
    for number in range(20):
        assert len({answer[number][0] for answer in answers}) == 1
        assert sum(not answer[number][1] for answer in answers) == 1
    expand(store, T0 + 100)
    assert len(runs_of(store, schedule)) == 20
    for each in stores:
        each.close()


def test_expanders_senders_recorders_and_editors_together(store: BaseStore, store_url: str) -> None:
    """Every event is accounted for by each schedule that stays active, in its order, whoever else writes."""
    steady = [create_one(store, waits(overlap="queue", queue_limit=10_000)) for _ in range(5)]
    moody = [create_one(store, waits(overlap=overlap)) for overlap in ("latest", "skip", "queue", "allow")]
    stores = [open_quietly(store_url) for _ in range(5)]
    done, seed = threading.Event(), random.Random(5)
    number = 400 if FULL else 120
    begun = Counter[str]()

    def until_done(act: Callable[[], object]) -> None:
        while not done.is_set():
            act()

    def work(each: BaseStore) -> None:
        hand, at = Hand(each, "hand"), [T0]

        def exchange() -> None:
            at[0] = Instant(at[0] + 1000)
            each.expand_events(Instant(T0 + 10_000_000))
            hand.record(hand.claim(T0 + 10_000_000, limit=7), T0 + 10_000_000, DONE)

        until_done(exchange)

    def edit(each: BaseStore) -> None:
        def change() -> None:
            schedule, name = seed.choice(moody), seed.choice(["pause", "resume", "edit", "fire"])
            given = [Edit(name=f"name {seed.random()}")] if name == "edit" else []
            with suppress(Refused):
                each.change(schedule, Instant(T0 + 10_000_000), lambda change: getattr(changes, name)(change, *given))
                begun[name] += 1

        until_done(change)

    with ThreadPoolExecutor(len(stores)) as pool:
        jobs = [pool.submit(work, stores[0]), pool.submit(work, stores[1]), pool.submit(work, stores[2])]
        jobs.append(pool.submit(edit, stores[3]))
        sent = [send(stores[4], data=each, at=T0 + each).event_id for each in range(number)]
        eventually(lambda: not store.has_open_events(), 60, "all events are runs")
        done.set()
        for job in jobs:
            job.result(60)  # raises what failed, such as a deadlock
    assert not store.has_open_events()
    for schedule in steady:
        assert sorted(event_of(run.cause) or 0 for run in runs_of(store, schedule)) == sent
    for schedule in moody:
        rows = [run for run in runs_of(store, schedule) if run.cause.startswith("event:")]
        assert len({run.cause for run in rows}) == len(rows)
        assert sum(run.number for run in rows) == number
    for each in stores:
        each.close()


@contextmanager
def measured(store: BaseStore) -> Iterator[list[float]]:
    """Measure the processor time of every transaction of this thread."""
    write, spent = store._write, list[float]()

    @contextmanager
    def timed() -> Iterator[Any]:
        begun = time.thread_time()
        with write() as tx:
            yield tx
        spent.append(time.thread_time() - begun)

    store._write = timed  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()  # the objects of all other tests of this process are not looked through meanwhile
    yield spent
    gc.unfreeze()
    store._write = write  # type: ignore[method-assign]


@pytest.mark.later
def test_ten_thousand_listeners_take_short_transactions(store: BaseStore, store_url: str) -> None:
    number = 10_000
    listeners = create(store, *(waits(overlap="queue") for _ in range(number)))
    send(store)
    with measured(store) as spent:
        for _ in range(number // 2 // events.MAX_DECISIONS):
            assert store.expand_events(Instant(T0))
        other = open_quietly(store_url)  # as after the death of the process that got this far
        half = other.events_of("ada", 1)[0].reached
        assert half is not None and half >= listeners[number // 2 - 1].definition.id
        while store.expand_events(Instant(T0)):
            pass
    assert max(spent) < 0.1, "seconds of one transaction"
    assert len(spent) >= number // events.MAX_DECISIONS
    [(runs, schedules)] = store._rows("SELECT count(*), count(DISTINCT schedule) FROM runs", ())
    assert (runs, schedules) == (number, number)
    other.close()


def test_the_cost_of_an_event_does_not_grow_with_schedules_that_do_not_listen(store: BaseStore) -> None:
    """By the plan: the index of the listeners is used, and neither table is read as a whole."""
    create(store, *(every() for _ in range(2_000)))
    write(store, "ANALYZE")  # as it happens by itself in a while
    how = "QUERY PLAN " if store.url.startswith("sqlite") else ""
    plan = str(store._rows(f"EXPLAIN {how}{store._sql['listeners']}", ("ada", events.names_for("push"), 0, 9)))
    assert "schedules_listening" in plan


BLOCKED = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_senders_wait_for_whoever_trims_and_not_the_other_way_round(store: BaseStore, store_url: str) -> None:
    """Both change the bytes and the number of an owner's events, in the same order."""
    sender = open_quietly(store_url)
    event = EventRow(0, "ada", "push", None, Instant(T0), 0, "{}")
    sender.emit(event, 1_000_000)
    with ThreadPoolExecutor(1) as pool:
        with store._write() as tx:
            tx.rows("add_stored_bytes", "ada", 0)
            sent = pool.submit(sender.emit, event, 1_000_000)
            if not store.url.startswith("sqlite"):
                eventually(lambda: sender._rows(BLOCKED, ())[0][0], 10, "it waits for the bytes")
            delete_oldest_events(tx, "ada", 10)
        assert not sent.result(10).duplicate
    sender.close()
