"""The last runs of many schedules in one question, for small pictures of their past."""

from __future__ import annotations

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.model import ScheduleId
from duetime.engine.outcome import Failed
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every
from tests.support.hand import Hand, create


def test_the_latest_runs_of_each(store: BaseStore, hand: Hand) -> None:
    one, other, idle = [made.definition.id for made in create(store, every(), every(2 * MINUTE), every(600 * MINUTE))]
    for minute in range(1, 6):
        now = Instant(T0 + minute * MINUTE)
        hand.record(hand.claim(now), now)
    traces = store.traces([one, other, idle, one], 3)
    assert [each.due for each in traces if each.schedule == one] == [T0 + minute * MINUTE for minute in (5, 4, 3)]
    assert [each.due for each in traces if each.schedule == other] == [T0 + minute * MINUTE for minute in (4, 2)]
    assert {each.schedule for each in traces} == {one, other}
    assert {each.status for each in traces} == {"completed"}
    assert store.traces([], 3) == []


def test_a_whole_page_is_asked_for_at_once(store: BaseStore, hand: Hand) -> None:
    ids = [made.definition.id for made in create(store, *[every() for _ in range(100)])]
    now = Instant(T0 + MINUTE)
    hand.record(hand.claim(now), now)
    assert {trace.schedule for trace in store.traces(ids, 30)} == set(ids)


def test_the_latest_failure_of_each(store: BaseStore, hand: Hand) -> None:
    one, other, fine = [made.definition.id for made in create(store, every(), every(2 * MINUTE), every(3 * MINUTE))]
    for minute in range(1, 7):
        now = Instant(T0 + minute * MINUTE)
        claims = hand.claim(now)
        failing = [claim for claim in claims if claim.definition.id != fine and minute < 6]
        hand.record(failing, now, Failed("no", permanent=True))
        hand.record([claim for claim in claims if claim not in failing], now)
    failures = store.latest_failures([one, other, fine])
    assert {(run.schedule, run.due) for run in failures} == {(one, T0 + 5 * MINUTE), (other, T0 + 4 * MINUTE)}
    assert {run.status for run in failures} == {"failed"}
    assert store.latest_failures([]) == []


def test_many_schedules_at_once(store: BaseStore) -> None:
    made = create(store, *[every() for _ in range(3)])
    unknown = ScheduleId(made[-1].definition.id + 1)
    assert store.schedules([unknown, *(each.definition.id for each in made)]) == {
        each.definition.id: each for each in made
    }
    assert store.schedules([]) == {}
