"""A page of a list ends early when it grows too large, and the next one goes on where it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duetime.engine.clock import MINUTE
from duetime.engine.outcome import Completed
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every
from tests.support.hand import Hand, create

LARGE = '{"x":"' + "y" * 20_000 + '"}'


@pytest.mark.parametrize("firing", [False, True])
def test_pages_of_large_schedules(store: BaseStore, firing: bool) -> None:
    made = [each.definition.id for each in create(store, *[every(payload=LARGE) for _ in range(25)])]
    query = ScheduleQuery(owner="ada", limit=1000, firing=firing, most_bytes=100_000)
    seen: list[int] = []
    sizes = []
    while True:
        page = store.search(query)
        seen += [item.definition.id for item in page.items]
        sizes.append(len(page.items))
        assert page.total == 25
        if page.cursor is None:
            break
        query = replace(query, cursor=page.cursor)
    assert sorted(seen) == sorted(made)
    assert sizes == [5, 5, 5, 5, 5]


def test_pages_of_large_results(store: BaseStore, hand: Hand) -> None:
    create(store, *[every(MINUTE) for _ in range(12)])
    claims = hand.claim(T0 + MINUTE)
    hand.record(claims, T0 + MINUTE, Completed('"' + "z" * 20_000 + '"'))
    first = store.runs(RunQuery(limit=1000, most_bytes=100_000))
    assert len(first.items) == 5
    rest = store.runs(RunQuery(limit=1000, cursor=first.cursor, most_bytes=1_000_000))
    assert {run.id for run in (*first.items, *rest.items)} == {claim.run.id for claim in claims}
    assert rest.cursor is None


def test_small_rows_are_not_cut(store: BaseStore) -> None:
    create(store, *[every() for _ in range(250)])
    page = store.search(ScheduleQuery(limit=240, most_bytes=2_000_000))
    assert (len(page.items), page.total) == (240, 250)
    assert len(store.search(ScheduleQuery(limit=240, cursor=page.cursor, most_bytes=2_000_000)).items) == 10


def test_one_that_is_too_large_alone_is_shown_alone(store: BaseStore) -> None:
    create(store, every(payload=LARGE), every(payload=LARGE))
    assert len(store.search(ScheduleQuery(most_bytes=10)).items) == 1
