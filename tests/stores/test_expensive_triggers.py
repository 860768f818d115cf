"""Triggers that take many steps are evaluated outside a store's transactions, so that nobody waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from duetime.engine.clock import DAY, SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import RunStatus, ScheduleState
from duetime.engine.outcome import Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.catch_up import evaluate, missed_span, next_instant
from duetime.engine.policy.changes import Edit
from duetime.engine.store import ClaimRequest
from duetime.engine.triggers import RRuleTrigger
from duetime.engine.triggers.step_budget import TRANSACTION_STEPS, step_budget
from duetime.engine.worker.worker import Worker, WorkerOptions
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry, Task
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, draft, every
from tests.support.hand import Hand, create, create_one, runs_of, the

SIXTY = ",".join(map(str, range(60)))
COSTLY = "FREQ=MONTHLY;COUNT=1000;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
"""About 25,000 steps: allowed, and too many for a transaction."""
ENDLESS = f"FREQ=HOURLY;COUNT=10000;BYMINUTE={SIXTY};BYSECOND={SIXTY};BYSETPOS=366"
"""36 million steps: refused at its creation, unless it was stored before that was checked."""

_seconds = count(1)


class HeldTooLong(BaseException):
    """More was evaluated within a transaction than it has steps for."""


@pytest.fixture(autouse=True)
def short_transactions(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction may take many steps."""
    write = store._write

    @contextmanager
    def counted() -> Iterator[Any]:
        with step_budget(TRANSACTION_STEPS + 1_000, HeldTooLong), write() as tx:  # type: ignore[arg-type]
            yield tx

    monkeypatch.setattr(store, "_write", counted)


