"""Schedules and runs are found by a tag."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import HOUR
from duetime.engine.errors import InvalidInput
from duetime.engine.policy import changes
from duetime.engine.policy.options import make_policy, policy_from_json, policy_to_json, tags_of
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores import search
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one


def ids(store: BaseStore, **query: Any) -> list[int]:
    return [each.definition.id for each in store.search(ScheduleQuery(**query)).items]


def test_only_that_tag_is_found(store: BaseStore) -> None:
    """Not a part of one, and not a text of another option."""
    options: list[dict[str, Any]] = [
        {"tagged": ["backup"]},
        {"tagged": ["nightly", "backup", "a_b"]},
        {"tagged": ["backup-2"], "deliver_to": "backup", "timeout": 5_000_000, "untaken": "keep"},
        {"only_if": "contains(',backup,')", "tagged": ["x"]},
        {"only_if": 'contains(\'"tagged":",backup,\')'},
        {},
        {"tagged": ["axb"]},
    ]
    numbers = [create_one(store, every(HOUR, owner="ada", **each)) for each in options]
    other = create_one(store, every(HOUR, owner="bob", tagged=["backup"]))
    assert ids(store, owner="ada", tagged="backup") == numbers[:2]
    assert ids(store, tagged="backup") == [*numbers[:2], other]
    assert ids(store, owner="ada", tagged="a_b") == [numbers[1]]
    for absent in ("timeout", "keep", "untaken", "back"):
        assert ids(store, owner="ada", tagged=absent) == [], absent
    for wrong in ("%", ",", "backup,nightly", '"', "", "Backup"):
        with pytest.raises(InvalidInput, match="tagged: a tag has"):
            ids(store, owner="ada", tagged=wrong)


@pytest.mark.parametrize(
    "further",
    [
        {"status": "living"},
        {"status": "paused"},
        {"status": "running"},
        {"status": "failed"},
        {"firing": True},
        {"by_time": True},
        {"order_by": "name"},
        {"order_by": "last_run", "newest_first": True},
        {"changed_since": T0},
        {"text": "w"},
        {"kind": "job"},
    ],
)
def test_with_every_other_filter_and_order(store: BaseStore, further: dict[str, Any]) -> None:
    made = create(
        store,
        *[every(HOUR, owner="ada", name=f"w{number}", tagged=["even", "two"][: 1 - number % 2]) for number in range(8)],
    )
    numbers: list[int] = [each.definition.id for each in made]
    for each in made[:4]:
        store.change(each.definition.id, T0, changes.pause)
    plain = ids(store, owner="ada", **further)
    expected = [number for number in plain if numbers.index(number) % 2 == 0]
    assert ids(store, owner="ada", tagged="even", **further) == expected
    paged, cursor = [], None
    for _ in range(10):
        page = store.search(ScheduleQuery(owner="ada", tagged="even", limit=1, cursor=cursor, **further))
        paged += [each.definition.id for each in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        assert page.total == len(expected)
    assert paged == expected


def test_what_fires_next_is_found_whether_few_or_many_have_the_tag(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(store, *[every(HOUR * (9 - n), owner="ada", tagged=["x"] if n % 2 else None) for n in range(9)])
    expected = [each.definition.id for each in reversed(made)][1::2]
    for most in (2, 6, 100):
        monkeypatch.setattr(search, "MAX_SORTED", most)
        assert ids(store, owner="ada", firing=True, tagged="x") == expected
        assert ids(store, firing=True, tagged="x") == expected


def test_runs_and_counts(store: BaseStore, hand: Hand) -> None:
    tagged, plain = [create_one(store, once(owner="ada", tagged=each)) for each in (["x"], None)]
    create_one(store, once(owner="bob", tagged=["x"]))
    hand.record(hand.claim(T0), T0)
    runs = store.runs(RunQuery(owner="ada", tagged="x", limit=1))
    assert [run.schedule for run in runs.items] == [tagged]
    assert store.run_counts(RunQuery(owner="ada", tagged="x")) == {"completed": 1}
    assert store.run_counts(RunQuery(tagged="x")) == {"completed": 2}
    assert store.runs(RunQuery(schedule=plain, tagged="x")).items == []


def test_a_deleted_schedule_has_no_tag_any_more(store: BaseStore) -> None:
    schedule = create_one(store, every(HOUR, tagged=["x"]))
    store.change(schedule, T0, changes.delete)
    assert ids(store, tagged="x") == []


@pytest.mark.parametrize("value", ["b, a,,b", ["b", "a"], ("a", "b"), ",a,b,"])
def test_tags_have_one_form(value: Any) -> None:
    policy = make_policy({"tagged": value})
    stored = policy_to_json(policy)
    assert stored == '{"tagged":",a,b,"}' and policy_from_json(stored) == policy
    assert tags_of(stored) == ["a", "b"] and tags_of("{}") == []


@pytest.mark.parametrize("nothing", [None, [], "", " , "])
def test_no_tags(nothing: Any) -> None:
    assert policy_to_json(make_policy({"tagged": nothing})) == "{}"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("Backup", "a tag has lowercase"),
        ("-x", "a tag has lowercase"),
        ("x" * 41, "at most 40 characters"),
        (["a,b"], "a tag has lowercase"),
        (["a", ""], "a tag has lowercase"),
        (["a\n"], "a tag has lowercase"),
        (["ä"], "a tag has lowercase"),
        ([1], "must be a list of tags"),
        (5, "must be a list of tags"),
        ({"a": 1}, "must be a list of tags"),
        ([str(number) for number in range(11)], "at most 10 tags"),
    ],
)
def test_what_is_no_tag_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refusal:
        make_policy({"tagged": value})
    assert refusal.value.field == "tagged"
