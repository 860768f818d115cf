"""The usual create is one commit, which callers share; limits, keys and refusals are as exact as one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from bench.scene import noop_registry
from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.errors import DuetimeError, InvalidInput, StoreUnavailable, StoreUnusable
from duetime.engine.kind import Caller
from duetime.engine.model import Definition, Schedule
from duetime.engine.policy import changes
from duetime.engine.policy.rows import Draft
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Creation, ScheduleQuery
from duetime.engine.triggers import IntervalTrigger
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.kind import JobKind
from duetime.stores.base import BaseStore
from duetime.stores.create import CreateRequest
from duetime.stores.shared_commit import MANY_CALLERS, SharedCommit, _Turn
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.stores.conftest import Opener
from tests.support.drafts import T0, draft, every, once
from tests.support.hand import Hand, the
from tests.support.refusals import attempt

PATIENCE = 30.0
ROOM = {"ada": 1000, "bob": 1000}


def made(store: BaseStore, *drafts: Draft, limit: int = 1000) -> list[Schedule]:
    created = store.create(drafts, dict.fromkeys(["ada", "bob"], limit))
    assert all(each.fresh for each in created)
    return [each.schedule for each in created]


def refused(store: BaseStore, *drafts: Draft, limit: int) -> bool:
    result = attempt(store.create, drafts, {"ada": limit})
    return isinstance(result, DuetimeError) and result.code == "quota"


def total(store: BaseStore, owner: str = "ada") -> int:
    return store.search(ScheduleQuery(owner=owner)).total


@pytest.fixture
def counted(store: BaseStore) -> BaseStore:
    """A store in which the schedules of both owners were counted a moment ago."""
    made(store, once(), once(owner="bob"))
    return store


@pytest.fixture
def only_at_once(counted: BaseStore, monkeypatch: pytest.MonkeyPatch) -> BaseStore:
    monkeypatch.setattr(counted, "_create_in_steps", never)
    return counted


def never(_request: object) -> None:
    raise AssertionError("this create looked something up or counted")


def test_what_is_created_at_once_is_stored_as_it_is_returned(only_at_once: BaseStore) -> None:
    trigger = IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0, jitter=50 * SECOND)
    schedules = made(
        only_at_once,
        once(T0 + 5, name="Straße ☂", payload='{"a":"\\u0000\'\\"{},\\\\"}', owner="bob"),
        every(at_most_once=True),
    ) + made(only_at_once, draft(trigger, T0))
    for schedule in schedules:
        definition = schedule.definition
        assert schedule == only_at_once.get(definition.id) == only_at_once.find(f"job_{definition.id}")
    assert len({schedule.definition.id for schedule in schedules}) == 3
    assert schedules == sorted(schedules, key=lambda schedule: schedule.definition.id)


def test_ids_that_another_process_drew_are_never_used_again(
    opener: Opener, only_at_once: BaseStore, hand: Hand
) -> None:
    other, ids = opener(), []
    made(other, once())
    for _ in range(3):
        for store, number in ((only_at_once, 1), (other, 2)):
            ids += [each.definition.id for each in made(store, *[once() for _ in range(number)])]
    assert ids == sorted(set(ids))
    assert all(only_at_once.get(id) == other.get(id) is not None for id in ids)


def test_what_many_have_in_common_and_what_they_do_not_is_stored(only_at_once: BaseStore) -> None:
    jittered = IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0, jitter=50 * SECOND)
    alike = [once(T0 + 5, owner="bob") for _ in range(307)]
    unlike = [once(T0 + 90 - each, name=f"name {each}", payload=f"[{each}]") for each in range(60)]
    mixed = [*unlike, every(at_most_once=True, kind="prompt"), draft(jittered, T0)]
    for drafts in (alike, mixed):
        schedules = made(only_at_once, *drafts)
        for schedule, (asked, first) in zip(schedules, drafts, strict=True):
            id, progress = schedule.definition.id, schedule.progress
            assert schedule.definition == asked._replace(id=id, public_id=f"{asked.kind}_{id}")
            assert schedule == only_at_once.get(id)
            [(at,)] = only_at_once._named("starts_at", id, 0)
            assert progress.next == first == at or "jitter" in asked.trigger


def test_the_first_of_many_is_counted_and_then_created_at_once(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(store, "_create_in_steps", never)
        made(store, *[once() for _ in range(60)], *[once(owner="bob") for _ in range(60)], limit=110)
    assert refused(store, *[once() for _ in range(51)], limit=110)
    made(store, *[once() for _ in range(50)], limit=110)
    assert (total(store), total(store, "bob")) == (110, 60)


def test_what_is_created_at_once_fires(only_at_once: BaseStore, hand: Hand) -> None:
    (schedule,) = made(only_at_once, once(T0 + 1, name="now"))
    assert [claim.definition for claim in hand.claim(T0 + 1)][-1] == schedule.definition


def test_stored_bytes_are_added_at_once(counted: BaseStore) -> None:
    limit = {"ada": 20_000}
    results = [attempt(counted.create, [once(payload="x" * 4_500)], ROOM, limit) for _ in range(5)]
    assert [isinstance(result, DuetimeError) for result in results] == [False] * 3 + [True] * 2
    counted.create([once(payload="x" * 1_000)], ROOM, limit)


def test_a_quota_that_many_race_for_is_met_exactly(opener: Opener, counted: BaseStore) -> None:
    stores = [opener(), opener()]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda store: attempt(store.create, [once()], {"ada": 30}), stores * 30))
    assert sum(not isinstance(result, DuetimeError) for result in results) == 29
    assert total(counted) == 30


def test_what_ended_makes_place_at_once(counted: BaseStore, hand: Hand) -> None:
    first, second = made(counted, every(), every(), limit=3)
    assert refused(counted, once(), limit=3)
    counted.change(first.definition.id, T0, changes.cancel)
    made(counted, once(T0 + 10), limit=3)
    counted.change(second.definition.id, T0, changes.delete)
    made(counted, once(T0 + 10), limit=3)
    assert refused(counted, once(), limit=3)
    hand.record(hand.claim(T0), T0)
    made(counted, once(T0 + 10), limit=3)
    assert refused(counted, once(), limit=3)


def test_what_lives_again_takes_a_place(counted: BaseStore, hand: Hand) -> None:
    hand.record(hand.claim(T0), T0)
    made(counted, *[once(T0 + 10) for _ in range(2)], limit=3)
    ended = next(s for s in counted.search(ScheduleQuery(owner="ada")).items if s.progress.next is None)
    counted.change(ended.definition.id, T0, changes.fire)
    assert refused(counted, once(), limit=3)
    hand.record(hand.claim(T0 + 1), T0 + 1)
    made(counted, once(T0 + 10), limit=3)


def test_what_others_created_counts_within_a_minute(counted: BaseStore) -> None:
    """Such as the messages that workers create, and an older version of Duetime beside this one."""
    with counted._write() as tx:
        tx.send("set_living", 1, T0, "ada")
    counted.create([once() for _ in range(5)])  # without a limit
    with counted._write() as tx:
        tx.send("set_living", 1, T0, "ada")  # as if nobody had added them
    made(counted, once(), limit=3)
    assert refused(counted, once(created=Instant(T0 + MINUTE + 1)), limit=3)
    assert refused(counted, once(created=Instant(T0 - MINUTE - 1)), limit=3), "the clock was set back"


def test_what_has_no_limit_is_created_at_once_and_counted(only_at_once: BaseStore) -> None:
    several = [once() for _ in range(300)]
    created = only_at_once.create(several)
    assert [each.schedule for each in created] == [only_at_once.get(each.schedule.definition.id) for each in created]
    only_at_once.create([once()])
    assert total(only_at_once) == 302
    with pytest.raises(AssertionError, match="looked something up"):
        only_at_once.create([once()], {"ada": 302})
    with pytest.raises(AssertionError, match="looked something up"):
        only_at_once.create([several[0], once()])
    assert total(only_at_once) == 302


@pytest.mark.parametrize("number", [1, 60])
def test_owners_with_and_without_a_limit_share_one_create(only_at_once: BaseStore, number: int) -> None:
    drafts = [once(owner=owner) for owner in ("ada", "bob") for _ in range(number)]
    only_at_once.create(drafts, {"ada": number + 1})
    assert (total(only_at_once), total(only_at_once, "bob")) == (number + 1, number + 1)
    with pytest.raises(AssertionError, match="looked something up"):
        only_at_once.create([once(), once(owner="bob")], {"ada": number + 1})
    assert (total(only_at_once), total(only_at_once, "bob")) == (number + 1, number + 1)


@pytest.mark.parametrize("number", [1, 60])
def test_the_first_schedules_of_an_owner_without_a_limit_count_later(store: BaseStore, number: int) -> None:
    store.create([once() for _ in range(number)])
    store.create([once() for _ in range(number)])
    assert refused(store, once(), limit=2 * number)
    made(store, once(), limit=2 * number + 1)


@pytest.mark.parametrize("limits", [{}, ROOM])
def test_a_file_that_was_opened_before_its_tables_were_made_takes_creates(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    first, second = SqliteStore(tmp_path / "new.db"), SqliteStore(tmp_path / "new.db")
    first.migrate()
    for store in (first, second, second, first):
        store.create([once()], limits)
    assert total(first) == 4
    first.close()
    second.close()


def test_a_smaller_limit_elsewhere_does_not_mislead_a_larger_one(counted: BaseStore) -> None:
    made(counted, *[once() for _ in range(9)], limit=20)
    assert refused(counted, once(), limit=2)
    made(counted, *[once() for _ in range(10)], limit=20)
    assert refused(counted, once(), limit=20)


# -- callers that share a commit --------------------------------------------------------------------------------------


class Gate:
    """Holds the first commit back until everybody else waits, so that they share the next one."""

    def __init__(self, store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self._insert = store._insert_few
        self._began, self._open = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        self._monkeypatch = monkeypatch

    def _held(self, request: CreateRequest) -> Any:
        self.sizes.append(len(request.drafts))
        if len(self.sizes) == 1:
            self._began.set()
            assert self._open.wait(PATIENCE)
        return self._insert(request)

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        self._monkeypatch.setattr(self._store, "_insert_few", self._held)
        with ThreadPoolExecutor(len(calls) + 1) as pool:
            first = pool.submit(self._store.create, [once()], ROOM)
            assert self._began.wait(PATIENCE)
            futures = [pool.submit(call) for call in calls]
            while len(self._store._creates._waiting) < len(calls):
                assert not any(future.done() for future in futures)
            self._open.set()
            first.result(PATIENCE)
            return [future.exception(PATIENCE) or future.result() for future in futures]


@pytest.fixture
def gate(counted: BaseStore, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(counted, monkeypatch)


def creating(store: BaseStore, *drafts: Draft, **limits: int) -> Callable[[], Sequence[Creation]]:
    return lambda: store.create(drafts, ROOM | limits)


def test_callers_that_wait_share_one_commit(counted: BaseStore, gate: Gate) -> None:
    names = [f"task {number}" for number in range(MANY_CALLERS - 1)]
    results = gate.together(*[creating(counted, once(name=name), once(owner="bob", name=name)) for name in names])
    assert gate.sizes == [1, 2 * len(names)]
    for name, result in zip(names, results, strict=True):
        assert [(each.schedule.definition.owner, each.schedule.definition.name) for each in result] == [
            ("ada", name),
            ("bob", name),
        ]
        assert all(the(counted, each.schedule.definition.id) == each.schedule for each in result)


def test_many_callers_share_two_commits_so_that_half_of_them_prepare_while_the_others_are_written(
    counted: BaseStore, gate: Gate
) -> None:
    results = gate.together(*[creating(counted, once(), once()) for _ in range(16)])
    assert not any(isinstance(result, DuetimeError) for result in results)
    assert gate.sizes == [1, 18, 14]


def test_the_next_caller_to_write_goes_on_before_those_who_are_done() -> None:
    """Otherwise they would be back, and wait for it, before it begins."""
    released: list[object] = []

    class Signal:
        def __init__(self, turn: object) -> None:
            self.turn = turn

        def release(self) -> None:
            released.append(self.turn)

    shared = SharedCommit[int, int](lambda items: items)
    turns: list[Any] = [_Turn(number) for number in range(2 * MANY_CALLERS)]
    for turn in turns:
        turn.signal = Signal(turn)
    shared._waiting, shared._led, turns[0].leads = turns.copy(), True, True
    shared._lead(turns[0])
    written = [turn for turn in turns if turn.done]
    assert len(written) == MANY_CALLERS + 1
    assert released == [turns[len(written)], *written[1:]]


def test_whoever_writes_for_others_checks_it_while_the_next_one_writes_and_before_anybody_is_answered() -> None:
    seen: list[tuple[bool, bool]] = []
    turns: list[Any] = [_Turn(number) for number in range(2 * MANY_CALLERS)]

    def check() -> None:
        seen.append((turns[MANY_CALLERS + 1].leads, any(not turn.signal.locked() for turn in turns[1:MANY_CALLERS])))
        raise StoreUnusable("replaced")

    shared = SharedCommit[int, int](lambda items: items, check)
    shared._waiting, shared._led, turns[0].leads = turns.copy(), True, True
    shared._lead(turns[0])
    assert seen == [(True, False)]
    assert [isinstance(turn.error, StoreUnusable) for turn in turns] == [turn.done for turn in turns]
    assert not any(turn.signal.locked() for turn in turns[1 : MANY_CALLERS + 2])


@pytest.mark.parametrize("change", ["replaced", "log"])
def test_nothing_is_acknowledged_that_went_into_a_file_which_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.migrate()
    made(store, once())
    made(store, once())  # by one statement
    gate = Gate(store, monkeypatch)

    def replaced_during_the_first_commit() -> Sequence[Creation]:
        path.with_name("store.db-wal" if change == "log" else "store.db").rename(tmp_path / "gone")
        return store.create([once()], ROOM)

    results = gate.together(creating(store, once()), replaced_during_the_first_commit, creating(store, once()))
    assert [type(result) for result in results] == [StoreUnusable] * 3
    with pytest.raises(StoreUnusable):
        store.create([once()], ROOM)
    store.close()


def test_one_key_twice_among_them_makes_one(counted: BaseStore, gate: Gate) -> None:
    same = [once(T0 + number, key="same", fingerprint=f"{number}") for number in range(3)]
    *results, other = gate.together(*[creating(counted, each) for each in [*same, once(name="other")]])
    assert sum(result[0].fresh for result in results) == 1
    assert len({result[0].schedule for result in results}) == 1
    assert other[0].fresh


def test_one_key_for_two_requests_among_them_is_refused_to_the_second(
    counted: BaseStore, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(counted, {"job": JobKind(noop_registry())}, SettableClock(T0))
    monkeypatch.setattr(
        scheduler, "_find_created_by_keys", lambda _caller, _news: None
    )  # both looked before either wrote
    news = [
        NewSchedule("job", name, "once", {"run_at": "in 1 hour"}, {"task": "noop"}, idempotency_key="same")
        for name in ("one", "other")
    ]
    results = gate.together(*[partial(scheduler.create, Caller("ada"), new) for new in news])
    (kept,) = [result.definition.name for result in results if not isinstance(result, DuetimeError)]
    (lost,) = [result for result in results if isinstance(result, DuetimeError)]
    assert kept in ("one", "other")
    assert lost.code == "key_reused"
    assert total(counted) == 3


def test_a_known_key_among_them_returns_the_first(counted: BaseStore, gate: Gate) -> None:
    (first,) = made(counted, once(key="known", fingerprint="a"))
    known, other = gate.together(creating(counted, once(key="known", fingerprint="b")), creating(counted, once()))
    assert known == [Creation(first, fresh=False)]
    assert other[0].fresh


def test_a_refused_one_among_them_leaves_no_trace(counted: BaseStore, gate: Gate) -> None:
    full, other, taken = gate.together(
        creating(counted, once(), once(), ada=2),
        creating(counted, once(owner="bob")),
        creating(counted, once(owner="bob", public_id=f"job_{counted.search(ScheduleQuery()).items[0].definition.id}")),
    )
    assert (full.code, full.details) == ("quota", {"limit": 2})
    assert taken.code == "conflict"
    assert other[0].fresh
    assert (total(counted), total(counted, "bob")) == (2, 2)


def test_text_that_cannot_be_stored_hurts_nobody_else(counted: BaseStore, gate: Gate) -> None:
    nul, lone, other = gate.together(
        creating(counted, once(name="a\0b")), creating(counted, once(name="a\ud800b")), creating(counted, once())
    )
    assert isinstance(nul, InvalidInput)
    assert isinstance(lone, InvalidInput)
    assert other[0].fresh
    assert total(counted) == 3


def test_a_place_that_several_of_them_want_goes_to_as_many_as_there_are(counted: BaseStore, gate: Gate) -> None:
    results = gate.together(*[creating(counted, once(), ada=5) for _ in range(8)])
    assert sum(not isinstance(result, DuetimeError) for result in results) == 3  # and two were there before
    assert total(counted) == 5


def test_a_lost_store_is_told_to_everybody_once() -> None:
    tried: list[int] = []

    def write(items: list[int]) -> list[int]:
        tried.append(len(items))
        raise StoreUnavailable("gone")

    shared = SharedCommit[int, int](write)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="gone"):
            shared.write(1)
    assert tried == [1, 1]


class Interrupted(BaseException):
    pass


def test_a_caller_that_is_interrupted_blocks_nobody() -> None:
    """Neither the one who writes for others, nor one who waits and would have to write next."""
    writing, go_on = threading.Event(), threading.Event()
    interrupt = {1, 2}

    def write(items: list[int]) -> list[int]:
        if 0 in items:
            writing.set()
            assert go_on.wait(PATIENCE)
        if interrupt & set(items) and len(items) > 1:
            raise Interrupted
        return [item * 10 for item in items]

    shared = SharedCommit[int, int](write)
    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(shared.write, 0)]
        assert writing.wait(PATIENCE)
        for number in range(1, 5):
            futures.append(pool.submit(shared.write, number))
            while len(shared._waiting) < number:
                assert not futures[-1].done()
        go_on.set()
        results = [future.exception(PATIENCE) or future.result() for future in futures]
    assert isinstance(results[1], Interrupted)
    assert [results[0], *results[2:]] == [0, 20, 30, 40]
    assert shared.write(7) == 70


# -- the cost of a create does not depend on what is stored -----------------------------------------------------------


def statements_of(store: BaseStore, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> int:
    seen: list[str] = []

    def note(_cursor: object, text: str, _values: object) -> bool:
        seen.append(text)
        return True

    if isinstance(store, SqliteStore):
        store._writer.exec_trace = note
        call()
        store._writer.exec_trace = None
        return len(seen)
    import psycopg

    execute = psycopg.Cursor.execute

    def traced(cursor: Any, text: Any, *args: Any, **given: Any) -> Any:
        seen.append(text)
        return execute(cursor, text, *args, **given)

    monkeypatch.setattr(psycopg.Cursor, "execute", traced)
    call()
    monkeypatch.undo()
    return len(seen)


def test_a_create_takes_few_statements(counted: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made(counted, once())  # prepares what is prepared once
    number = statements_of(counted, monkeypatch, lambda: made(counted, once()))
    assert number == 1


def test_a_create_does_as_much_work_among_many_as_among_few() -> None:
    """Counted in steps of SQLite's virtual machine."""
    store = SqliteStore(":memory:")
    store.migrate()
    steps = []
    for others in (100, 5_000):
        made(store, *[once(T0 + number * SECOND) for number in range(others)], limit=10**6)
        made(store, once(), limit=10**6)
        steps.append(_steps(store._writer, lambda: made(store, once(), limit=10**6)))
    store.close()
    assert steps[1] <= 1.1 * steps[0]


