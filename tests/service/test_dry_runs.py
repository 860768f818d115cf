"""Changes of many: what a dry run promises is what happens, whatever the rule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime import Duetime, InvalidInput
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.testing import Simulation

START = datetime(2026, 10, 22, 12, tzinfo=UTC)
"""A Thursday, 14:00 in Berlin. Clocks go back on Sunday, 25 October."""


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    registry = Registry()

    @registry.task
    def work() -> None: ...

    with Simulation(START, registry=registry, settings=Settings(db=":memory:", timezone="Europe/Berlin")) as simulation:
        yield simulation


@pytest.fixture
def duetime(simulation: Simulation) -> Duetime:
    return simulation.duetime


@pytest.mark.parametrize(
    ("when", "shift", "expected"),
    [
        ({"when": "every 2 weeks at 9"}, "30m", "2026-10-23T09:30"),
        ({"when": "every 2 weeks at 9"}, "-30m", "2026-10-23T08:30"),
        ({"when": "every 2 weeks at 9 starting december 8"}, "30m", "2026-12-08T09:30"),
        ({"every": "2 weeks", "start": "tomorrow 9am"}, "30m", "2026-10-23T09:30"),
        ({"every": "1d", "start": "2026-10-23 9:00"}, "3d", "2026-10-26T09:00"),
        ({"every": "2 days"}, "3d", "2026-10-27T14:00"),
        ({"every": "1h"}, "90m", "2026-10-22T16:30"),
        ({"rrule": "FREQ=WEEKLY;INTERVAL=2", "start": "tomorrow 9am"}, "-30m", "2026-10-23T08:30"),
        ({"rrule": "FREQ=HOURLY"}, "90m", "2026-10-22T15:30"),
        ({"every": "8h", "start": "2026-10-23 9:00"}, "-30m", "2026-10-23T08:30"),
        ({"cron": "10 14 * * *"}, "-30m", "2026-10-23T13:40"),
        ({"cron": "0 9 * * *"}, "25h", "2026-10-23T10:00"),
        ({"at": "2026-10-24 9:00"}, "3d", "2026-10-27T09:00"),
        ({"when": "every 90 minutes between 9:00 and 17:00"}, "30m", "2026-10-22T15:30"),
        ({"when": "every 2 hours between 22:00 and 6:00 on fridays"}, "-1h", "2026-10-23T21:00"),
    ],
)
def test_a_dry_run_promises_what_happens(duetime: Duetime, when: dict[str, Any], shift: str, expected: str) -> None:
    schedule = duetime.schedule("work", **when)
    [row] = duetime.change_many("shift", ids=[schedule.id], shift=shift, dry_run=True).matched
    assert row["moves_to"][:16] == expected
    assert duetime.change_many("shift", ids=[schedule.id], shift=shift).changed == 1
    after = duetime.get(schedule.id).next_run
    assert after is not None and after.isoformat()[:16] == expected


@pytest.mark.parametrize(
    ("when", "shift", "reason"),
    [
        ({"at": "in 10 minutes"}, "-30m", "is in the past"),
        ({"at": "9999-12-01 10:00"}, "60d", "it would be after the year 9999"),
        ({"cron": "0 9 * * *"}, "7d", "its times would be the same"),
        ({"when": "every hour between 9:00 and 23:00"}, "2h", "its daily window would be on two days"),
    ],
)
def test_what_cannot_be_moved_is_said_by_a_dry_run_too(
    duetime: Duetime, when: dict[str, Any], shift: str, reason: str
) -> None:
    schedule = duetime.schedule("work", **when)
    duetime.schedule("work", cron="30 9 * * *")
    for dry_run in (True, False):
        answer = duetime.change_many("shift", everything=True, shift=shift, dry_run=dry_run)
        assert [row["id"] for row in answer.failed][:1] == [schedule.id] and reason in answer.failed[0]["error"]


def test_a_pause_that_would_be_over_is_refused_by_a_dry_run_too(duetime: Duetime) -> None:
    duetime.schedule("work", cron="0 9 * * *")
    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match="it is in the past"):
            duetime.change_many("pause", everything=True, until=START - timedelta(hours=1), dry_run=dry_run)


def test_what_has_ended_is_not_moved_in_a_dry_run_either(simulation: Simulation, duetime: Duetime) -> None:
    schedule = duetime.schedule("work", every="8h", max_runs=1)
    simulation.advance(timedelta(hours=8))
    errors = []
    for dry_run in (True, False):
        [failed] = duetime.change_many("shift", ids=[schedule.id], shift="30m", dry_run=dry_run).failed
        errors.append(failed["error"])
    assert errors[0] == errors[1] == "it has ended, so it cannot be edited"
