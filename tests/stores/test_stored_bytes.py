"""How much an owner may store: schedules and results count, also those that are over, until they are deleted."""

from __future__ import annotations

from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import RunStatus
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.policy import changes
from duetime.engine.policy.rows import Draft
from duetime.engine.store import RunQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create, create_one, runs_of
from tests.support.refusals import attempt, refusal_of

LIMIT = 100_000
LARGE = '"' + "é" * 10_000 + '"'


def large(created: int = T0) -> Draft:
    return once(T0, payload=LARGE, created=Instant(created))


def made(store: BaseStore, *drafts: Draft, limit: int = LIMIT) -> int:
    result = store.create(drafts, {}, {"ada": limit})
    return result[0].schedule.definition.id


def refusal(store: BaseStore, draft: Draft) -> DuetimeError:
    return refusal_of(store.create, [draft], {}, {"ada": LIMIT})


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
        store.change(id, T0, changes.delete)  # type: ignore[arg-type]
    made(store, large(T0 + 2 * MINUTE))


def test_owners_are_counted_apart_and_those_without_a_limit_not_at_all(store: BaseStore) -> None:
    for _ in range(4):
        made(store, large())
    assert refusal(store, large()).code == "quota"
    store.create([once(T0, payload=LARGE, owner="bob")], {}, {"bob": LIMIT})
    store.create([large()], {})


def test_what_was_stored_before_there_was_a_limit_counts(store: BaseStore) -> None:
    for _ in range(6):
        store.create([large()])
    assert refusal(store, large()).code == "quota"


@pytest.mark.parametrize("limits", [{}, {"ada": 1000}], ids=["in steps", "at once"])
@pytest.mark.parametrize("number", [1, 2])
def test_callbacks_count_when_they_are_added_and_when_the_sum_is_taken_anew(
    store: BaseStore, limits: dict[str, int], number: int
) -> None:
    callback = {"on": "failure", "kind": "request", "payload": {"headers": {"x": "h" * 20_000}}}

    def answer(created: int) -> bool:
        drafts = [once(T0, created=Instant(created), callbacks=[callback]) for _ in range(number)]
        return not isinstance(attempt(store.create, drafts, limits, {"ada": LIMIT}), DuetimeError)

    store.create([once(T0)], limits, {"ada": LIMIT})
    assert [answer(T0) for _ in range(5)] == [True] * (4 // number) + [False] * (5 - 4 // number)
    assert not answer(T0 + 2 * HOUR)


def test_an_addition_to_what_is_stored_is_refused_or_counted(store: BaseStore) -> None:
    store.add_bytes("ada", 60_000, LIMIT, T0)
    refusal_of(lambda: store.add_bytes("ada", 60_000, LIMIT, T0))
    store.add_bytes("ada", 30_000, LIMIT, T0)


HISTORY = 30_000
LATER = Instant(T0 + 3 * HOUR)
RESULT = Completed('"' + "r" * 9_000 + '"')


def ran(store: BaseStore, hand: Hand, number: int = 1, outcome: Outcome = RESULT, owner: str = "ada") -> list[int]:
    """Return runs of one-offs with this outcome, the oldest first."""
    create(store, *(once(T0 + i, owner=owner) for i in range(number)))
    claims = hand.claim(T0 + number)
    hand.record(claims, T0 + number, outcome)
    return sorted(claim.run.id for claim in claims)


def kept(store: BaseStore, owner: str = "ada") -> list[int]:
    return sorted(run.id for run in store.runs(RunQuery(owner=owner, limit=1000)).items)


def trimmed(store: BaseStore, now: int = LATER) -> int:
    """Trim until there is nothing more to do."""
    return sum(iter(lambda: store.trim(HISTORY, Instant(now), 2), 0))


def test_the_oldest_runs_go_until_a_tenth_of_what_an_owner_may_store_is_free(store: BaseStore, hand: Hand) -> None:
    of_bob, of_ada = ran(store, hand, 1, owner="bob"), ran(store, hand, 8)
    assert trimmed(store) == 6
    assert (kept(store), kept(store, "bob")) == (of_ada[6:], of_bob)
    more = ran(store, hand, 2)
    assert trimmed(store) == 2 and kept(store) == more


@pytest.mark.parametrize("counted", [False, True], ids=["after its count", "with a count of its own"])
def test_what_another_worker_trims_during_a_count_is_not_trimmed_twice(
    store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    of_ada = ran(store, hand, 8)
    store._weigh(LATER)
    named, most = store._named, HISTORY - HISTORY // 10
    if not counted:
        store._count_bytes("ada", Instant(LATER - 1))

    def overtaken(name: str, *args: Any) -> Any:
        rows = named(name, *args)
        if name == "count_stored_bytes":
            monkeypatch.setattr(store, "_named", named)
            if counted:
                store._count_bytes("ada", Instant(LATER - 1))
            while store._trim_one("ada", most, LATER, 2):
                pass
        return rows

    monkeypatch.setattr(store, "_named", overtaken)
    assert trimmed(store) == 0
    assert kept(store) == of_ada[6:]


def test_what_fits_what_ended_lately_and_what_local_stores_stays(store: BaseStore, hand: Hand) -> None:
    fitting, of_local = ran(store, hand, 2), ran(store, hand, 9, owner="local")
    recent = ran(store, hand, 9, owner="bob")
    assert trimmed(store, T0 + HOUR // 2) == 0
    assert (kept(store), kept(store, "local"), kept(store, "bob")) == (fitting, of_local, recent)


def test_what_was_counted_is_not_read_again(store: BaseStore, hand: Hand) -> None:
    ran(store, hand, 3)
    assert (store._weigh(LATER), store._weigh(LATER)) == (3, 0)
    ran(store, hand, 1)
    assert store._weigh(LATER) == 1


def test_errors_tracebacks_and_attempts_count(store: BaseStore, hand: Hand) -> None:
    failed = Failed("e" * 2_000, traceback="t" * 6_000)
    ran(store, hand, 5, failed)
    assert trimmed(store) == 3
    schedule = create_one(store, once(T0, owner="bob", max_attempts=100, backoff=1))
    for i in range(6):
        hand.record(hand.claim(T0 + i * MINUTE), T0 + i * MINUTE, failed)
    [run] = runs_of(store, schedule)
    assert run.status == RunStatus.PENDING and len(store.attempts(run.id)) == 6
    assert trimmed(store) == 5  # the earlier attempts of a run that cannot be deleted, because it has not ended
    assert [attempt.number for attempt in store.attempts(run.id)] == [6]


def test_history_that_is_trimmed_makes_place_for_schedules(store: BaseStore, hand: Hand) -> None:
    ran(store, hand, 8)
    draft = once(LATER, created=LATER)
    refusal_of(lambda: store.create([draft], {}, {"ada": HISTORY}))
    assert trimmed(store) > 0
    store.create([draft], {}, {"ada": HISTORY})


def test_runs_that_a_count_includes_already_refuse_no_create(store: BaseStore, hand: Hand) -> None:
    ran(store, hand, 2)
    draft, limits = once(LATER, created=LATER), {"ada": HISTORY}
    store.create([draft], {}, limits)  # counts what is stored
    assert store._weigh(LATER) == 2
    store.create([draft], {}, limits)