def _steps(connection: apsw.Connection, call: Callable[[], object]) -> int:
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(step, 1)
    call()
    connection.set_progress_handler(None)
    return count


def test_every_column_of_a_definition_is_written(only_at_once: BaseStore) -> None:
    (schedule,) = made(only_at_once, once(subject="s", fingerprint="f", key="k", created=Instant(T0 + 1)))
    definition = the(only_at_once, schedule.definition.id).definition
    assert definition._fields == Definition._fields
    assert (definition.subject, definition.fingerprint, definition.key, definition.created) == ("s", "f", "k", T0 + 1)


# -- the workers that warnings are about ------------------------------------------------------------------------------


def test_recent_workers_are_read_once_a_second(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SettableClock(T0)
    reads: list[str] = []

    def named(name: str, *_values: object) -> list[tuple[Any, ...]]:
        reads.append(name)
        return []

    monkeypatch.setattr(store, "_clock", clock)
    monkeypatch.setattr(store, "_named", named)
    assert [store.recent_workers() for _ in range(3)] == [[], [], []]
    assert len(reads) == 1
    clock.move_to(Instant(T0 + SECOND))
    store.recent_workers()
    assert len(reads) == 2
    monkeypatch.undo()


def test_a_worker_of_this_process_is_known_at_once(store: BaseStore) -> None:
    assert store.recent_workers() == []
    worker = store.register("here", ["job"], False, T0)
    assert [row.id for row in store.recent_workers()] == [worker]
    store.retire(worker)
    assert store.recent_workers() == []