def ruled(rule: str, due: int = T0, **given: Any) -> Any:
    """Each begins at another second, so that nothing is remembered of it, as in a process that has just started."""
    trigger = RRuleTrigger(rule=rule, dtstart=(T0 - 400 * DAY) // SECOND + next(_seconds), timezone="UTC")
    return draft(trigger, Instant(due), **given)


def test_a_costly_trigger_is_claimed_in_the_exchange_after_it_was_evaluated(store: BaseStore, hand: Hand) -> None:
    schedule, other = (each.definition.id for each in create(store, ruled(COSTLY), every(SECOND, T0 - SECOND)))
    wants = [ClaimRequest("job", 10, T0)]
    first = store.record_and_claim(hand.id, T0, [], wants)
    assert [claim.run.schedule for claim in first.claims] == [other]
    assert [question.schedule for question in first.postponed] == [schedule]
    assert the(store, schedule).progress.next == T0
    again = store.record_and_claim(hand.id, T0, [], wants, answers=evaluate(first.postponed, T0))
    assert [claim.run.schedule for claim in again.claims] == [schedule]
    assert again.postponed == []
    assert (the(store, schedule).progress.next or 0) > T0


def test_the_costly_triggers_of_one_owner_delay_no_other_owner(store: BaseStore, hand: Hand) -> None:
    create(store, *(ruled(COSTLY, owner="mallory") for _ in range(20)))
    others = create(store, *(every(SECOND, T0 - SECOND, owner=owner) for owner in ("bob", "carol")))
    wants = [ClaimRequest("job", 100, T0)]
    first = store.record_and_claim(hand.id, T0, [], wants)
    assert [claim.run.schedule for claim in first.claims] == [each.definition.id for each in others]
    assert len(first.postponed) == 20


def test_the_costly_triggers_of_many_owners_are_postponed_and_break_nothing(store: BaseStore, hand: Hand) -> None:
    """As many as a claim takes at most, each of another owner."""
    made = create(store, *(ruled(COSTLY, owner=f"owner-{number}") for number in range(500)))
    first = store.record_and_claim(hand.id, T0, [], [ClaimRequest("job", 500, T0)])
    schedules = {each.definition.id for each in made}
    assert {question.schedule for question in first.postponed} == schedules
    assert {the(store, schedule).progress.state for schedule in schedules} == {ScheduleState.ACTIVE}


def test_owners_take_turns_with_their_costly_triggers(store: BaseStore, hand: Hand) -> None:
    """Each round answers one of these questions."""
    create(store, *(ruled(COSTLY, owner="ada") for _ in range(5)), *(ruled(COSTLY, owner=of) for of in ("bob", "cy")))
    postponed = store.record_and_claim(hand.id, T0, [], [ClaimRequest("job", 100, T0)]).postponed
    answers = evaluate(postponed, T0)
    owners = [question.owner for question in answers]
    for _ in range(3):
        postponed = [question for question in postponed if question not in answers]
        answers = evaluate(postponed, T0, answers)
        owners += [question.owner for question in answers]
    assert owners == ["ada", "bob", "cy", "ada"]


def test_an_answer_about_a_schedule_that_changed_meanwhile_is_not_used(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, ruled(COSTLY))
    wants = [ClaimRequest("job", 10, Instant(T0 + SECOND))]
    postponed = store.record_and_claim(hand.id, T0, [], wants).postponed
    store.change(schedule, T0, lambda change: changes.edit(change, Edit(next=Instant(T0 + SECOND))))
    answers = evaluate(postponed, T0)
    later = store.record_and_claim(hand.id, Instant(T0 + SECOND), [], wants, answers=answers)
    assert [claim.run.due for claim in later.claims] == [T0 + SECOND]


def test_a_worker_carries_out_what_is_costly_and_breaks_what_never_ends(store: BaseStore) -> None:
    costly, endless = create_one(store, ruled(COSTLY)), create_one(store, ruled(ENDLESS))
    said: list[int] = []
    kind = JobKind(Registry([Task(lambda: said.append(1), name="echo")]))
    payload = kind.prepare({"task": "echo"}, Caller("ada")).payload
    assert payload["task"] == "echo"
    plain = create_one(store, every(DAY, T0 - DAY, payload='{"task":"echo","args":[],"kwargs":{}}'))
    worker = Worker(store, {"job": kind}, SettableClock(T0), WorkerOptions(lead=0))
    for _ in range(4):
        worker.tick()
    assert [run.status for run in runs_of(store, plain)] == [RunStatus.COMPLETED]
    assert len(runs_of(store, costly)) == 1
    broken = the(store, endless).progress
    assert broken.state == ScheduleState.BROKEN
    assert "make the rule narrower" in (broken.note or "")
    assert "edit or delete it" in (broken.note or "")


def test_a_costly_schedule_goes_on_after_its_last_run_expired(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, ruled(COSTLY, kind="prompt", max_runs=1, untaken="expire", expire_after=SECOND))
    store.change(schedule, Instant(T0 - DAY), changes.fire)
    hand.record(hand.claim(T0 - DAY, lanes=["prompt"]), T0 - DAY, Waiting())
    now = Instant(T0 - DAY + SECOND)
    wants = [ClaimRequest("prompt", 10, now)]
    postponed = store.record_and_claim(hand.id, now, [], wants).postponed
    assert [question.schedule for question in postponed] == [schedule]
    evaluate(postponed, now)
    assert store.record_and_claim(hand.id, Instant(now + 1), [], wants).postponed == []
    assert [run.status for run in runs_of(store, schedule)] == [RunStatus.MISSED]
    text = the(store, schedule).definition.trigger
    assert the(store, schedule).progress.next == next_instant(text, now)


def test_changes_of_a_costly_schedule_evaluate_outside_the_lock(store: BaseStore) -> None:
    schedule = create_one(store, ruled(COSTLY))
    store.change(schedule, Instant(T0 - 1), changes.pause)
    later = Instant(T0 + 90 * DAY)
    store.change(schedule, later, changes.resume)
    (skipped,) = [run for run in runs_of(store, schedule) if run.status == RunStatus.SKIPPED]
    text = the(store, schedule).definition.trigger
    assert (skipped.due, skipped.number) == (T0, missed_span(text, T0, later).number)
    assert the(store, schedule).progress.next == next_instant(text, later)


def test_what_never_ends_can_be_paused_edited_and_deleted(store: BaseStore) -> None:
    schedule, other = create_one(store, ruled(ENDLESS)), create_one(store, ruled(ENDLESS))
    store.change(schedule, T0, changes.pause)
    store.change(other, Instant(T0 + 1), changes.delete)
    mended = RRuleTrigger(rule="FREQ=DAILY", dtstart=T0 // SECOND, timezone="UTC")
    edit = Edit(trigger=the(store, create_one(store, draft(mended, T0))).definition.trigger)
    store.change(schedule, Instant(T0 + 1), lambda change: changes.edit(change, edit))
    assert the(store, schedule).progress.next == T0 + DAY


def test_a_long_absence_of_a_frequent_schedule_is_counted_outside_the_lock(store: BaseStore, hand: Hand) -> None:
    rule = f"FREQ=HOURLY;BYMINUTE={SIXTY};BYSETPOS=1,2,3"
    schedule = create_one(store, ruled(rule, catch_up="all", catch_up_limit=300, queue_limit=300, overlap="queue"))
    now = Instant(T0 + 60 * DAY)
    wants = [ClaimRequest("job", 10, now)]
    first = store.record_and_claim(hand.id, now, [], wants)
    again = store.record_and_claim(hand.id, now, [], wants, answers=evaluate(first.postponed, now))
    assert len(again.claims) == 1
    missed, *caught_up = runs_of(store, schedule)
    assert len(caught_up) == 300
    assert -1000 <= missed.number < -400  # at least so many, for counting has a bound too
