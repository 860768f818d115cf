"""What was due and will not run is a row that says so, with its reason and the right number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.model import RunStatus, ScheduleId, ScheduleState
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Change, Decision, Edit
from duetime.engine.policy.rows import Writes
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create_one, runs_of, statuses, the

LATE = Instant(T0 + 10 * MINUTE + 5)
Decide = Callable[[Change], Decision[Any]]
ENDINGS: dict[str, Decide] = {"cancelled": changes.cancel, "deleted": changes.delete}


def range_of(store: BaseStore, schedule: ScheduleId) -> tuple[str, int, int | None, int, str | None]:
    (run,) = runs_of(store, schedule)
    return run.status, run.due, run.last, run.number, run.error


@pytest.mark.parametrize("verb", ENDINGS)
def test_what_was_due_before_the_end_of_a_schedule_is_recorded(store: BaseStore, verb: str) -> None:
    schedule = create_one(store, every(MINUTE))
    store.change(schedule, LATE, ENDINGS[verb])
    reason = f"the schedule was {verb}"
    assert range_of(store, schedule) == ("skipped", T0 + MINUTE, T0 + 10 * MINUTE, 10, reason)


@pytest.mark.parametrize("verb", ENDINGS)
def test_a_one_off_that_was_due_before_its_end_is_recorded(store: BaseStore, verb: str) -> None:
    schedule = create_one(store, once(T0 + 5))
    store.change(schedule, LATE, ENDINGS[verb])
    assert range_of(store, schedule) == ("skipped", T0 + 5, T0 + 5, 1, f"the schedule was {verb}")


@pytest.mark.parametrize("verb", ENDINGS)
def test_what_a_pause_held_back_is_recorded_when_the_schedule_ends(store: BaseStore, verb: str) -> None:
    schedule = create_one(store, every(MINUTE))
    store.change(schedule, T0, changes.pause)
    store.change(schedule, LATE, ENDINGS[verb])
    reason = f"it was paused, and then the schedule was {verb}"
    assert range_of(store, schedule) == ("skipped", T0 + MINUTE, T0 + 10 * MINUTE, 10, reason)


@pytest.mark.parametrize("verb", ENDINGS)
def test_what_lies_ahead_of_the_end_leaves_no_row(store: BaseStore, hand: Hand, verb: str) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    store.change(schedule, Instant(T0 + MINUTE + 5), ENDINGS[verb])
    assert statuses(store, schedule) == ["completed"]


def test_a_pause_records_what_was_overdue_and_a_resume_what_lay_within(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    store.change(schedule, LATE, changes.pause)
    overdue = "it was overdue when the schedule was paused"
    assert range_of(store, schedule) == ("skipped", T0 + MINUTE, T0 + 10 * MINUTE, 10, overdue)
    store.change(schedule, Instant(T0 + 15 * MINUTE), changes.resume)
    _, within = runs_of(store, schedule)
    assert (within.due, within.last, within.number) == (T0 + 11 * MINUTE, T0 + 15 * MINUTE, 5)
    (claim,) = hand.claim(T0 + 16 * MINUTE)
    assert claim.run.due == T0 + 16 * MINUTE


def test_an_overdue_one_off_that_is_paused_is_recorded_once(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0 + 5, catch_up="skip"))
    store.change(schedule, LATE, changes.pause)
    store.change(schedule, Instant(T0 + HOUR), changes.resume)
    assert statuses(store, schedule) == ["missed"]
    progress = the(store, schedule).progress
    assert (progress.state, progress.last_status) == (ScheduleState.ENDED, RunStatus.MISSED)
    assert "overdue" in str(progress.note)
    assert hand.claim(T0 + 2 * HOUR) == []


def test_what_has_a_row_already_is_not_recorded_again_at_the_end(store: BaseStore, hand: Hand) -> None:
    """A clock that had been ahead ran the third occurrence before the first two."""
    schedule = create_one(store, every(MINUTE))
    store.change(schedule, T0, lambda change: changes.edit(change, Edit(next=Instant(T0 + 3 * MINUTE))))
    hand.record(hand.claim(T0 + 3 * MINUTE), T0 + 3 * MINUTE)
    store.change(schedule, T0, lambda change: changes.edit(change, Edit(next=Instant(T0 + MINUTE))))
    store.change(schedule, Instant(T0 + 5 * MINUTE), changes.cancel)
    skipped, ran = runs_of(store, schedule)
    assert (ran.status, ran.due) == ("completed", T0 + 3 * MINUTE)
    assert (skipped.due, skipped.last, skipped.number) == (T0 + MINUTE, T0 + 5 * MINUTE, 4)


@pytest.mark.parametrize("decide", [changes.pause, changes.cancel, changes.delete])
def test_a_trigger_that_cannot_be_read_hinders_nobody(store: BaseStore, decide: Decide) -> None:
    schedule = create_one(store, every(MINUTE))
    with store._write() as tx:
        found = tx.lock_schedule(schedule)
        assert found is not None
        spoilt = found.definition._replace(trigger='{"type":"moon"}')
        tx.apply(Writes(definitions=[spoilt]), T0)
    store.change(schedule, LATE, decide)
    assert [(run.due, run.number) for run in runs_of(store, schedule)] == [(T0 + MINUTE, -1)], "at least this one"


# -- ranges that begin off the rule -----------------------------------------------------------------------------


def moved(store: BaseStore, to: int, **policy: Any) -> ScheduleId:
    """A schedule of whole minutes whose next occurrence was moved to between two of them."""
    schedule = create_one(store, every(MINUTE, **policy))
    store.change(schedule, T0, lambda change: changes.edit(change, Edit(next=Instant(to))))
    return schedule


def test_a_range_counts_the_moved_occurrence_that_it_begins_with(store: BaseStore) -> None:
    schedule = moved(store, T0 + 90 * MINUTE // 60)
    store.change(schedule, Instant(T0 + 3 * MINUTE), changes.cancel)
    (skipped,) = runs_of(store, schedule)
    assert (skipped.due, skipped.last, skipped.number) == (T0 + 90 * MINUTE // 60, T0 + 3 * MINUTE, 3)


@pytest.mark.parametrize(("catch_up", "missed", "ran"), [("once", 2, 1), ("skip", 3, 0), ("all", 0, 3)])
def test_catching_up_from_a_moved_occurrence_counts_it(
    store: BaseStore, hand: Hand, catch_up: str, missed: int, ran: int
) -> None:
    schedule = moved(store, T0 + 90 * MINUTE // 60, catch_up=catch_up, grace=0)
    hand.claim(T0 + 3 * MINUTE + 5)
    runs = runs_of(store, schedule)
    assert sum(run.number for run in runs if run.status == "missed") == missed
    assert sum(run.status in ("running", "queued") for run in runs) == ran


def test_a_moved_occurrence_alone_is_caught_up_with(store: BaseStore, hand: Hand) -> None:
    schedule = moved(store, T0 + 90 * MINUTE // 60, catch_up="all", grace=0)
    (claim,) = hand.claim(T0 + 100 * MINUTE // 60)
    assert claim.run.due == T0 + 90 * MINUTE // 60
    assert statuses(store, schedule) == ["running"]


def rows_of(store: BaseStore, schedule: ScheduleId) -> list[tuple[str, int, int | None, int]]:
    """Return the runs in the order of their instants, in minutes."""
    minute = [(run.status, (run.due - T0) / MINUTE, run.last, run.number) for run in runs_of(store, schedule)]
    return sorted(
        [
            (status, round(due), None if last is None else (last - T0) // MINUTE, number)
            for status, due, last, number in minute
        ],
        key=lambda row: row[1],
    )


def test_a_row_of_skipped_occurrences_covers_none_that_ran(store: BaseStore, hand: Hand) -> None:
    """An occurrence that finds room in the queue ends the row of those that did not."""
    schedule = create_one(store, every(MINUTE, overlap="queue", queue_limit=1))
    (first,) = hand.claim(T0 + MINUTE)
    for minute in (2, 3, 4):
        hand.claim(T0 + minute * MINUTE)
    hand.record([first], T0 + 4 * MINUTE + 1)
    (second,) = hand.claim(T0 + 4 * MINUTE + 2)
    for minute in (5, 6, 7):
        hand.claim(T0 + minute * MINUTE)
    hand.record([second], T0 + 7 * MINUTE + 1)
    assert rows_of(store, schedule) == [
        ("completed", 1, None, 1),
        ("completed", 2, None, 1),
        ("skipped", 3, 4, 2),
        ("pending", 5, None, 1),
        ("skipped", 6, 7, 2),
    ]


def test_a_row_of_skipped_occurrences_ends_with_an_edit_of_the_rule(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (first,) = hand.claim(T0 + MINUTE)
    hand.claim(T0 + 2 * MINUTE)
    hand.claim(T0 + 3 * MINUTE)
    moved = Edit(next=Instant(T0 + 20 * MINUTE))
    store.change(schedule, Instant(T0 + 3 * MINUTE + 1), lambda change: changes.edit(change, moved))
    hand.claim(T0 + 20 * MINUTE)
    hand.record([first], T0 + 20 * MINUTE + 1)
    assert rows_of(store, schedule) == [("completed", 1, None, 1), ("skipped", 2, 3, 2), ("skipped", 20, 20, 1)]
