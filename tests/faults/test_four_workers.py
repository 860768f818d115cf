"""Four processes on one store: what is due is run once, by one of them, and nothing is missing."""

from __future__ import annotations

from collections import Counter

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.validation import NewSchedule
from tests.support.size import FULL
from tests.support.workers import CLOCK, Crew, eventually

ONE_OFFS, REPEATING, OCCURRENCES = (9_000, 100, 10) if FULL else (1_800, 20, 10)

HELD = 3 * 12 + 1
"""One more than three workers have threads for: the fourth one has to take part."""


def repeating(number: int) -> NewSchedule:
    """Ten occurrences in the past second or so, all to be caught up with, each behind the one before it."""
    started = datetime_of(Instant(CLOCK.now() - 20 * SECOND)).isoformat()
    key = f"r{number}"
    return NewSchedule(
        "job",
        key,
        "interval",
        {"seconds": 1, "start": started},
        {"task": "mark", "kwargs": {"key": key}},
        {"catch_up": "all", "overlap": "queue", "max_runs": OCCURRENCES},
    )


def test_thousands_of_occurrences_run_once_each(team: Crew) -> None:
    gate = team.gate()
    team.add("hold", [f"h{number}" for number in range(HELD)], overdue=1.0, gate=str(gate))
    team.add("mark", [f"k{number}" for number in range(ONE_OFFS)])
    team.create([repeating(number) for number in range(REPEATING)], ago=15)
    number = ONE_OFFS + REPEATING * OCCURRENCES
    team.start(4)
    eventually(lambda: len({event.pid for event in team.events("begun")}) == 4, 60, "every worker has its share")
    gate.touch()
    team.settled(90, HELD + number)

    executed = team.count("ran")
    assert len(executed) == number
    assert set(executed.values()) == {1}
    keys = Counter(key.split("@")[0] for key in executed)
    assert [keys[f"k{number}"] for number in range(ONE_OFFS)] == [1] * ONE_OFFS
    assert [keys[f"r{number}"] for number in range(REPEATING)] == [OCCURRENCES] * REPEATING

    runs = team.runs(status="completed")
    assert len(runs) == HELD + number
    assert {run.attempt for run in runs} == {1}
    assert {(run.deaths, run.fence <= 4) for run in runs} == {(0, True)}
    assert sum(run.fence - 1 for run in runs) < number / 5, "few are claimed again after they were given back"
    assert set(team.count("begun").values()) == {1}
    assert "dead" not in team.logs(), "nobody took a living worker for dead"
    team.check()


def test_four_workers_that_are_asked_to_stop_in_mid_work_leave_nothing_behind(team: Crew) -> None:
    """Two of four stop gracefully while the others go on; a fifth joins."""
    team.add("mark", [f"k{number}" for number in range(2_000)])
    first, second, *_ = team.start(4)
    assert first.terminate() == 0
    team.start(1)
    assert second.terminate() == 0
    team.settled(30, 2_000)
    executed = team.count("ran")
    assert (len(executed), set(executed.values())) == (2_000, {1})
    assert {run.attempt for run in team.runs()} == {1}, "what was given back did not count as an attempt"
    team.check()
