"""From due entries to runs: lanes, limits, catch-up, overlap, and rows that cannot be planned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import WorkerGone
from duetime.engine.model import RunStatus, ScheduleState, WorkerId
from duetime.engine.outcome import Failed, Waiting
from duetime.engine.policy import changes
from duetime.engine.store import ClaimRequest
from duetime.stores.base import BaseStore
from tests.stores.conftest import Opener
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one, runs_of, statuses, the
from tests.support.shell import go_back, write


def test_a_claim_starts_a_run_and_the_schedule_advances(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    assert hand.claim(T0 + MINUTE - 1) == []
    (claim,) = hand.claim(T0 + MINUTE + 7)
    assert claim.definition == the(store, schedule).definition
    assert claim.at == T0 + MINUTE
    assert claim.run == store.run(claim.run.id)
    assert (claim.run.due, claim.run.started, claim.run.status) == (T0 + MINUTE, T0 + MINUTE + 7, RunStatus.RUNNING)
    assert (claim.run.attempt, claim.run.fence, claim.run.worker) == (1, 1, hand.id)
    progress = the(store, schedule).progress
    assert (progress.next, progress.through) == (T0 + 2 * MINUTE, T0 + MINUTE)
    assert (progress.run_count, progress.active) == (1, 1)
    assert hand.claim(T0 + MINUTE + 7) == []


def test_entries_are_claimed_in_clock_order_up_to_the_limit(store: BaseStore, hand: Hand) -> None:
    create(store, *[once(T0 + 100 - number) for number in range(10)])
    dues = [claim.run.due for claim in hand.claim(T0 + 1000, limit=4)]
    assert dues == [T0 + 91, T0 + 92, T0 + 93, T0 + 94]
    entry = store.earliest(["job", "job:exact"])
    assert entry is not None
    assert entry.at == T0 + 95


def test_lanes_are_separate_and_each_has_its_limit(store: BaseStore, hand: Hand) -> None:
    create(store, *[once(kind=kind) for kind in ("job", "prompt") for _ in range(5)])
    create(store, *[once(at_most_once=True) for _ in range(3)])
    wants = [ClaimRequest("prompt", 2, T0), ClaimRequest("job", 3, T0), ClaimRequest("job:exact", 1, T0)]
    claims = store.record_and_claim(hand.id, T0, [], wants).claims
    assert [claim.definition.kind for claim in claims] == ["prompt"] * 2 + ["job"] * 4
    assert store.earliest(["mail"]) is None


def test_a_lane_that_is_wanted_twice_gives_no_entry_twice(store: BaseStore, hand: Hand) -> None:
    create(store, *[every(MINUTE) for _ in range(5)])
    now = Instant(T0 + MINUTE)
    claims = store.record_and_claim(hand.id, now, [], [ClaimRequest("job", 3, now), ClaimRequest("job", 4, now)]).claims
    assert len(claims) == len({claim.definition.id for claim in claims})
    assert {claim.run.due for claim in claims} == {now}


def test_claims_raced_by_workers_give_every_occurrence_once(opener: Opener, store: BaseStore) -> None:
    create(store, *[once(T0 + number) for number in range(300)])
    hands = [Hand(opener(), f"hand {number}") for number in range(3)]

    def claim_all(hand: Hand) -> list[int]:
        taken: list[int] = []
        while claims := hand.claim(T0 + SECOND, limit=7):
            taken += [claim.definition.id for claim in claims]
            hand.record(claims, T0 + SECOND)
        return taken

    with ThreadPoolExecutor(3) as pool:
        taken = [schedule for part in pool.map(claim_all, hands) for schedule in part]
    # An entry that somebody else had locked at that moment is passed over: it is there for whoever asks next.
    taken += claim_all(hands[0])
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) == 300


def test_a_worker_without_a_row_claims_nothing(store: BaseStore) -> None:
    create(store, once())
    with pytest.raises(WorkerGone):
        store.record_and_claim(WorkerId(999), T0, [], [ClaimRequest("job", 1, T0)])
    assert store.earliest(["job"]) is not None


def test_late_within_the_grace_is_not_missed(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, catch_up="skip"))
    (claim,) = hand.claim(T0 + HOUR + MINUTE)
    assert claim.run.due == T0 + HOUR
    assert statuses(store, schedule) == ["running"]


def test_catch_up_once_runs_the_newest_and_tells_of_the_rest(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (claim,) = hand.claim(T0 + 10 * MINUTE + 5)
    assert claim.run.due == T0 + 10 * MINUTE
    missed, running = runs_of(store, schedule)
    assert (missed.status, missed.due, missed.last, missed.number) == ("missed", T0 + MINUTE, T0 + 9 * MINUTE, 9)
    assert missed.error
    assert running.id == claim.run.id
    progress = the(store, schedule).progress
    assert (progress.next, progress.through, progress.run_count) == (T0 + 11 * MINUTE, T0 + 10 * MINUTE, 1)


def test_a_week_of_seconds_is_one_row(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(SECOND))
    hand.claim(T0 + 7 * DAY)
    missed, running = runs_of(store, schedule)
    assert (missed.status, missed.number, running.status) == ("missed", -1000, "running")


def test_catch_up_skip_runs_nothing_late(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, catch_up="skip"))
    assert hand.claim(T0 + 3 * HOUR + 30 * MINUTE) == []
    (missed,) = runs_of(store, schedule)
    assert (missed.status, missed.due, missed.last, missed.number) == ("missed", T0 + HOUR, T0 + 3 * HOUR, 3)
    assert the(store, schedule).progress.next == T0 + 4 * HOUR
    assert the(store, schedule).progress.run_count == 0


def test_a_missed_one_off_is_over_and_says_so(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(catch_up="skip"))
    assert hand.claim(T0 + DAY) == []
    assert statuses(store, schedule) == ["missed"]
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    assert the(store, schedule).progress.last_status == RunStatus.MISSED
    assert the(store, schedule).progress.last_error == runs_of(store, schedule)[0].error


def test_catch_up_all_queues_behind_itself(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, catch_up="all", catch_up_limit=3))
    now = T0 + 5 * MINUTE + 1
    (claim,) = hand.claim(now)
    assert claim.run.due == T0 + 3 * MINUTE
    assert statuses(store, schedule) == ["missed", "running", "queued", "queued"]
    for step in (4, 5):
        hand.record([claim], now)
        (claim,) = hand.claim(now)
        assert claim.run.due == T0 + step * MINUTE
    hand.record([claim], now)
    assert statuses(store, schedule) == ["missed", "completed", "completed", "completed"]
    assert the(store, schedule).progress.run_count == 3


def test_catch_up_all_with_overlap_gives_no_more_than_was_asked_for(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, catch_up="all", overlap="allow"))
    now = T0 + 5 * MINUTE
    assert len(hand.claim(now, limit=1, lanes=["job"])) == 1
    assert len(hand.claim(now, limit=3, lanes=["job"])) == 3
    assert len(hand.claim(now, limit=3, lanes=["job"])) == 1
    assert statuses(store, schedule) == ["running"] * 5


def test_overlap_skip_coalesces_its_skips(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    (first,) = hand.claim(T0 + MINUTE)
    for step in (2, 3, 4):
        assert hand.claim(T0 + step * MINUTE) == []
    _, skipped = runs_of(store, schedule)
    assert (skipped.status, skipped.due, skipped.last) == ("skipped", T0 + 2 * MINUTE, T0 + 4 * MINUTE)
    assert skipped.number == 3
    assert skipped.finished == T0 + 4 * MINUTE
    hand.record([first], T0 + 4 * MINUTE)
    (second,) = hand.claim(T0 + 5 * MINUTE)
    hand.claim(T0 + 6 * MINUTE)
    assert statuses(store, schedule) == ["completed", "skipped", "running", "skipped"]
    assert the(store, schedule).progress.run_count == 2
    hand.record([second], T0 + 6 * MINUTE)


def test_overlap_queue_stands_in_line_and_caps_it(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="queue", queue_limit=2))
    (claim,) = hand.claim(T0 + MINUTE)
    for step in (2, 3, 4, 5):
        assert hand.claim(T0 + step * MINUTE) == []
    assert statuses(store, schedule) == ["running", "queued", "queued", "skipped"]
    assert the(store, schedule).progress.queued == 2
    now = T0 + 5 * MINUTE
    for due in (T0 + 2 * MINUTE, T0 + 3 * MINUTE):
        hand.record([claim], now)
        (claim,) = hand.claim(now)
        assert claim.run.due == due
    hand.record([claim], now)
    assert the(store, schedule).progress.active == the(store, schedule).progress.queued == 0


def test_overlap_allow_runs_side_by_side(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, overlap="allow"))
    claims = [claim for step in (1, 2, 3) for claim in hand.claim(T0 + step * MINUTE)]
    assert statuses(store, schedule) == ["running"] * 3
    assert the(store, schedule).progress.active == 3
    hand.record(claims, T0 + 3 * MINUTE)
    assert the(store, schedule).progress.active == 0


def test_a_run_that_is_queued_and_one_that_expires_in_the_same_batch(store: BaseStore, hand: Hand) -> None:
    """The line moves up although the run that moves up was put into it a moment ago."""
    schedule = create_one(store, every(MINUTE, overlap="queue", untaken="keep"))
    claims = hand.claim(T0 + MINUTE)
    hand.record(claims, T0 + MINUTE, Waiting(Instant(T0 + 2 * MINUTE + 1)))
    assert hand.claim(T0 + 2 * MINUTE + 2) == []
    assert statuses(store, schedule) == ["failed", "pending"]
    (claim,) = hand.claim(T0 + 2 * MINUTE + 2)
    assert claim.run.due == T0 + 2 * MINUTE


def test_max_runs_counts_at_the_claim(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_runs=2, catch_up="all"))
    claims = hand.claim(T0 + 5 * MINUTE)
    assert statuses(store, schedule) == ["running", "queued"]
    assert the(store, schedule).progress.next is None
    hand.record(claims, T0 + 5 * MINUTE)
    hand.record(hand.claim(T0 + 5 * MINUTE), T0 + 5 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    assert the(store, schedule).progress.run_count == 2
    assert hand.claim(T0 + HOUR) == []


def test_skips_and_retries_do_not_count_as_runs(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_runs=2, max_attempts=2, backoff=1))
    claims = hand.claim(T0 + MINUTE)
    assert hand.claim(T0 + 2 * MINUTE) == []
    hand.record(claims, T0 + 2 * MINUTE, Failed("no"))
    hand.record(hand.claim(T0 + 2 * MINUTE + 2), T0 + 2 * MINUTE + 2)
    assert the(store, schedule).progress.run_count == 1
    hand.record(hand.claim(T0 + 3 * MINUTE), T0 + 3 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_a_trigger_that_ends_ends_its_schedule_with_the_last_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, end=T0 + 2 * MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    claims = hand.claim(T0 + 2 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ACTIVE
    hand.record(claims, T0 + 2 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_an_occurrence_that_has_a_row_advances_without_a_run(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    bystander = create_one(store, once(T0 + MINUTE))
    go_back(store, schedule, T0 + MINUTE)
    write(store, "UPDATE due SET at = ? WHERE schedule = ?", T0 + MINUTE, schedule)
    claims = hand.claim(T0 + MINUTE + 1)
    assert [claim.definition.id for claim in claims] == [bystander]
    assert statuses(store, schedule) == ["completed"]
    assert the(store, schedule).progress.next == T0 + 2 * MINUTE


def test_a_missed_range_that_begins_with_a_known_occurrence(store: BaseStore, hand: Hand) -> None:
    """Neither is the known one run again, nor does the rest of the range get lost with it."""
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    hand.record(hand.claim(T0 + 2 * MINUTE), T0 + 2 * MINUTE)
    go_back(store, schedule, T0 + MINUTE)
    write(store, "UPDATE due SET at = ? WHERE schedule = ?", T0 + MINUTE, schedule)
    (claim,) = hand.claim(T0 + 6 * MINUTE)
    assert claim.run.due == T0 + 6 * MINUTE
    _, _, missed, _ = runs_of(store, schedule)
    assert (missed.status, missed.due, missed.last, missed.number) == ("missed", T0 + 3 * MINUTE, T0 + 5 * MINUTE, 3)


def test_a_newest_occurrence_that_is_known(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + 3 * MINUTE), T0 + 3 * MINUTE)
    write(store, "DELETE FROM runs WHERE status = 'missed'")
    go_back(store, schedule, T0 + MINUTE)
    write(store, "UPDATE due SET at = ? WHERE schedule = ?", T0 + MINUTE, schedule)
    assert hand.claim(T0 + 3 * MINUTE + 1) == []
    missed, completed = runs_of(store, schedule)
    assert (missed.due, missed.last, missed.number) == (T0 + MINUTE, T0 + 2 * MINUTE, 2)
    assert completed.status == "completed"
    assert the(store, schedule).progress.next == T0 + 4 * MINUTE


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("trigger", "not json"),
        ("trigger", '{"type":"cron","expression":"* * * * *","timezone":"Mars/Olympus"}'),
        ("trigger", "[]"),
        ("policy", "{"),
        ("policy", "[]"),
        ("policy", '{"max_runs":"many"}'),
        ("policy", '{"overlap":"maybe"}'),
    ],
)
def test_a_row_that_cannot_be_planned_breaks_alone(store: BaseStore, hand: Hand, column: str, value: str) -> None:
    before, broken, after = [s.definition.id for s in create(store, *[every(MINUTE) for _ in range(3)])]
    write(store, f"UPDATE schedules SET {column} = ? WHERE id = ?", value, broken)  # noqa: S608
    claims = hand.claim(T0 + MINUTE)
    assert [claim.definition.id for claim in claims] == [before, after]
    progress = the(store, broken).progress
    assert progress.state == ScheduleState.BROKEN
    assert progress.note is not None
    assert "edit or delete it" in progress.note
    assert hand.claim(T0 + MINUTE) == []


def test_occurrences_that_max_runs_does_not_concern_are_all_accounted_for(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, max_runs=3, catch_up="all"))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    (active,) = hand.claim(T0 + 2 * MINUTE)
    hand.claim(T0 + 6 * MINUTE)
    skipped = runs_of(store, schedule)[-1]
    assert (skipped.status, skipped.number, skipped.last) == (RunStatus.SKIPPED, 4, T0 + 6 * MINUTE)
    hand.record([active], T0 + 6 * MINUTE)
    hand.record(hand.claim(T0 + 7 * MINUTE), T0 + 7 * MINUTE)
    assert the(store, schedule).progress.state == ScheduleState.ENDED


@pytest.mark.parametrize("overdue", [False, True])
def test_a_run_now_that_is_the_last_of_max_runs_ends_the_schedule(store: BaseStore, hand: Hand, overdue: bool) -> None:
    schedule = create_one(store, every(MINUTE, max_runs=1))
    now = Instant(T0 + MINUTE + 1 if overdue else T0 + 1)
    store.change(schedule, now, changes.fire)
    assert the(store, schedule).progress.next is None
    (claim,) = hand.claim(now)
    assert claim.run.cause == "manual"
    hand.record([claim], now)
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    assert sorted(run.status for run in runs_of(store, schedule)) == ["completed", *["skipped"] * overdue]


def test_a_retry_that_cannot_be_planned_breaks_alone(store: BaseStore, hand: Hand) -> None:
    broken, fine = [s.definition.id for s in create(store, *[once(max_attempts=3, backoff=1) for _ in range(2)])]
    hand.record(hand.claim(T0), T0, Failed("no"))
    write(store, "UPDATE schedules SET policy = '{' WHERE id = ?", broken)
    assert [claim.definition.id for claim in hand.claim(T0 + 2)] == [fine]
    assert the(store, broken).progress.state == ScheduleState.BROKEN
    store.change(broken, T0, lambda change: changes.edit(change, changes.Edit(policy="{}")))
    (claim,) = hand.claim(T0 + 3)
    assert (claim.definition.id, claim.run.attempt) == (broken, 2)


def test_a_clock_that_was_ahead_is_counted_from_now_again(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + 10 * MINUTE), T0 + 10 * MINUTE)
    now = Instant(T0 + 2 * MINUTE + 1)
    assert store.ahead(now, 10) == [schedule]
    store.change(schedule, now, changes.rewind)
    assert store.ahead(now, 10) == []
    assert the(store, schedule).progress.next == T0 + 3 * MINUTE
    # The first missed instant has its row; those after it have none and run; the newest one ran already.
    for step in range(3, 10):
        (claim,) = hand.claim(T0 + step * MINUTE)
        assert claim.run.due == T0 + step * MINUTE
        hand.record([claim], T0 + step * MINUTE)
    assert hand.claim(T0 + 10 * MINUTE) == []
    (claim,) = hand.claim(T0 + 11 * MINUTE)
    assert claim.run.due == T0 + 11 * MINUTE


def test_a_range_of_skips_is_not_extended_backwards_by_a_clock_that_was_ahead(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.claim(T0 + 5 * MINUTE)
    hand.claim(T0 + 8 * MINUTE)  # the run is still active: this one is skipped
    now = Instant(T0 + 6 * MINUTE)
    store.change(schedule, now, changes.rewind)
    hand.claim(T0 + 7 * MINUTE)
    skipped = [(run.due, run.last, run.number) for run in runs_of(store, schedule) if run.last is not None]
    assert skipped == [
        (T0 + MINUTE, T0 + 4 * MINUTE, 4),
        *((T0 + step * MINUTE, T0 + step * MINUTE, 1) for step in (6, 7)),
    ]
