"""Creating: ids, keys, quotas, and nothing half-written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.model import ScheduleState
from duetime.engine.store import ScheduleQuery
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import create, the
from tests.support.refusals import attempt, refusal_of


def test_what_is_created_is_found_by_both_ids(store: BaseStore) -> None:
    (made,) = create(store, once(T0 + 1, name="Straße ☂", payload='{"a":"\\u0000\'\\"{},\\\\"}', subject="shorten"))
    assert made.definition.public_id == f"job_{made.definition.id}"
    assert made == store.get(made.definition.id) == store.find(made.definition.public_id)
    assert made.progress.state == ScheduleState.ACTIVE
    assert store.find("job_0") is None


@pytest.mark.parametrize("instant", [1, T0 + 1, T0 + 999_999, 253_402_300_799_999_999])
def test_instants_keep_their_microsecond(store: BaseStore, instant: int) -> None:
    (made,) = create(store, once(instant, created=Instant(instant)))
    kept = the(store, made.definition.id)
    assert kept.progress.next == kept.definition.created == instant
    assert store.earliest(["job"]) == ("job", instant, made.definition.id, 0, "ada")


def test_a_batch_comes_back_in_its_order(store: BaseStore) -> None:
    names = [f"task {number}" for number in range(500)]
    made = create(store, *[once(name=name) for name in names])
    assert [schedule.definition.name for schedule in made] == names
    assert len({schedule.definition.id for schedule in made}) == 500
    assert store.search(ScheduleQuery()).total == 500


def test_an_empty_batch_is_fine(store: BaseStore) -> None:
    assert store.create([]) == []


def test_a_known_key_returns_the_first(store: BaseStore) -> None:
    first = store.create([once(T0 + 5, key="k", fingerprint="a")])[0]
    again = store.create([once(T0 + 9, key="k", fingerprint="b"), once(key="other")])
    assert first.fresh
    assert not again[0].fresh
    assert again[0].schedule == first.schedule
    assert again[1].fresh
    assert store.create([once(key="k", owner="bob")])[0].fresh


def test_one_key_twice_in_a_batch_makes_one(store: BaseStore) -> None:
    one, other = create(store, once(T0 + 1, key="k"), once(T0 + 2, key="k"))
    assert one == other
    assert one.progress.next == T0 + 1
    assert store.search(ScheduleQuery()).total == 1


def test_one_key_raced_makes_one(opener: Opener, store: BaseStore) -> None:
    stores = [opener() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda s: s.create([once(key="same")]), stores * 5))
    assert sum(result[0].fresh for result in results) == 1
    assert len({result[0].schedule.definition.id for result in results}) == 1


def test_a_public_id_that_is_taken_is_a_conflict(store: BaseStore) -> None:
    create(store, once(public_id="scd_1"))
    refused = refusal_of(lambda: store.create([once(), once(public_id="scd_1")]))
    assert refused.code == "conflict"
    assert store.search(ScheduleQuery()).total == 1


def test_a_quota_counts_what_lives(store: BaseStore) -> None:
    limits = {"ada": 2}
    store.create([once(), every()], limits)
    refused = refusal_of(lambda: store.create([once()], limits))
    assert refused.code == "quota"
    assert refused.details == {"limit": 2}
    store.create([once(owner="bob")], {"bob": 2})


def test_a_known_key_needs_no_room(store: BaseStore) -> None:
    draft = once(key="k")
    store.create([draft], {"ada": 1})
    store.create([draft], {"ada": 1})


def test_a_quota_that_is_raced_is_not_overrun(opener: Opener, store: BaseStore) -> None:
    stores = [opener() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda s: attempt(s.create, [once()], {"ada": 7}), stores * 5))
    assert sum(not isinstance(result, DuetimeError) for result in results) == 7
    assert store.search(ScheduleQuery(owner="ada")).total == 7


@pytest.mark.parametrize("field", ["owner", "name", "payload", "key"])
def test_lone_surrogates_are_refused_and_nothing_is_written(store: BaseStore, field: str) -> None:
    with pytest.raises(InvalidInput, match="surrogates"):
        store.create([once(), once(T0, **{field: "a\ud800b"})])
    assert store.search(ScheduleQuery()).total == 0
    assert store.earliest(["job"]) is None


@pytest.mark.parametrize("field", ["owner", "name", "payload", "key"])
def test_nul_characters_are_refused_and_nothing_is_written(store: BaseStore, field: str) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        store.create([once(), once(T0, **{field: "a\0b"})])
    assert store.search(ScheduleQuery()).total == 0
    assert store.earliest(["job"]) is None


def test_text_of_every_sort_comes_back_as_it_was(store: BaseStore) -> None:
    odd = ["", " ", "NULL", "null", '"', "\\", "{}", "{,}", "a,b", "'; DROP TABLE runs; --", "%s", "?", "🦉\u202e\n\t"]
    made = create(store, *[once(name=text, payload=text, subject=text) for text in odd])
    for text, schedule in zip(odd, made, strict=True):
        kept = the(store, schedule.definition.id).definition
        assert (kept.name, kept.payload, kept.subject) == (text, text, text)


def test_creating_calls_the_listeners(store: BaseStore) -> None:
    heard: list[int] = []
    store.on_change(lambda: heard.append(1))
    create(store, once())
    assert heard == [1]
