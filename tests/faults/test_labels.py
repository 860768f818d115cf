"""Four processes, two of them with a label: labelled work runs nowhere else, and other work does not wait for it."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.model import Run
from duetime.engine.validation import NewSchedule
from tests.faults.conftest import LEASE
from tests.faults.test_stopped import stop_between_transactions
from tests.support.workers import CLOCK, Crew, WorkerProcess, eventually

PUNCTUAL = 1.5
"""Seconds after its time by which work starts while nobody that could take it has died."""


def lateness(runs: Sequence[Run]) -> float:
    """Return the 95th percentile of how late runs started, in seconds."""
    late = sorted((run.started or run.due) - run.due for run in runs)
    return late[len(late) * 95 // 100] / SECOND


def ran(team: Crew, prefix: str) -> set[int]:
    """Return the processes that executed something whose key begins so."""
    return {event.pid for event in team.events() if event.key.startswith(prefix)}


def test_labelled_work_waits_for_its_label_while_all_other_work_goes_on(team: Crew) -> None:
    gate = team.gate()
    first, second = team.start(2, labels=("gpu",))
    team.start(2)
    team.add("hold_gpu", ["gpu-held0", "gpu-held1"], gate=str(gate))
    team.add("mark_gpu", [f"gpu-a{number}" for number in range(100)])
    team.add("mark", [f"plain-a{number}" for number in range(200)])
    eventually(lambda: len(team.events("begun")) == 2, 30, "workers with the label are busy")
    eventually(lambda: len(team.runs(status="completed")) == 300, 30, "all other work is recorded")

    stop_between_transactions(team, first)
    second.kill()
    eventually(lambda: len(team.app.store.workers()) == 2, LEASE + 20, "both were declared dead")
    team.add("mark_gpu", [f"gpu-b{number}" for number in range(50)], policy={"at_most_once": True})
    team.add("mark", [f"plain-b{number}" for number in range(200)], overdue=-2)
    eventually(lambda: sum("plain-b" in key for key in team.count("ran")) == 200, 20, "the others do all other work")
    assert not ran(team, "gpu-b"), "nobody with the label is alive"
    assert lateness([run for run in team.runs() if run.name.startswith("plain-b")]) < PUNCTUAL

    gate.touch()
    first.signal(signal.SIGCONT)
    (third,) = team.start(1, labels=("gpu",))
    team.settled(LEASE + 30, 2 + 100 + 200 + 50 + 200)
    gifted = {worker.pid for worker in (first, second, third)}
    assert ran(team, "gpu-") <= gifted and ran(team, "plain-") - gifted
    assert {run.status for run in team.runs()} == {"completed"}
    assert {number for key, number in team.count("ran").items() if key.startswith("gpu-b")} == {1}, "at most once"
    team.check()


# -- the same at random, for longer -------------------------------------------------------------------------------

LABELS = ("gpu",)
ROUNDS = 12
LABELLED, PLAIN = 600, 1_200
SECONDS = 30


def spread(team: Crew, task: str, prefix: str, number: int, **policy: Any) -> None:
    """Create one-off schedules over the time of the test."""
    begin = CLOCK.now() + 2 * SECOND
    times = [datetime_of(Instant(begin + each * SECONDS * SECOND // number)).isoformat() for each in range(number)]
    team.create(
        [
            NewSchedule("job", key, "once", {"run_at": at}, {"task": task, "kwargs": {"key": key}}, policy)
            for key, at in zip([f"{prefix}{each}" for each in range(number)], times, strict=True)
        ],
        ago=10,  # checking them takes a while, and the first ones are due soon
    )


def is_registered(team: Crew, worker: WorkerProcess) -> bool:
    return any(row.name.endswith(f":{worker.pid}") for row in team.app.store.workers())


@pytest.mark.later
def test_kills_and_freezes_at_random(team: Crew) -> None:
    """Every few seconds one of four workers is killed and replaced, or frozen for longer than its lease."""
    chance = random.Random(28)
    crew = [*team.start(2, labels=LABELS), *team.start(2)]
    gifted = {worker.pid for worker in crew[:2]}
    spread(team, "mark_gpu", "gpu-", LABELLED, alert="off", catch_up="all")
    spread(team, "mark", "plain-", PLAIN, alert="off", catch_up="all")
    for _ in range(ROUNDS):
        done = len(team.events("ran"))
        eventually(lambda: len(team.events("ran")) >= min(done + 60, LABELLED + PLAIN), 30, "work goes on")  # noqa: B023
        place = chance.randrange(4)
        victim = crew[place]
        if chance.random() < 0.5:
            victim.kill()
            (crew[place],) = team.start(1, labels=LABELS if place < 2 else ())
            gifted |= {crew[place].pid} if place < 2 else set()
        else:
            eventually(lambda: is_registered(team, victim), 30, "it is back, if it was frozen before")  # noqa: B023
            stop_between_transactions(team, victim)
            eventually(lambda: not is_registered(team, victim), 30, "declared dead")  # noqa: B023
            victim.signal(signal.SIGCONT)
    team.settled(SECONDS + 60, LABELLED + PLAIN)
    assert "registers again" in team.logs(), "a frozen worker was declared dead"
    assert ran(team, "gpu-") <= gifted, "labelled work ran nowhere else"
    runs = team.runs()
    assert len(runs) == LABELLED + PLAIN and {run.status for run in runs} == {"completed"}
    undisturbed = [run for run in runs if run.name.startswith("plain-") and run.deaths == 0 and run.fence == 1]
    assert len(undisturbed) > PLAIN / 2
    assert lateness(undisturbed) < PUNCTUAL, "other work was not delayed"
    team.check()
