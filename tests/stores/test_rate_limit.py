"""The limit of runs an hour: what is beyond it waits for the next hour and says so."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from duetime.app import build
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.outcome import Returned
from duetime.engine.policy import changes
from duetime.engine.policy.catch_up import LEAD
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.fair_share import Budget
from duetime.engine.policy.record import Finished
from duetime.engine.store import ClaimRequest
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, the

NEXT_HOUR = Instant(T0 - T0 % HOUR + HOUR)


def claim(store: BaseStore, hand: Hand, now: int, budget: Budget | int | None) -> list[Claim]:
    return store.record_and_claim(
        hand.id, Instant(now), [], [ClaimRequest("job", 100, Instant(now))], {}, budget
    ).claims


def test_what_is_beyond_the_limit_waits_for_the_next_hour(store: BaseStore, hand: Hand) -> None:
    schedules = [made.definition.id for made in create(store, *(once(T0 + step) for step in range(5)))]
    claims = claim(store, hand, T0 + 10, budget=3)
    hand.record(claims, T0 + 10)
    assert [each.definition.id for each in claims] == schedules[:3]
    held_back = the(store, schedules[4]).progress
    assert "3 runs an hour" in (held_back.note or "")
    entry = store.earliest(["job"])
    assert entry is not None
    assert entry.at == NEXT_HOUR + LEAD, "never its own instant, though it may be claimed ahead of it"
    assert claim(store, hand, T0 + MINUTE, budget=3) == []
    later = claim(store, hand, NEXT_HOUR + LEAD, budget=3)
    hand.record(later, NEXT_HOUR + LEAD)
    assert [each.definition.id for each in later] == schedules[3:]
    assert the(store, schedules[4]).progress.note is None


def test_the_limit_is_per_owner_and_counts_over_claims(store: BaseStore, hand: Hand) -> None:
    create(store, *(once(T0 + step, owner=owner) for step in range(3) for owner in ("ada", "bob")))
    owners = []
    for step in range(3):
        claims = claim(store, hand, T0 + step, budget=2)
        owners += [each.definition.owner for each in claims]
        hand.record(claims, T0 + step)
    assert sorted(owners) == ["ada", "ada", "bob", "bob"]


def test_a_pause_ends_at_its_time_though_the_limit_is_reached(store: BaseStore, hand: Hand) -> None:
    begin = T0 - T0 % HOUR
    running, resting = (made.definition.id for made in create(store, every(MINUTE, begin), every(MINUTE, begin)))
    store.change(resting, Instant(begin + 1), partial(changes.pause, until=Instant(begin + 5 * MINUTE), note="lunch"))
    assert [each.definition.id for each in claim(store, hand, begin + MINUTE, budget=1)] == [running]
    claim(store, hand, begin + 5 * MINUTE, budget=1)
    assert the(store, resting).progress.state == "active"


def test_without_a_limit_nothing_is_held_back(store: BaseStore, hand: Hand) -> None:
    create(store, *(once(T0 + step) for step in range(5)))
    assert len(claim(store, hand, T0 + 10, budget=None)) == 5


def test_what_was_given_back_is_not_charged(store: BaseStore, hand: Hand) -> None:
    create(store, once(T0))
    for step in range(5):
        (held,) = claim(store, hand, T0 + step, budget=1)
        item = Finished(held.run.id, held.run.fence, Returned(), None, Instant(T0 + step))
        store.record_and_claim(hand.id, Instant(T0 + step), [item], [], {held.run.id: held}, 1)
    assert len(claim(store, hand, T0 + 9, budget=1)) == 1


def test_being_held_back_is_not_being_late(store: BaseStore, hand: Hand) -> None:
    first, second = create(store, once(T0), once(T0 + 1, catch_up="skip"))
    hand.record(claim(store, hand, T0 + 2, budget=1), T0 + 2)
    (later,) = claim(store, hand, NEXT_HOUR + LEAD, budget=1)
    assert later.definition.id == second.definition.id
    assert first.definition.id != second.definition.id


def test_an_owner_without_a_limit_is_never_held_back(store: BaseStore, hand: Hand) -> None:
    create(store, *(once(T0 + step, owner=owner) for step in range(4) for owner in ("local", "ada")))
    claims = claim(store, hand, T0 + 10, Budget(2, frozenset({"local"})))
    assert Counter(each.definition.owner for each in claims) == {"local": 4, "ada": 2}
    assert store._rows("SELECT owner, runs FROM usage", ()) == [("ada", 2)]


def test_what_is_held_back_says_what_to_do_and_is_not_looked_at_again(store: BaseStore, hand: Hand) -> None:
    made = create(store, *(once(T0 + step) for step in range(200)))
    assert len(claim(store, hand, T0 + SECOND, budget=20)) == 20
    while store.record_and_claim(
        hand.id, Instant(T0 + SECOND), [], [ClaimRequest("job", 50, Instant(T0 + SECOND))], {}, 20
    ).seen:
        pass
    assert "ask the operator to raise max_runs_per_hour" in (the(store, made[-1].definition.id).progress.note or "")
    create(store, once(T0 + SECOND, owner="bob"))
    exchanged = store.record_and_claim(
        hand.id, Instant(T0 + MINUTE), [], [ClaimRequest("job", 50, Instant(T0 + MINUTE))], {}, 20
    )
    assert (len(exchanged.claims), exchanged.seen) == (1, 1), "the others stand in the queue of the next hour"


def test_nobody_but_local_is_without_a_limit_by_default(tmp_path: Path) -> None:
    def limit_of(**given: int) -> Any:
        app = build(Settings(db=str(tmp_path / "duetime.db"), timezone="UTC", **given), registry=Registry())  # type: ignore[arg-type]
        try:
            return app.engine(session=True).options.runs_per_hour
        finally:
            app.close()

    assert limit_of() == Budget(10_000, frozenset({"local"}))
    assert limit_of(max_runs_per_hour=0) is None
    assert limit_of(max_runs_per_hour=7) == Budget(7)
