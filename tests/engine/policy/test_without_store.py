"""The pure functions of the policy, each by a table: what runs, what was missed, how a run ends, what a change does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import DuetimeError, InvalidInput, Refused
from duetime.engine.model import Run, RunId, RunStatus, Schedule, ScheduleId, ScheduleState, Trouble
from duetime.engine.outcome import Alert, Cancelled, Completed, Failed, Outcome, Retry, Returned, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.bulk import begin_all, columns_of, drafts_in_columns, earliest_of, in_columns, is_common
from duetime.engine.policy.catch_up import Occurring, missed_span, occurrences, span_without, without
from duetime.engine.policy.claim import Claim, plan_claims
from duetime.engine.policy.completions import ends_plainly, split_completions
from duetime.engine.policy.fair_share import Cursor, Head, Turns, deal, deal_rest, hold_back, hour_of
from duetime.engine.policy.finish import was_paused_by_engine
from duetime.engine.policy.follow_ups import Messenger, alert, drafts_of, follow_ups, result_text
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.record import MOST_DEATHS, Excuses, Finished, Receipt, plan_rescue, plan_settlement
from duetime.engine.policy.rows import (
    Draft,
    IncidentEvent,
    OwnerMessage,
    Span,
    Writes,
    backoff,
    earliest_start,
    ended,
    first_entry,
    spread,
    start_of,
)
from duetime.engine.scheduler import _cancel_pending
from duetime.engine.triggers import IntervalTrigger, trigger_from_json
from tests.engine.policy.rows_without_store import (
    ID,
    WORKER,
    Rows,
    change_of,
    held_by,
    item_of,
    pending,
    progress_in,
    running,
    schedule_of,
    writes_of,
)
from tests.support.drafts import T0, draft, every, once
from tests.support.refusals import attempt, refusal_of

# -- rows ------------------------------------------------------------------------------------------------------------


def test_a_spread_depends_on_its_inputs_alone_and_stays_within_its_width() -> None:
    values = [spread(schedule, T0 + due, 100) for schedule in range(50) for due in range(50)]
    assert values == [spread(schedule, T0 + due, 100) for schedule in range(50) for due in range(50)]
    assert set(values) == set(range(100))
    assert [spread(1, 2, width) for width in (0, -1)] == [0, 0]


@pytest.mark.parametrize(
    ("failures", "least", "low", "high"),
    [
        (1, 0, 5, 10),
        (2, 0, 10, 20),
        (3, 0, 20, 40),
        (4, 0, 25, 50),  # the limit
        (100, 0, 25, 50),
        (1, 70, 70, 70),  # the receiver asked for more
        (4, 30, 30, 50),
    ],
)
def test_a_delay_doubles_up_to_its_limit(failures: int, least: int, low: int, high: int) -> None:
    policy = make_policy({"backoff": 10 * SECOND, "backoff_limit": 50 * SECOND, "max_attempts": 5})
    delays = {backoff(policy, run, failures, least * SECOND) for run in range(200)}
    assert low * SECOND <= min(delays) and max(delays) <= high * SECOND
    assert low == high or len(delays) > 100, "runs are not retried together"


def jittered(jitter: int) -> Draft:
    return draft(IntervalTrigger(timezone="UTC", period=HOUR, anchor=T0, jitter=jitter), T0)


def test_jitter_delays_the_start_and_nothing_else_does() -> None:
    for template in (jittered(10 * SECOND), jittered(0), every(HOUR)):
        schedule = schedule_of(template)
        trigger = trigger_from_json(schedule.definition.trigger)
        starts = {
            start_of(schedule.definition, trigger, Instant(T0 + number * HOUR)) - number * HOUR for number in range(9)
        }
        assert all(0 <= start - T0 <= trigger.jitter for start in starts)
        assert len(starts) > 1 if trigger.jitter else starts == {T0}
        assert first_entry(template, ID).at == start_of(schedule.definition, trigger, template.first)


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"cause": "manual"}, 0),
        ({"due": Instant(T0 + HOUR)}, T0),  # the clock was ahead when it was claimed
        ({"due": Instant(T0 + SECOND)}, T0 + SECOND),
        ({}, T0),
    ],
)
def test_no_run_starts_before_its_instant(fields: Mapping[str, Any], start: int) -> None:
    definition = schedule_of(once()).definition
    assert earliest_start(definition, pending(definition)._replace(**fields), T0) == start
    broken = definition._replace(trigger="{}")
    assert earliest_start(broken, pending(definition), T0) == T0, "a run ends, whatever its trigger says"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"next": None}, ScheduleState.ENDED),
        ({}, ScheduleState.ACTIVE),
        ({"next": None, "active": 1}, ScheduleState.ACTIVE),
        ({"next": None, "queued": 1}, ScheduleState.ACTIVE),
        ({"next": None, "state": ScheduleState.PAUSED}, ScheduleState.PAUSED),
    ],
)
def test_a_schedule_ends_when_nothing_is_left_to_run(fields: Mapping[str, Any], state: str) -> None:
    assert ended(schedule_of(every(), **fields).progress).state == state


# -- many at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 49, 50, 120])
def test_columns_hold_the_same_rows_as_single_schedules(number: int) -> None:
    jitter = IntervalTrigger(timezone="UTC", period=MINUTE, anchor=T0, jitter=50 * SECOND)
    drafts = [once(T0 + 90 - each, name=f"name {each}", at_most_once=each % 3 == 0) for each in range(number - 1)]
    drafts.append(draft(jitter, T0))
    ids = [ScheduleId(each) for each in range(11, 11 + number)]
    rows = list(begin_all(drafts, ids))
    assert [row[0].id for row in rows] == ids
    assert rows == [begin_all([each], [id])[0] for each, id in zip(drafts, ids, strict=True)]
    definitions, progress, entries = columns_of(begin_all(drafts, ids))
    assert definitions == in_columns([row[0] for row in rows])
    assert list(zip(*progress, strict=True)) == [(*row[1][:3], row[1].next) for row in rows]
    assert sorted(zip(*entries, strict=True)) == sorted(row[2] for row in rows)
    assert earliest_of(begin_all(drafts, ids)) == min(row[2].at for row in rows)
    assert list(drafts_in_columns(drafts)) == drafts


def test_a_column_is_common_if_all_its_values_are_equal() -> None:
    assert is_common([1, 1, 1]) and is_common(["a"])
    assert not is_common([1, 1, 2])


# -- catching up -----------------------------------------------------------------------------------------------------


def minute(number: float) -> Instant:
    return Instant(int(T0 + number * MINUTE))


def minutes(*numbers: int) -> tuple[Instant, ...]:
    return tuple(map(minute, numbers))


def span(first: int, last: int, number: int) -> Span:
    return Span(minute(first), minute(last), number)


@pytest.mark.parametrize(
    ("options", "now", "expected"),
    [
        ({}, 1, Occurring(minutes(1), None, minute(1), minute(2))),
        ({}, 1.9, Occurring(minutes(1), None, minute(1), minute(2))),  # within its grace
        ({}, 4.5, Occurring(minutes(4), span(1, 3, 3), minute(4), minute(5))),
        ({"catch_up": "skip"}, 4.5, Occurring(minutes(4), span(1, 3, 3), minute(4), minute(5))),
        ({"catch_up": "skip", "grace": 0}, 4.5, Occurring((), span(1, 4, 4), minute(4), minute(5))),
        ({"catch_up": "all"}, 4.5, Occurring(minutes(1, 2, 3, 4), None, minute(4), minute(5))),
        ({"catch_up": "all", "catch_up_limit": 2}, 4.5, Occurring(minutes(3, 4), span(1, 2, 2), minute(4), minute(5))),
        ({}, 2000.5, Occurring(minutes(2000), span(1, 1999, -1000), minute(2000), minute(2001))),
    ],
)
def test_what_runs_and_what_was_missed(options: Mapping[str, Any], now: float, expected: Occurring) -> None:
    definition = schedule_of(every()).definition
    assert occurrences(definition.trigger, make_policy(options), minute(1), None, 0, minute(now)) == expected


def test_a_late_end_of_a_rule_leaves_nothing_to_follow() -> None:
    definition = schedule_of(every(end=T0 + 3 * MINUTE)).definition
    found = occurrences(definition.trigger, make_policy({}), minute(1), None, 0, minute(60))
    assert found == Occurring(minutes(3), span(1, 2, 2), minute(3), None)


def test_what_was_handled_already_does_not_run_again() -> None:
    trigger, policy, now = schedule_of(every()).definition.trigger, make_policy({}), Instant(T0 + 90 * SECOND)
    assert occurrences(trigger, policy, minute(1), minute(1), 0, now) == Occurring((), None, minute(1), minute(2))
    ahead = occurrences(trigger, policy, minute(1), minute(60), 0, now)
    assert ahead == occurrences(trigger, policy, minute(1), None, 0, now), "a clock that was ahead proves nothing"


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ((), span(1, 5, 5)),
        ((3,), span(1, 5, 4)),
        ((1, 2), span(3, 5, 3)),
        ((1, 4), span(2, 5, 3)),
        ((1, 2, 3, 4, 5), None),
        ((9,), span(1, 5, 5)),
    ],
)
def test_occurrences_with_a_row_are_left_out_of_a_range(taken: Sequence[int], expected: Span | None) -> None:
    trigger = trigger_from_json(schedule_of(every()).definition.trigger)
    rows = frozenset(minutes(*taken))
    assert span_without(span(1, 5, 5), trigger, rows) == expected
    whole = Occurring(minutes(6, 7), span(1, 5, 5), minute(7), minute(8))
    assert without(whole, trigger, rows | {*minutes(7)}) == whole._replace(run=minutes(6), missed=expected)
    assert missed_span(schedule_of(every()).definition.trigger, minute(1), minute(5)) == span(1, 5, 5)


# -- claims ----------------------------------------------------------------------------------------------------------


def claims_of(schedule: Schedule, now: float, rows: Rows | None = None) -> tuple[list[Claim], Writes]:
    numbers = count(100)
    at = minute(now)
    plan = plan_claims([item_of(schedule)], WORKER, at, lambda: RunId(next(numbers)), rows or Rows())
    return plan.claims, plan.writes


@pytest.mark.parametrize(
    ("options", "progress", "statuses", "counts"),
    [
        ({}, {}, ["running"], None),
        ({}, {"active": 1}, ["skipped"], (1, 0)),
        ({"overlap": "queue"}, {"active": 1}, ["queued"], (1, 1)),
        ({"overlap": "queue", "queue_limit": 1}, {"active": 1, "queued": 1}, ["skipped"], (1, 1)),
        ({"overlap": "allow"}, {"active": 3}, ["running"], (4, 0)),
        ({"max_runs": 1}, {}, ["running"], (1, 0)),
    ],
)
def test_an_occurrence_starts_is_queued_or_is_skipped(
    options: Mapping[str, Any], progress: Mapping[str, Any], statuses: list[str], counts: tuple[int, int] | None
) -> None:
    claims, writes = claims_of(schedule_of(every(**options), **progress), 1)
    assert [run.status for run in writes.new_runs] == statuses
    assert [claim.run for claim in claims] == [run for run in writes.new_runs if run.status == "running"]
    assert writes.due_gone and (
        writes.due_new == [] if "max_runs" in options else writes.due_new[0].at == T0 + 2 * MINUTE
    )
    if counts is None:
        assert ID in writes.started and not writes.progress, "the usual claim writes a few columns"
    else:
        row = progress_in(writes)
        assert (row.active, row.queued, row.next is None) == (*counts, "max_runs" in options)


def test_a_second_skip_extends_the_row_of_the_first() -> None:
    _, writes = claims_of(schedule_of(every(), active=1, gap=RunId(9)), 1)
    assert (writes.new_runs, [(each.run, each.added) for each in writes.extensions]) == ([], [(9, 1)])


def test_several_occurrences_to_catch_up_on_start_one_run_per_entry() -> None:
    claims, writes = claims_of(schedule_of(every(catch_up="all", overlap="allow")), 3.5)
    assert [run.status for run in writes.new_runs] == ["running", "pending", "pending"]
    assert len(claims) == 1 and [entry.run for entry in writes.due_new] == [101, 102, 0]


def test_a_schedule_that_cannot_be_read_breaks_alone() -> None:
    broken = schedule_of(every())
    broken = broken._replace(definition=broken.definition._replace(trigger="{}"))
    claims, writes = claims_of(broken, 1)
    row = progress_in(writes)
    assert (claims, row.state, writes.due_gone_of) == ([], ScheduleState.BROKEN, [ID])
    assert row.note is not None and row.note.endswith("; edit or delete it")


def test_a_retry_starts_with_the_next_fence_and_attempt() -> None:
    schedule = schedule_of(once(), active=1, next=None, note="waits")
    run = pending(schedule.definition, attempt=1, fence=3, error="first try")
    plan = plan_claims([item_of(schedule, run)], WORKER, T0, lambda: RunId(1), Rows())
    (claim,) = plan.claims
    assert (claim.run.status, claim.run.fence, claim.run.attempt, claim.run.error) == ("running", 4, 2, "first try")
    assert progress_in(plan.writes).note is None


# -- fair shares -----------------------------------------------------------------------------------------------------

HEADS = [Head("ada", Instant(3)), Head("bob", Instant(1)), Head("eve", Instant(2))]


@pytest.mark.parametrize(
    ("limit", "turns", "dealt"),
    [
        (9, Turns(), {"ada": 3, "bob": 3, "eve": 3}),
        (2, Turns(), {"bob": 1, "eve": 1}),  # those who have waited longest
        (2, Turns(Cursor("bob")), {"eve": 1, "ada": 1}),
        (9, Turns(most={"bob": 1, "eve": 0}), {"ada": 4, "bob": 1}),
        (9, Turns(each=2), {"ada": 2, "bob": 2, "eve": 2}),
        (0, Turns(), {}),
    ],
)
def test_owners_take_turns(limit: int, turns: Turns, dealt: dict[str, int]) -> None:
    assert deal(HEADS, limit, turns) == dealt
    if turns.cursor is not None:
        assert turns.cursor.owner == list(dealt)[-1], "the next claim goes on after the last owner"


def test_what_is_left_of_a_claim_goes_to_those_who_have_more() -> None:
    assert deal_rest(HEADS, 5, Turns(), {"ada": 1, "bob": 1, "eve": 1}) == {"bob": 5}
    assert deal_rest(HEADS, 5, Turns(each=3), {"ada": 1, "bob": 1, "eve": 2}) == {"bob": 2, "eve": 1, "ada": 2}


def test_runs_beyond_the_hourly_limit_are_held_back_visibly() -> None:
    schedules = [schedule_of(once()), schedule_of(once(owner="bob")), schedule_of(once(), active=1)]
    items = [item_of(each) for each in schedules]
    admitted, writes = hold_back(items, {"ada": 5}, 5, T0)
    assert admitted == items[1:], "bob has no limit, and an occurrence that will be skipped starts nothing"
    assert [entry.at >= hour_of(T0) + HOUR for entry in writes.due_new] == [True]
    assert "5 runs an hour" in str(progress_in(writes).note)
    assert hold_back(items, {"ada": 4}, 5, T0)[0] == items


# -- ends of runs ----------------------------------------------------------------------------------------------------


def settle(
    schedule: Schedule, outcome: Outcome, rows: Rows | None = None, **fields: Any
) -> tuple[list[Receipt], Writes]:
    run = running(schedule.definition, **fields)
    finished = Finished(run.id, 1, outcome, T0, Instant(T0 + SECOND))
    held = {run.id: held_by(schedule, run)}
    writes, answers = plan_settlement(held, [finished], WORKER, Instant(T0 + SECOND), rows or Rows())
    return answers, writes


@pytest.mark.parametrize(
    ("outcome", "fields", "status", "failures"),
    [
        (Completed('"done"'), {}, "completed", 0),
        (Failed("no"), {}, "failed", 3),
        (Failed("no", lost=True), {}, "lost", 3),
        (Failed("no"), {"stop": 1}, "cancelled", 2),
        (Cancelled("stopped"), {}, "cancelled", 2),
        (Retry("later"), {}, "failed", 3),  # it has one attempt
    ],
)
def test_a_run_ends_by_its_outcome(outcome: Outcome, fields: Mapping[str, Any], status: str, failures: int) -> None:
    schedule = schedule_of(every(), active=1, failures=2)
    answers, writes = settle(schedule, outcome, **fields)
    row = progress_in(writes)
    assert answers == [Receipt.RECORDED]
    assert (writes.runs[RunId(1)].status, row.active, row.failures, row.last_status) == (status, 0, failures, status)


@pytest.mark.parametrize(
    ("fields", "receipt"),
    [({"fence": 2}, Receipt.STALE), ({"worker": 2}, Receipt.STALE), ({"status": "completed"}, Receipt.ALREADY)],
)
def test_an_outcome_counts_only_from_the_worker_that_holds_the_run(fields: Mapping[str, Any], receipt: Receipt) -> None:
    answers, writes = settle(schedule_of(every(), active=1), Completed(None), **fields)
    assert (answers, writes) == ([receipt], Writes())


@pytest.mark.parametrize(
    ("options", "attempt", "retried", "again"),
    [
        ({"max_attempts": 3}, 1, 0, True),
        ({"max_attempts": 3}, 2, 0, True),
        ({"max_attempts": 3}, 3, 0, False),
        ({"max_attempts": 3}, 5, 4, True),  # somebody retried it: it has all attempts again
        ({}, 1, 0, False),
    ],
)
def test_a_failed_attempt_is_repeated_as_often_as_the_policy_says(
    options: Mapping[str, Any], attempt: int, retried: int, again: bool
) -> None:
    schedule = schedule_of(every(**options), active=1)
    _, writes = settle(schedule, Failed("no"), Rows(retried=retried), attempt=attempt)
    assert (writes.runs[RunId(1)].status == "pending") is again
    assert [each.number for each in writes.attempts] == ([attempt] if again else [])
    assert [entry.at > T0 + 5 * SECOND for entry in writes.due_new] == ([True] if again else [])
    _, writes = settle(schedule, Failed("no", permanent=True), attempt=attempt)
    assert writes.runs[RunId(1)].status == "failed"


@pytest.mark.parametrize(
    ("state", "status"),
    [("active", "pending"), ("paused", "pending"), ("cancelled", "cancelled"), ("deleted", "cancelled")],
)
def test_a_run_that_is_given_back_waits_unless_its_schedule_is_gone(state: str, status: str) -> None:
    schedule = schedule_of(every(), active=1, state=state)
    _, writes = settle(schedule, Returned("busy", after=SECOND))
    run = writes.runs[RunId(1)]
    assert run.status == status
    assert len(writes.due_new) == (state == "active"), "a paused schedule starts nothing"
    assert status == "cancelled" or (run.attempt, run.error) == (0, "busy"), "nothing was tried"


def test_a_run_that_is_given_back_for_too_long_fails() -> None:
    schedule = schedule_of(every(), active=1)
    _, writes = settle(schedule, Returned("away", after=SECOND, patience=HOUR))
    assert writes.runs[RunId(1)].until == T0 + SECOND + HOUR
    _, writes = settle(schedule, Returned("away", patience=HOUR), until=Instant(T0))
    assert (writes.runs[RunId(1)].status, writes.runs[RunId(1)].error) == ("failed", "away")


def test_a_run_that_waits_counts_as_untaken_until_somebody_holds_it() -> None:
    schedule = schedule_of(every(untaken="expire", expire_after=HOUR), active=1)
    _, writes = settle(schedule, Waiting())
    assert (writes.runs[RunId(1)].status, progress_in(writes).untaken) == ("waiting", 1)
    assert [entry.at for entry in writes.due_new] == [T0 + SECOND + HOUR]
    _, writes = settle(schedule, Waiting(holder="hook", until=Instant(T0 + MINUTE)))
    assert (writes.runs[RunId(1)].expires, writes.progress) == (T0 + MINUTE, {})


def test_too_many_failures_pause_a_schedule_and_say_so() -> None:
    schedule = schedule_of(every(pause_after=3), active=1, failures=2)
    _, writes = settle(schedule, Failed("no"))
    row = progress_in(writes)
    assert (row.state, was_paused_by_engine(row)) == (ScheduleState.PAUSED, True)
    events = [each for each in writes.further if isinstance(each, IncidentEvent)]
    assert [each.trouble for each in events] == [Trouble.FAILED, Trouble.PAUSED]
    assert "paused after 3 failures" in events[1].text
    _, writes = settle(schedule_of(every(pause_after=3, deliver_to="garden"), active=1, failures=2), Failed("no"))
    message = writes.follow_ups[-1]
    assert isinstance(message, OwnerMessage) and message.topic == "garden" and not message.went_well
    _, writes = settle(schedule_of(once(pause_after=3), active=1, next=None, failures=2), Failed("no"))
    assert progress_in(writes).state == ScheduleState.ENDED, "a one-off has nothing to pause"


def test_the_end_of_a_run_releases_the_oldest_queued_one() -> None:
    schedule = schedule_of(every(overlap="queue"), active=1, queued=1)
    queued = pending(schedule.definition, 2, RunStatus.QUEUED)
    _, writes = settle(schedule, Completed(None), Rows([queued]))
    row = progress_in(writes)
    assert (writes.runs[RunId(2)].status, row.active, row.queued) == ("pending", 1, 0)
    assert [entry.run for entry in writes.due_new] == [2]


def test_only_completions_without_a_message_or_a_queue_need_no_decision() -> None:
    table = {
        "plain": {},
        "message": {"deliver_to": "home"},
        "queue": {"overlap": "queue"},
        "all": {"catch_up": "all"},
    }
    assert [name for name, each in table.items() if ends_plainly(policy_to_json(make_policy(each)))] == ["plain"]
    definitions = {
        number: schedule_of(every()).definition._replace(id=ScheduleId(number % 3)) for number in range(1, 5)
    }
    known = {RunId(number): Claim(running(each, number), each, T0) for number, each in definitions.items()}
    finished = [Finished(RunId(number), 1, Completed(None), T0, T0) for number in (1, 2, 3)]
    failed = Finished(RunId(3), 1, Failed("no"), T0, T0)
    plain, rest = split_completions(finished, known)
    assert ([each.run for each in plain], rest) == ([1, 2, 3], [])
    assert split_completions([finished[0], failed], known) == (plain[:1], [failed])
    again = Finished(RunId(4), 1, Completed(None), T0, T0)  # of the same schedule as run 1
    assert split_completions([finished[0], again], known) == ([], [finished[0], again])
    stranger = Finished(RunId(9), 1, Completed(None), T0, T0)
    assert split_completions([finished[0], stranger], known) == ([], [finished[0], stranger])


# -- a dead worker ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fields", "not_begun", "status", "deaths"),
    [
        ({}, {}, [], "pending", 1),
        ({}, {}, [1], "pending", 0),  # it had not begun, so the death does not count against it
        ({}, {"deaths": MOST_DEATHS - 1}, [], "failed", MOST_DEATHS),
        ({"at_most_once": True}, {}, [], "lost", 1),
        ({"at_most_once": True}, {}, [1], "lost", 1),  # it may have begun since
    ],
)
def test_the_runs_of_a_dead_worker_return_or_end(
    options: Mapping[str, Any], fields: Mapping[str, Any], not_begun: list[int], status: str, deaths: int
) -> None:
    schedule = schedule_of(every(**options), active=1)
    run = running(schedule.definition, **fields)
    writes = plan_rescue([held_by(schedule, run)], T0, Rows(), Excuses([RunId(each) for each in not_begun]))
    after = writes.runs[run.id]
    assert (after.status, after.deaths, after.fence > run.fence) == (status, deaths, True)
    assert bool(writes.due_new) is (status == "pending")


def test_a_run_is_spared_a_few_times_in_a_row() -> None:
    run, spared, times = running(schedule_of(every()).definition), 0, 0
    while (excuses := Excuses([run.id], {run.id: spared})).applies_to(run):
        spared, times = excuses.used(run), times + 1
        run = run._replace(fence=run.fence + 2)  # given back, and claimed again
    assert times == 2
    assert Excuses([run.id], {run.id: spared}).applies_to(run._replace(fence=run.fence + 1)), "it ran in between"


# -- what follows a run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "notify_on", "is_sent"),
    [
        ("completed", "always", True),
        ("completed", "success", True),
        ("completed", "failure", False),
        ("failed", "failure", True),
        ("lost", "always", True),
        ("failed", "success", False),
        ("cancelled", "always", False),
    ],
)
def test_a_message_follows_the_ends_that_were_asked_for(status: str, notify_on: str, is_sent: bool) -> None:
    definition = schedule_of(once()).definition
    policy = make_policy({"deliver_to": "home", "notify_on": notify_on})
    run = running(definition, status=status, error="no", result='{"title": "Hi", "text": "there"}')
    messages = list(follow_ups(definition, policy, run, T0))
    assert bool(messages) is is_sent
    for each in messages:
        assert isinstance(each, OwnerMessage)
        expected = ("Hi", "there", True) if status == "completed" else ("water the plants failed", "no", False)
        assert (each.title, each.text, each.went_well) == expected


@pytest.mark.parametrize(
    ("result", "text"),
    [(None, ""), ('"a"', "a"), ('{"text": "a"}', "a"), ('{"b": "ü"}', '{"b": "ü"}'), ("[1]", "[1]"), ("{", "{")],
)
def test_a_result_as_people_read_it(result: str | None, text: str) -> None:
    assert result_text(result) == text


def test_messages_need_a_messenger_and_callbacks_do_not() -> None:
    message = alert("ada", Alert("k", "title", "text"))
    callback = once()
    assert drafts_of([message, callback], None, T0) == [callback]
    messenger = Messenger("notification", lambda each: {"text": each.text}, {"max_attempts": 3})
    drafted, _ = drafts_of([message, callback], messenger, T0)
    made = drafted.definition
    assert (made.kind, made.key, made.subject, made.payload) == (
        "notification",
        "~k",
        "duetime-alerts",
        '{"text":"text"}',
    )


# -- changes ---------------------------------------------------------------------------------------------------------

STATES = ("active", "paused", "broken", "ended", "cancelled", "deleted")


@pytest.mark.parametrize(
    ("name", "possible"),
    [
        ("cancel", "active paused broken cancelled"),
        ("delete", "active paused broken ended cancelled"),
        ("pause", "active paused"),
        ("resume", "active paused broken"),
        ("fire", "active paused ended"),
    ],
)
def test_the_states_in_which_a_change_is_possible(name: str, possible: str) -> None:
    decide = getattr(changes, name)
    allowed = [
        state
        for state in STATES
        if not isinstance(attempt(decide, change_of(schedule_of(every(), state=ScheduleState(state)))), Refused)
    ]
    assert allowed == possible.split()


def test_a_cancel_ends_what_has_not_begun_and_stops_the_rest() -> None:
    schedule = schedule_of(every(), active=2, queued=1)
    definition = schedule.definition
    runs = [running(definition, 1), pending(definition, 2), pending(definition, 3, RunStatus.QUEUED)]
    writes = writes_of(changes.cancel(change_of(schedule, rows=Rows(runs))))
    assert [(run.status, run.stop) for run in writes.runs.values()] == [
        ("running", 1),
        ("cancelled", 0),
        ("cancelled", 0),
    ]
    row = progress_in(writes)
    assert (row.state, row.active, row.queued, row.next) == ("cancelled", 1, 0, None)


def test_live_runs_are_read_once_where_nothing_depends_on_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    read, asked = Rows.live_runs, []

    def live_runs(rows: Rows, of: ScheduleId) -> list[Run]:
        asked.append(of)
        return read(rows, of)

    monkeypatch.setattr(Rows, "live_runs", live_runs)
    busy = schedule_of(every(), active=1)
    rows = Rows([running(busy.definition, 1)])
    cancelled = writes_of(_cancel_pending(change_of(busy, rows=rows), stop_running=True))
    assert (progress_in(cancelled).state, len(asked)) == ("cancelled", 1)
    assert isinstance(attempt(partial(_cancel_pending, stop_running=False), change_of(busy, rows=rows)), Refused)
    asked.clear()
    resumed = writes_of(
        changes.resume(change_of(schedule_of(every(), active=1, state=ScheduleState.PAUSED), rows=rows))
    )
    assert (progress_in(resumed).state, len(asked)) == ("active", 1)


def test_what_passes_during_a_pause_is_one_visible_row() -> None:
    paused = schedule_of(every(), state=ScheduleState.PAUSED)
    writes = writes_of(changes.resume(change_of(paused, T0 + 5 * MINUTE + SECOND)))
    (run,) = writes.new_runs
    assert (run.status, run.due, run.last, run.number) == ("skipped", T0 + MINUTE, T0 + 5 * MINUTE, 5)
    assert (progress_in(writes).next, progress_in(writes).state) == (T0 + 6 * MINUTE, "active")
    held = writes_of(changes.resume(change_of(schedule_of(once(), state=ScheduleState.PAUSED), T0 + HOUR)))
    assert held.new_runs == [] and held.due_new[0].at == T0 + HOUR, "a one-off runs when the pause ends"


@pytest.mark.parametrize(
    ("overlap", "progress", "outcome"),
    [
        ("skip", {}, "pending"),
        ("skip", {"active": 1}, "busy"),
        ("queue", {"active": 1}, "queued"),
        ("queue", {"active": 1, "queued": 2}, "busy"),
        ("allow", {"active": 1}, "pending"),
    ],
)
def test_a_run_by_hand_obeys_the_overlap(overlap: str, progress: Mapping[str, Any], outcome: str) -> None:
    schedule = schedule_of(every(overlap=overlap, queue_limit=2), **progress)
    decision = attempt(changes.fire, change_of(schedule, actor="person"), '{"a":1}')
    if isinstance(decision, DuetimeError):
        assert decision.code == outcome
        return
    writes = writes_of(decision)
    (run,) = writes.new_runs
    assert (run.status, run.cause) == (outcome, "manual")
    assert [(each.name, each.value) for each in writes.columns] == [("payload", '{"a":1}'), ("actor", "person")]


def test_an_agent_that_starts_a_schedule_passes_its_depth_on() -> None:
    writes = writes_of(changes.fire(change_of(schedule_of(every()), depth=2)))
    assert [each.depth for each in writes.definitions] == [2]
    assert writes_of(changes.fire(change_of(schedule_of(every())))).definitions == []


@pytest.mark.parametrize(("status", "possible"), [("failed", True), ("lost", True), ("completed", False)])
def test_only_runs_that_did_not_complete_are_retried_or_dismissed(status: str, possible: bool) -> None:
    schedule = schedule_of(every())
    run = running(schedule.definition, status=status)
    for decide in (changes.retry, changes.dismiss):
        assert isinstance(attempt(decide, change_of(schedule), run), Refused) is not possible


def test_an_unreadable_rule_is_the_schedules_fault_and_not_the_callers() -> None:
    schedule = schedule_of(every(), state=ScheduleState.PAUSED)
    broken = schedule._replace(definition=schedule.definition._replace(policy='{"overlap": "never"}'))
    decision = refusal_of(lambda: changes.resume(change_of(broken)))
    assert decision.code == "broken"
    with pytest.raises(InvalidInput):
        make_policy({"overlap": "never"})
