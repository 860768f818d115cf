"""What few runs have: the traceback of an exception, and an input of their own."""

from __future__ import annotations

from dataclasses import replace

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.model import RunId, ScheduleId
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.engine.store import RunQuery
from duetime.stores.base import BaseStore
from duetime.stores.records import _PERIOD, _TIMINGS
from duetime.stores.run_search import run_page
from duetime.stores.sqlite.store import MEMORY, SQL, SqliteStore
from tests.support.drafts import T0, every, once
from tests.support.hand import DONE, Hand, create_one, the, the_run


def test_a_traceback_is_kept_with_each_attempt_and_with_the_failed_run(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(max_attempts=2, backoff=SECOND))
    (claim,) = hand.claim(T0)
    id = claim.run.id
    hand.record([claim], T0, Failed("no", traceback="first"))
    assert [each.traceback for each in store.attempts(id)] == ["first"]
    assert store.traceback(id) is None, "it is not over"
    later = T0 + 2 * SECOND
    hand.record(hand.claim(later), later, Failed("no", traceback="second"))
    assert store.traceback(id) == "second"

    store.change_run(id, Instant(later), changes.retry)
    assert store.traceback(id) is None, "its attempt has it from now on"
    hand.record(hand.claim(later), later)
    assert [each.traceback for each in store.attempts(id)] == ["first", "second"]
    assert (the_run(store, id).status, store.traceback(id)) == ("completed", None)

    assert store.prune(Instant(later + MINUTE), 10) > 0
    assert store.attempts(id) == []


def test_a_run_is_executed_with_its_own_input(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, payload='{"usual":1}', max_attempts=2, backoff=SECOND))
    fired = store.change(schedule, T0, lambda change: changes.fire(change, '{"own":1}'))
    assert (store.run_input(fired.id).payload, store.run_input(RunId(fired.id + 1)).payload) == ('{"own":1}', None)

    (claim,) = hand.claim(T0)
    assert (claim.run.id, claim.definition.payload) == (fired.id, '{"own":1}')
    assert [each.definition.payload for each in store.held(hand.id)] == ['{"own":1}']
    hand.die(T0 + 1)
    heir = Hand(store, "heir")
    (again,) = heir.claim(T0 + 1)
    heir.record([again], T0 + 1, Failed("no"))
    (retried,) = heir.claim(T0 + 3 * SECOND)
    assert again.definition.payload == retried.definition.payload == '{"own":1}', "also after a crash and a failure"
    heir.record([retried], T0 + 3 * SECOND)

    (usual,) = heir.claim(T0 + MINUTE)
    assert usual.definition.payload == the(store, schedule).definition.payload == '{"usual":1}'
    heir.record([usual], T0 + MINUTE)


def test_runs_are_counted_by_period(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    other = create_one(store, every(MINUTE))
    for step in range(1, 6):
        claims = hand.claim(T0 + step * MINUTE)
        hand.record(claims, T0 + step * MINUTE + 3, Failed("no") if step == 4 else DONE)
    bounds = [Instant(T0 + minutes * MINUTE) for minutes in (0, 3, 6, 9)]
    counts = sorted(store.period_counts(schedule, bounds, 100))
    assert [each[:4] for each in counts] == [(0, "completed", 2, 2), (1, "completed", 2, 2), (1, "failed", 1, 1)]
    assert sum(each.rows for each in store.period_counts(schedule, bounds, 1)) == 2, "the latest of each period"
    assert store.period_counts(other, bounds[:1], 1) == []
    timings = store.timings(schedule, 2)
    assert [each.due - T0 for each in timings] == [5 * MINUTE, 4 * MINUTE]
    assert [(each.status, each.late) for each in timings] == [("completed", 0), ("failed", 0)]
    assert timings[0].started is not None and timings[0].finished == T0 + 5 * MINUTE + 3


def test_the_history_of_one_schedule_is_read_by_its_own_index() -> None:
    """However much the owner's other schedules have run, and whatever the history is filtered by."""
    store = SqliteStore(MEMORY)
    store.migrate()
    query = RunQuery(owner="ada", schedule=ScheduleId(1), due_from=T0, due_to=T0, count_to=0)
    statuses: tuple[tuple[str, ...], ...] = (), ("completed",), ("missed",), ("failed", "lost")
    pages = [replace(query, statuses=each) for each in statuses]
    statements = [*map(run_page, pages), (_TIMINGS, [1, 2]), (_PERIOD.format(0), [1, 2, 3, 4])]
    for statement, values in statements:
        plan = "; ".join(row[3] for row in store._rows(f"EXPLAIN QUERY PLAN {statement}", values))
        assert "USING INDEX runs_once (schedule=?" in plan, plan
    store.close()


def test_neighbours_are_read_without_their_rows() -> None:
    """Each may hold a long result, and a page about a run only links to them."""
    store = SqliteStore(MEMORY)
    store.migrate()
    for name in ("run_before", "run_after"):
        plan = "; ".join(row[3] for row in store._rows(f"EXPLAIN QUERY PLAN {SQL[name]}", [1, T0, 1]))
        assert "USING COVERING INDEX runs_once (schedule=?" in plan, plan
    store.close()


def test_runs_know_their_neighbours_and_their_next_attempt(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_attempts=2, backoff=10 * SECOND))
    for step in (1, 2):
        hand.record(hand.claim(T0 + step * MINUTE), T0 + step * MINUTE)
    hand.record(hand.claim(T0 + 3 * MINUTE), T0 + 3 * MINUTE, Failed("no"))
    last, middle, first = store.runs(RunQuery(schedule=schedule)).items
    assert store.neighbours(first) == (None, middle.id)
    assert store.neighbours(middle) == (first.id, last.id)
    assert store.neighbours(last) == (middle.id, None)
    at = store.starts_at(last)
    assert at is not None and 0 < at - (T0 + 3 * MINUTE) <= 10 * SECOND
    assert store.starts_at(first) is None
    hand.record(hand.claim(at), at)


def test_the_trace_of_who_started_a_run_is_stored_with_it(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    fired = store.change(schedule, T0, lambda change: changes.fire(change, trace="00-1-2-01"))
    assert store.trace_of(fired.id) == "00-1-2-01"
    (claim,) = hand.claim(T0)
    hand.record([claim], T0)
    plain = store.change(schedule, T0, changes.fire)
    assert store.trace_of(plain.id) is None and store.trace_of(RunId(999)) is None
