"""Every policy, played through the real scheduler, worker and store on a settable clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from duetime.engine.clock import Instant, datetime_of, instant_of
from duetime.engine.model import Run
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.context import PermanentError, RetryLater
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.testing import Simulation

pytestmark = pytest.mark.filterwarnings("ignore::duetime.api.NotStartedWarning")

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Bench:
    """Tasks whose behaviour a test sets."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.errors: list[Exception] = []


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def simulation(bench: Bench) -> Iterator[Simulation]:
    registry = Registry()

    @registry.task
    def work(value: int = 0) -> int:
        bench.calls.append(value)
        if bench.errors:
            raise bench.errors.pop(0)
        return value

    with Simulation(START, registry=registry) as simulation:
        yield simulation


def statuses(simulation: Simulation) -> list[str]:
    return [run.status for run in simulation.runs()]


def jobs(simulation: Simulation) -> list[Run]:
    """Return the runs without the alerts about them."""
    return [run for run in simulation.runs() if run.kind == "job"]


def due_times(runs: list[Run]) -> list[str]:
    return [datetime_of(run.due).strftime("%H:%M") for run in runs]


def be_away(simulation: Simulation, duration: timedelta) -> None:
    """Nobody works for a while: the machine sleeps, or the process is not there."""
    simulation.clock.move_to(Instant(simulation.clock.now() + duration // timedelta(microseconds=1)))
    simulation.settle()


def test_once_runs_once_and_ends(simulation: Simulation, bench: Bench) -> None:
    job = simulation.duetime.schedule("work", at=START + HOUR, args=[7])
    simulation.advance(3 * HOUR)
    assert bench.calls == [7]
    status = simulation.duetime.get(job.id)
    assert (status.status, status.run_count, status.next_run) == ("completed", 1, None)


def test_interval_does_not_drift(simulation: Simulation) -> None:
    simulation.duetime.schedule("work", every=HOUR)
    simulation.advance(5 * HOUR)
    assert due_times(simulation.runs()) == ["13:00", "14:00", "15:00", "16:00", "17:00"]


def test_missed_occurrences_coalesce_into_one_run_by_default(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", every=HOUR)
    be_away(simulation, timedelta(hours=4, minutes=30))
    missed, late = simulation.runs()
    assert (missed.status, missed.number, due_times([missed])) == ("missed", 3, ["13:00"])
    assert missed.last is not None
    assert datetime_of(missed.last).hour == 15
    assert (late.status, due_times([late])) == ("completed", ["16:00"])
    assert len(bench.calls) == 1
    simulation.advance(HOUR)
    assert due_times(simulation.runs())[-1] == "17:00"


def test_a_week_of_missed_seconds_is_one_row(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", every=1)
    be_away(simulation, timedelta(days=7))
    missed, late = simulation.runs()
    assert (missed.status, late.status) == ("missed", "completed")
    assert abs(missed.number) >= 1000
    assert len(bench.calls) == 1


def test_catch_up_skip_runs_nothing_late(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", every=HOUR, catch_up="skip")
    be_away(simulation, timedelta(hours=4, minutes=30))
    assert statuses(simulation) == ["missed"]
    assert simulation.runs()[0].number == 4
    assert bench.calls == []
    simulation.advance(HOUR)
    assert statuses(simulation) == ["missed", "completed"]


def test_catch_up_skip_of_a_one_off_ends_visibly_as_failed(simulation: Simulation) -> None:
    job = simulation.duetime.schedule("work", at=START + HOUR, catch_up="skip")
    be_away(simulation, timedelta(hours=4))
    assert statuses(simulation) == ["missed"]
    assert simulation.duetime.get(job.id).status == "failed"


def test_within_its_grace_an_occurrence_is_not_missed(simulation: Simulation) -> None:
    simulation.duetime.schedule("work", every=HOUR, catch_up="skip")
    be_away(simulation, HOUR + timedelta(seconds=59))
    assert statuses(simulation) == ["completed"]


def test_catch_up_all_runs_every_one_in_order(simulation: Simulation) -> None:
    simulation.duetime.schedule("work", every=HOUR, catch_up="all")
    be_away(simulation, timedelta(hours=4, minutes=30))
    runs = sorted(simulation.runs(), key=lambda run: run.due)
    assert due_times(runs) == ["13:00", "14:00", "15:00", "16:00"]
    assert {run.status for run in runs} == {"completed"}
    finished = [run.finished for run in runs]
    assert finished == sorted(finished, key=lambda instant: instant or 0)


def test_catch_up_all_is_capped_and_says_what_it_left_out(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", every=HOUR, catch_up="all", catch_up_limit=3)
    be_away(simulation, timedelta(hours=10, minutes=30))
    missed = [run for run in simulation.runs() if run.status == "missed"]
    assert [run.number for run in missed] == [7]
    assert len(bench.calls) == 3


def test_a_failed_attempt_is_retried_with_growing_waits(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [ValueError("one"), ValueError("two")]
    job = simulation.duetime.schedule("work", at=START + HOUR, max_attempts=3)
    simulation.advance(2 * HOUR)
    (run,) = simulation.runs()
    assert (run.status, run.attempt, len(bench.calls)) == ("completed", 3, 3)
    attempts = simulation.duetime.app.store.attempts(run.id)
    assert [attempt.error for attempt in attempts] == ["ValueError: one", "ValueError: two"]
    assert simulation.duetime.get(job.id).run_count == 1


def test_attempts_are_limited(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [ValueError(str(number)) for number in range(9)]
    job = simulation.duetime.schedule("work", at=START + HOUR, max_attempts=3)
    simulation.advance(24 * HOUR)
    (run,) = simulation.runs()
    assert (run.status, run.attempt, run.error, len(bench.calls)) == ("failed", 3, "ValueError: 2", 3)
    assert simulation.duetime.get(job.id).status == "failed"


def test_a_permanent_error_is_not_retried(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [PermanentError("never")]
    simulation.duetime.schedule("work", at=START + HOUR, max_attempts=5)
    simulation.advance(24 * HOUR)
    assert statuses(simulation) == ["failed"]
    assert len(bench.calls) == 1


def test_a_retry_waits_as_long_as_the_other_side_asked(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [RetryLater(3 * 3600)]
    simulation.duetime.schedule("work", at=START + HOUR, max_attempts=2)
    simulation.advance(2 * HOUR)
    assert statuses(simulation) == ["pending"]
    simulation.advance(3 * HOUR)
    assert statuses(simulation) == ["completed"]


def test_max_runs_counts_what_ran_and_not_what_was_missed(simulation: Simulation, bench: Bench) -> None:
    job = simulation.duetime.schedule("work", every=HOUR, max_runs=3)
    simulation.advance(HOUR)
    be_away(simulation, timedelta(hours=5))
    simulation.advance(24 * HOUR)
    assert len(bench.calls) == 3
    status = simulation.duetime.get(job.id)
    assert (status.status, status.run_count, status.next_run) == ("completed", 3, None)


def test_pause_parks_and_resume_says_what_did_not_run(simulation: Simulation, bench: Bench) -> None:
    job = simulation.duetime.schedule("work", every=HOUR)
    simulation.advance(HOUR)
    simulation.duetime.pause(job.id)
    simulation.advance(5 * HOUR)
    assert simulation.duetime.get(job.id).status == "paused"
    simulation.duetime.resume(job.id)
    simulation.advance(HOUR)
    ran, skipped, again = simulation.runs()
    assert (ran.status, skipped.status, again.status) == ("completed", "skipped", "completed")
    assert (skipped.number, skipped.error) == (5, "the schedule was paused")
    assert len(bench.calls) == 2


def test_pause_and_resume_twice_are_no_errors(simulation: Simulation) -> None:
    job = simulation.duetime.schedule("work", every=HOUR)
    for change in (simulation.duetime.pause, simulation.duetime.resume):
        change(job.id)
        change(job.id)
    simulation.advance(HOUR)
    assert statuses(simulation) == ["completed"]


def test_another_pause_replaces_the_first(simulation: Simulation) -> None:
    """One without an end drops the earlier end and its note; one that changes only the end keeps the note."""
    id = simulation.duetime.schedule("work", every=HOUR).id
    simulation.duetime.pause(id, until=START + 2 * HOUR, note="holiday")
    longer = simulation.duetime.pause(id, until=START + 3 * HOUR)
    assert (longer.note, str(longer.paused_until)[11:13]) == ("holiday", f"{(START + 3 * HOUR).hour:02}")
    for _ in range(2):
        endless = simulation.duetime.pause(id)
        assert (endless.note, endless.paused_until) == (None, None)
    simulation.duetime.pause(id, note="for good")
    assert simulation.duetime.pause(id).note == "for good", "nothing else was asked for"


def test_a_retry_is_parked_while_its_schedule_is_paused(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [ValueError("once")]
    job = simulation.duetime.schedule("work", at=START + HOUR, max_attempts=2)
    simulation.advance(HOUR)
    simulation.duetime.pause(job.id)
    simulation.advance(24 * HOUR)
    assert statuses(simulation) == ["pending"]
    shown = simulation.duetime.get(job.id)
    assert (shown.status, shown.state_detail) == ("paused", None), "it waits for nothing but the resume"
    simulation.duetime.resume(job.id)
    simulation.advance(HOUR)
    assert statuses(simulation) == ["completed"]


def test_a_schedule_that_pauses_itself_parks_what_was_retried_during_an_earlier_pause(
    simulation: Simulation, bench: Bench
) -> None:
    bench.errors = [ValueError("down")] * 9
    id = simulation.duetime.schedule("work", every=HOUR, max_attempts=1, pause_after=4).id
    simulation.advance(4 * HOUR)
    assert (simulation.duetime.get(id).status, len(bench.calls)) == ("paused", 4)
    for run in jobs(simulation):
        simulation.duetime.retry(run.id)
    simulation.duetime.resume(id)
    simulation.settle()
    assert (simulation.duetime.get(id).status, len(bench.calls)) == ("paused", 5), "the first failed again"
    assert [run.status for run in jobs(simulation)] == ["failed", "queued", "queued", "queued"]
    simulation.duetime.run_now(id)
    simulation.settle()
    assert len(bench.calls) == 6, "they wait for the resume, whatever somebody asks for meanwhile"
    bench.errors.clear()
    simulation.duetime.resume(id)
    simulation.settle()
    assert [run.status for run in jobs(simulation)] == ["failed", "completed", "completed", "completed", "failed"]


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_run_now_does_not_wait_for_what_a_pause_has_parked(
    simulation: Simulation, bench: Bench, overlap: Literal["queue", "skip"]
) -> None:
    bench.errors = [ValueError("down")] * 3
    id = simulation.duetime.schedule("work", every=HOUR, max_attempts=1, pause_after=2, overlap=overlap).id
    simulation.advance(2 * HOUR)
    for run in jobs(simulation):
        simulation.duetime.retry(run.id)
    simulation.duetime.resume(id)
    simulation.settle()
    assert [run.status for run in jobs(simulation)] == ["failed", "queued"], "it has paused itself again"
    simulation.duetime.run_now(id)
    simulation.settle()
    assert [run.status for run in jobs(simulation)] == ["failed", "queued", "completed"]
    simulation.duetime.resume(id)
    simulation.settle()
    assert [run.status for run in jobs(simulation)] == ["failed", "completed", "completed"]


def test_a_retry_dies_with_its_cancelled_schedule(simulation: Simulation, bench: Bench) -> None:
    bench.errors = [ValueError("once")]
    job = simulation.duetime.schedule("work", at=START + HOUR, max_attempts=2)
    simulation.advance(HOUR)
    simulation.duetime.cancel(job.id)
    simulation.advance(24 * HOUR)
    assert statuses(simulation) == ["cancelled"]
    assert simulation.duetime.get(job.id).status == "cancelled"


def test_history_outlives_a_deleted_schedule(simulation: Simulation) -> None:
    job = simulation.duetime.schedule("work", every=HOUR)
    simulation.advance(2 * HOUR)
    simulation.duetime.delete(job.id)
    simulation.advance(5 * HOUR)
    assert [run.status for run in simulation.duetime.history(job.id)] == ["completed", "completed"]
    assert simulation.duetime.schedules() == []


def test_run_now_leaves_the_trigger_alone(simulation: Simulation) -> None:
    job = simulation.duetime.schedule("work", every=HOUR)
    simulation.advance(timedelta(minutes=20))
    simulation.duetime.run_now(job.id)
    simulation.settle()
    simulation.advance(timedelta(minutes=40))
    assert [(run.cause, run.status) for run in simulation.runs()] == [
        ("manual", "completed"),
        ("trigger", "completed"),
    ]


def test_a_crash_after_the_claim_runs_again_elsewhere(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", at=START + HOUR)
    simulation.clock.move_to(START + HOUR)
    simulation.crash()
    assert statuses(simulation) == ["running"]
    simulation.advance(timedelta(seconds=12))
    (run,) = simulation.runs()
    assert (run.status, run.deaths, run.attempt, len(bench.calls)) == ("completed", 1, 2, 1)


def test_at_most_once_is_lost_rather_than_repeated(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", at=START + HOUR, at_most_once=True)
    simulation.clock.move_to(instant_of(START + HOUR))
    simulation.crash()
    simulation.advance(timedelta(seconds=12))
    assert statuses(simulation) == ["lost"]
    assert bench.calls == []


def test_a_clock_that_was_ahead_neither_doubles_nor_stalls(simulation: Simulation, bench: Bench) -> None:
    simulation.duetime.schedule("work", every=HOUR)
    simulation.clock.jump(timedelta(hours=10))
    simulation.settle()
    assert len(bench.calls) == 1
    simulation.clock.jump(timedelta(hours=-10))
    simulation.advance(12 * HOUR)
    due = [run.due for run in simulation.runs() if run.status == "completed"]
    assert len(due) == len(set(due)), "no occurrence ran twice"
    assert due_times(simulation.runs()).count("22:00") == 1
    assert len(due) >= 11, "the hours until the clock's earlier reading did not stay silent"


def test_jitter_is_the_same_on_every_look(simulation: Simulation) -> None:
    job = simulation.duetime.schedule("work", every=HOUR)
    simulation.duetime.edit(job.id, trigger_type="interval", trigger_config={"hours": 1, "jitter": 600})
    simulation.advance(4 * HOUR)
    runs = simulation.runs()
    assert all(run.started is not None and 0 <= run.started - run.due < 600_000_000 for run in runs)
    assert len({(run.started or 0) - run.due for run in runs}) > 1


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
def test_a_delay_that_is_longer_than_the_period_loses_no_run(
    simulation: Simulation, catch_up: Literal["once", "skip", "all"]
) -> None:
    simulation.duetime.schedule("work", every="5m", jitter="10m", catch_up=catch_up, overlap="queue", queue_limit=10)
    simulation.advance(timedelta(minutes=65))
    ended = [run.status for run in simulation.runs() if run.due < simulation.clock.now() - 600_000_000]
    assert ended == ["completed"] * 10


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_prompts_wait_and_overlap_by_policy(simulation: Simulation, overlap: str) -> None:
    """A prompt that is kept until somebody takes it: what the next occurrences do is the overlap policy."""
    policy = {"overlap": overlap, "untaken": "keep"}
    new = NewSchedule("prompt", "look", "interval", {"hours": 1}, {"prompt": "look"}, policy)
    simulation.duetime.scheduler.create(simulation.duetime.caller, new)
    simulation.advance(3 * HOUR)
    runs = simulation.runs()
    expected = {"skip": ["waiting", "skipped"], "queue": ["waiting", "queued", "queued"], "allow": ["waiting"] * 3}
    assert [run.status for run in runs] == expected[overlap]
    if overlap == "skip":
        assert runs[1].number == 2


def test_a_run_waits_for_a_worker_that_knows_its_task(bench: Bench) -> None:
    """In the hands of one that does not, it neither fails nor uses up an attempt, and says what is missing."""
    registry = Registry()
    registry.task(name="late")(lambda: bench.calls.append("late"))
    with Simulation(START, registry=registry) as simulation:
        simulation.duetime.schedule("late", at=START + timedelta(minutes=1))
        known = registry._tasks.pop("late")
        simulation.advance(timedelta(minutes=3))
        (run,) = simulation.runs()
        assert (run.status, run.attempt, bench.calls) == ("pending", 0, [])
        assert run.error is not None
        assert run.error.startswith("Unknown task: late")
        registry.add(known)
        simulation.advance(timedelta(minutes=1))
        assert statuses(simulation) == ["completed"]


def test_a_run_that_is_given_back_is_offered_again_soon_and_keeps_the_error_of_its_attempt() -> None:
    """Another worker may know the task: it must not be seconds late because the wrong one was faster."""
    registry, errors = Registry(), ["no such account"]
    seen: list[str | None] = []

    def pay() -> None:
        [run] = world.runs()
        seen.append(run.error)
        if errors:
            raise ValueError(errors.pop())

    registry.task(name="pay")(pay)
    with Simulation(START, registry=registry) as world:
        world.duetime.schedule("pay", delay=10, max_attempts=2, backoff=60)
        known = registry._tasks.pop("pay")
        world.advance(timedelta(seconds=11))
        assert [(run.status, run.error is None) for run in world.runs()] == [("pending", False)]
        registry.add(known)
        world.advance(timedelta(seconds=1))
        assert seen == [None], "why it was given back says nothing about the attempt that runs"
        registry._tasks.pop("pay")
        world.duetime.app.services.kind(JobKind)._planner.known.cache_clear()  # as in a worker without the task
        world.advance(timedelta(seconds=90))
        (run,) = world.runs()
        assert (run.status, run.attempt, run.error) == ("pending", 1, "ValueError: no such account")
        registry.add(known)
        world.advance(timedelta(seconds=10))
        assert statuses(world) == ["completed"]
