"""A short experiment that every planted bug has to be caught by: `python -m scorecard.exam FOLDER` prints findings."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from scorecard.experiment import Experiment, now, wait_until
from scorecard.history import SECOND, check

WORKERS = 2
STOPPED = 5.0
"""Seconds: far beyond the lease, so that the others take over what the stopped worker holds on a busy machine too, and
less than that work takes, so that it wakes up while they are at it."""
PEOPLE = "people"
"""The name of the threads that look and intervene meanwhile."""


def main(folder: Path) -> list[str]:
    """Run the experiment and return what contradicts the promises."""
    experiment = Experiment(str(folder / "store.db"), folder, lease=2.0, asks_twice=True)
    with experiment.running(WORKERS):
        plan = _plan(experiment)
        wait_until(plan.begin + 33 * SECOND // 10)
        experiment.kill(experiment.busy_with(plan.killed))
        wait_until(plan.begin + 53 * SECOND // 10)
        experiment.stop(experiment.busy_with(plan.stopped), STOPPED)
        wait_until(plan.begin + 125 * SECOND // 10)
        experiment.slow_down(plan.slowed)
        _wait_for_people()
        settled = experiment.settle(30)
        experiment.replace_those_that_gave_up()
        history = experiment.history()
    findings = [f"{finding.rule}: {finding.text}" for finding in check(history)]
    findings += [f"gave up: {text}" for text in experiment.gave_up]
    return findings if settled else [*findings, "stuck: not everything ended"]


class Plan(NamedTuple):
    begin: int
    killed: set[str]
    """Schedules whose runs are under way when a worker is killed: the one that has most of them."""
    stopped: set[str]
    """The same for the worker that is stopped."""
    slowed: set[str]
    """Schedules whose runs are in processes of their own when their worker stands still for a moment."""


def _plan(experiment: Experiment) -> Plan:
    """Create a schedule for each promise. The first occurrences lie before any fault, the last after all of them."""
    second = SECOND
    begin = (now() // second + 4) * second
    create, last = experiment.create, begin + 11 * second
    for number in range(3):
        create(f"plain {number}", begin, second, last, work=0.05, catch_up="all", overlap="allow")
        create(f"retried {number}", begin, 2 * second, last, fails=1, max_attempts=3, backoff=second, overlap="allow")
        create(f"exact {number}", begin, second, last, work=0.4, at_most_once=True)
        create(f"killed {number}", begin + 3 * second, work=1.5)
    killed = {create(f"killed once {number}", begin + 3 * second, work=1.5, at_most_once=True) for number in range(3)}
    stopped = {create(f"stopped {number}", begin + 5 * second, work=6.0) for number in range(3)}
    slowed = {create(f"slowed {number}", begin + 11 * second, work=4.0, task="effect_apart") for number in range(3)}
    create("slow", begin, second, last, work=1.3)
    create("queued", begin, second, begin + 4 * second, work=1.2, overlap="queue")
    create("failing", begin, 3 * second, last, fails=9, max_attempts=2, backoff=second // 2, overlap="allow")
    create("full", begin, second, last, work=0.93)
    named = [create(name, begin, second, last) for name in ("edited", "paused", "cancelled later", "cancelled")]
    threading.Thread(target=experiment.compare_export, daemon=True, name=PEOPLE).start()
    threading.Thread(target=_intervene, args=(experiment, begin, *named), daemon=True, name=PEOPLE).start()
    return Plan(begin, killed, stopped, slowed)


def _intervene(experiment: Experiment, begin: int, edited: str, paused: str, later: str, cancelled: str) -> None:
    """Edit a schedule; cancel another at once and a third one after it was paused; pause a fourth and let it go on."""
    wait_until(begin + 22 * SECOND // 10)
    experiment.edit(edited)
    experiment.cancel(cancelled)
    experiment.insist("POST", f"/schedules/{later}/pause")
    experiment.pause(paused, 3.2)
    experiment.cancel(later)


def _wait_for_people() -> None:
    for thread in threading.enumerate():
        if thread.name == PEOPLE:
            thread.join()


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
