"""Completions that are written by a few columns leave exactly what a decision of the policy would leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.policy import changes
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.completions import split_completions
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.record import Finished, Receipt
from duetime.engine.policy.rows import Completion, Draft
from duetime.stores import base
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, runs_of, the

LATER = T0 + MINUTE
Meanwhile = Callable[[BaseStore, Claim], object]


def _change(decide: Callable[[Any], Any]) -> Meanwhile:
    return lambda store, claim: store.change(claim.definition.id, Instant(LATER), decide)


QUEUE = changes.Edit(policy=policy_to_json(make_policy({"overlap": "queue"})), amid_runs=True)


MEANWHILE: dict[str, Meanwhile] = {
    "nothing": lambda store, claim: None,
    "paused": _change(changes.pause),
    "cancelled": _change(changes.cancel),
    "deleted": _change(changes.delete),
    "the next is queued": _change(lambda change: changes.edit(change, QUEUE)),
    "stopped": lambda store, claim: store.change_run(claim.run.id, Instant(LATER), changes.cancel_run),
}
DRAFTS: dict[str, Callable[[], Draft]] = {
    "once": lambda: once(LATER),
    "recurring": lambda: every(MINUTE),
    "the last of several": lambda: every(MINUTE, end=LATER),
    "at most one run": lambda: every(MINUTE, max_runs=1),
    "queues": lambda: every(MINUTE, overlap="queue"),
    "tells somebody": lambda: every(MINUTE, deliver_to="phone"),
}


def _decided(finished: Sequence[Finished], known: Any) -> tuple[list[Completion], list[Finished]]:
    return [], list(finished)


def _left(store: BaseStore, claim: Claim) -> list[Any]:
    """Return what is stored of a schedule, without the numbers by which two schedules differ."""
    definition, progress = the(store, claim.definition.id)
    runs = [run._replace(id=0, schedule=0) for run in runs_of(store, definition.id)]  # type: ignore[arg-type]
    due = "SELECT lane, at, run <> 0, owner FROM due WHERE schedule = ? ORDER BY at, run"
    gap = progress.gap and -1
    return [progress._replace(schedule=0, gap=gap), runs, store._rows(due, (definition.id,))]  # type: ignore[arg-type]


@pytest.mark.parametrize("next_comes", [False, True])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("draft", DRAFTS)
def test_both_ways_leave_the_same(
    store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch, draft: str, meanwhile: str, next_comes: bool
) -> None:
    create(store, DRAFTS[draft](), DRAFTS[draft]())
    plain, decided = hand.claim(LATER)
    for claim in (plain, decided):
        MEANWHILE[meanwhile](store, claim)
    if next_comes:
        Hand(store, "other").claim(LATER + MINUTE)
    assert hand.record([plain], LATER + SECOND, Completed('{"a": 1}')) == [Receipt.RECORDED]
    monkeypatch.setattr(base, "split_completions", _decided)
    assert hand.record([decided], LATER + SECOND, Completed('{"a": 1}')) == [Receipt.RECORDED]
    assert _left(store, plain) == _left(store, decided)


def test_what_is_not_held_any_more_is_decided_and_the_others_are_recorded(store: BaseStore, hand: Hand) -> None:
    create(store, *[once() for _ in range(4)])
    claims = hand.claim(T0)
    stale = claims[1]._replace(run=claims[1].run._replace(fence=claims[1].run.fence - 1))
    assert hand.record([claims[3]], T0) == [Receipt.RECORDED]
    given = [claims[0], stale, claims[2], claims[3]]
    expected = [Receipt.RECORDED, Receipt.STALE, Receipt.RECORDED, Receipt.ALREADY]
    assert hand.record(given, T0) == expected
    assert [the(store, claim.definition.id).progress.active for claim in claims] == [0, 1, 0, 0]


def test_answers_keep_the_order_of_the_outcomes(store: BaseStore, hand: Hand) -> None:
    create(store, *[once() for _ in range(3)])
    first, second, third = hand.claim(T0)
    outcomes: list[tuple[Claim, Outcome]] = [(first, Completed(None)), (second, Failed("no")), (third, Completed(None))]
    finished = [Finished(c.run.id, c.run.fence, outcome, T0, T0) for c, outcome in outcomes]
    known = {claim.run.id: claim for claim, _ in outcomes}
    completions, rest = split_completions(finished, known)
    assert [item.run for item in completions] == [first.run.id, third.run.id]
    assert rest == [finished[1]]
    old = finished[1]._replace(fence=0)
    answers = store.record_and_claim(hand.id, T0, [finished[0], old, finished[2]], [], known).answers
    assert answers == [Receipt.RECORDED, Receipt.STALE, Receipt.RECORDED]


def test_several_outcomes_of_one_schedule_are_decided_in_their_order(store: BaseStore, hand: Hand) -> None:
    [schedule] = create(store, every(MINUTE, overlap="allow"))
    first, second = [hand.claim(T0 + minutes * MINUTE)[0] for minutes in (1, 2)]
    known = {claim.run.id: claim for claim in (first, second)}
    finished = [
        Finished(first.run.id, first.run.fence, Failed("no"), T0, T0),
        Finished(second.run.id, second.run.fence, Completed(None), T0, T0),
    ]
    assert split_completions(finished, known) == ([], finished)
    store.record_and_claim(hand.id, T0, finished, [], known)
    progress = the(store, schedule.definition.id).progress
    assert (progress.last_status, progress.failures, progress.active) == ("completed", 0, 0)
