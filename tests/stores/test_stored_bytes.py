"""How much an owner may store: schedules and results count, also those that are over, until they are deleted."""

from __future__ import annotations

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.outcome import Completed
from duetime.engine.policy import changes
from duetime.engine.policy.rows import Draft
from duetime.engine.result import Err, Ok
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, once
from tests.support.hand import Hand, value_of

LIMIT = 100_000
LARGE = '"' + "é" * 10_000 + '"'


def large(created: int = T0) -> Draft:
    return once(T0, payload=LARGE, created=Instant(created))


def made(store: BaseStore, *drafts: Draft, limit: int = LIMIT) -> int:
    result = store.create(drafts, {}, {"ada": limit})
    assert isinstance(result, Ok), result
    return result.value[0].schedule.definition.id


def refusal(store: BaseStore, draft: Draft) -> Err:
    result = store.create([draft], {}, {"ada": LIMIT})
    assert isinstance(result, Err)
    return result


def test_one_offs_that_are_over_count_too(store: BaseStore, hand: Hand) -> None:
    for _ in range(4):
        made(store, large())
        hand.record(hand.claim(T0), T0)
    refused = refusal(store, large(T0 + 1))
    assert (refused.code, refused.details) == ("quota", {"limit": LIMIT})
    assert "delete some" in (refused.message or "")
    assert "max_stored_bytes" in (refused.message or "")
    assert hand.claim(T0) == []


def test_results_count_when_the_sum_is_taken_anew(store: BaseStore, hand: Hand) -> None:
    made(store, once(T0))
    hand.record(hand.claim(T0), T0, Completed('"' + "r" * 99_000 + '"'))
    made(store, once(T0 + 1, created=Instant(T0 + 1)))
    assert refusal(store, once(T0 + 2 * HOUR, created=Instant(T0 + 2 * HOUR))).code == "quota"


def test_whoever_deletes_something_can_go_on_within_a_minute(store: BaseStore) -> None:
    ids = [made(store, large()) for _ in range(4)]
    assert refusal(store, large()).code == "quota"
    for id in ids[:2]:
        value_of(store.change(id, T0, changes.delete))  # type: ignore[arg-type]
    made(store, large(T0 + 2 * MINUTE))


def test_owners_are_counted_apart_and_those_without_a_limit_not_at_all(store: BaseStore) -> None:
    for _ in range(4):
        made(store, large())
    assert refusal(store, large()).code == "quota"
    assert isinstance(store.create([once(T0, payload=LARGE, owner="bob")], {}, {"bob": LIMIT}), Ok)
    assert isinstance(store.create([large()], {}), Ok)


def test_what_was_stored_before_there_was_a_limit_counts(store: BaseStore) -> None:
    for _ in range(6):
        assert isinstance(store.create([large()]), Ok)
    assert refusal(store, large()).code == "quota"


def test_an_addition_to_what_is_stored_is_refused_or_counted(store: BaseStore) -> None:
    assert isinstance(store.add_bytes("ada", 60_000, LIMIT, T0), Ok)
    assert isinstance(store.add_bytes("ada", 60_000, LIMIT, T0), Err)
    assert isinstance(store.add_bytes("ada", 30_000, LIMIT, T0), Ok)
