"""Chaos: four workers on each store while processes are killed and stopped, the server is hurt and clocks are set."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scorecard.database_faults import DatabaseFaults
from scorecard.experiment import Experiment, Refused, now, wait, wait_until
from scorecard.history import SECOND, Finding, History, check, excused_by_chance
from scorecard.keeping import kept
from scorecard.line import Result, Scale, Tell, about
from tests.support.postgres import running_server

SEED = "SEED"
"""The environment variable that chooses other faults; without it they are the same each time."""
WORKERS = 4
LEASE = 2.0
RATE, SMALL_RATE = 50, 20
"""Schedules: enough even in the small version for the share of excused executions to say something."""
FIRINGS = 5 / 6
"""Occurrences of a schedule in a second, on average."""
FAULT_EVERY = 1.2
"""Seconds between two faults."""
MOST_EXCUSED = 0.12
"""The share of executions that a fault may excuse by chance; beyond it, the checker would excuse too much."""
CLOCKS = (-3600, -30, -2, 2, 30, 3600, 86_400, 0, 0)
"""Seconds that the wall clock of a worker may be wrong by."""
VISIBLE = {"missed", "skipped"}
"""Findings that are no failure here: a busy machine is late, and records it with a row."""
SETTLING = 120.0
POLICIES: tuple[dict[str, Any], ...] = (
    {"overlap": "allow", "catch_up": "all"},
    {"overlap": "skip", "at_most_once": True},
    {"overlap": "queue", "catch_up": "all"},
    {"overlap": "skip"},
    {"overlap": "allow", "max_attempts": 4, "backoff": SECOND, "fails": 1},
)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the experiment on one store."""

    seconds: float
    faults: int
    rate: int
    """Schedules: one in three fires every other second, the others every second."""


def measure(scale: Scale, tell: Tell) -> Result:
    """Run the experiment on each store and let the history checker judge it."""
    rate = SMALL_RATE if scale is Scale.SMALL else RATE
    occurrences, faults = scale.of(60_000, 84), scale.of(1000, 2)
    stores = ("sqlite",) if scale is Scale.SMALL else ("sqlite", "postgres")
    each = faults // len(stores)
    seconds = occurrences / len(stores) / (rate * FIRINGS)
    size = Size(max(seconds, each * FAULT_EVERY), each, rate)
    outcomes = [_run(store, size, about(store, tell)) for store in stores]
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    share = max(outcome.excused for outcome in outcomes)
    if share > MOST_EXCUSED:
        failures.append(f"chance would excuse {share:.0%} of all executions; the faults lie too close together")
    rules = Counter(failure.split(": ")[1] for failure in failures if failure.count(": ") > 1)
    named = ", ".join(f"{rule} {rules[rule]}" for rule in ("lost", "doubled", "early", "repeated"))
    counts = {
        "occurrences": sum(outcome.occurrences for outcome in outcomes),
        "faults": sum(outcome.faults for outcome in outcomes),
    }
    other = sum(rules.values()) - sum(rules[rule] for rule in ("lost", "doubled", "early", "repeated"))
    repeats = sum(outcome.repeats for outcome in outcomes)
    measured = f"{named}, other findings {other}; {repeats} repeats, chance would excuse {share:.1%} of executions"
    return Result(counts, measured, tuple(failures))


@dataclass(frozen=True, slots=True)
class _Outcome:
    occurrences: int
    faults: int
    repeats: int
    excused: float
    failures: list[str]


def _run(store: str, size: Size, tell: Tell) -> _Outcome:
    with kept(f"chaos-{store}") as place, _opened(store, place.folder) as (url, database):
        experiment = Experiment(url, place.folder, lease=LEASE)
        with experiment.running(WORKERS):
            chaos = _Chaos(experiment, database, random.Random(f"chaos {store} {os.environ.get(SEED, '')}"), size)
            chaos.play(tell)
            settled = experiment.settle(SETTLING)
            experiment.replace_those_that_gave_up()
            history = experiment.history()
        failures = [f"{store}: {text}" for text in _failures(experiment, history, settled=settled)]
        place.write(history, failures)
    if failures:
        failures.append(f"{store}: the history and the logs are kept in {place.folder}")
    occurrences = sum(len(known.instants(history.until)) for known in history.definitions)
    return _Outcome(occurrences, chaos.caused, _repeats(history), excused_by_chance(history), failures)


def _failures(experiment: Experiment, history: History, *, settled: bool) -> list[str]:
    findings = [finding for finding in check(history) if finding.rule not in VISIBLE]
    if not settled:
        findings.append(Finding("stuck", f"not everything ended within {SETTLING:g} s"))
    return [f"{one.rule}: {one.text}" for one in findings] + [f"gave up: {text}" for text in experiment.gave_up]


def _repeats(history: History) -> int:
    calls = Counter((one.run, one.attempt) for one in history.executions)
    return sum(number - 1 for number in calls.values())


@contextmanager
def _opened(store: str, folder: Path) -> Iterator[tuple[str, DatabaseFaults | None]]:
    if store == "sqlite":
        yield str(folder / "store.db"), None
        return
    with running_server() as server:
        yield server.url, DatabaseFaults(server)


class _Chaos:
    """Causes one fault after the other, and asks for something now and then, as people do."""

    def __init__(
        self, experiment: Experiment, database: DatabaseFaults | None, chance: random.Random, size: Size
    ) -> None:
        self.experiment, self.database, self.chance, self.size = experiment, database, chance, size
        self.caused = 0
        self._busy: set[int] = set()
        self._threads: list[threading.Thread] = []

    def play(self, tell: Tell) -> None:
        begin = self._plan()
        self._beside(self.experiment.compare_export)
        step = self.size.seconds / self.size.faults
        while self.caused < self.size.faults:
            wait_until(begin + int(step * (self.caused + 1) * SECOND))
            self.experiment.replace_those_that_gave_up()
            self._ask_for_something(self.caused)
            self._fault()
            self.caused += 1
            tell(f"{self.caused} of {self.size.faults} faults")
        for thread in self._threads:
            thread.join()

    def _plan(self) -> int:
        """Create schedules of every sort and return when they begin: some seconds ahead, when all have been created."""
        chance = self.chance
        begin = (now() // SECOND + 2 + self.size.rate // 8) * SECOND
        last = begin + int(self.size.seconds * SECOND)
        for number in range(self.size.rate):
            period = SECOND if number % 3 else 2 * SECOND
            policy = POLICIES[number % len(POLICIES)]
            work = chance.choice([0.0, 0.02, 0.1, 0.3])
            first = begin + chance.randrange(10) * SECOND // 10
            self.experiment.create(f"schedule {number}", first, period, last, work, **policy)
        return begin

    def _ask_for_something(self, number: int) -> None:
        """Create a one-off, and sometimes a schedule that is paused for a while, or cancelled."""
        due = now() + self.chance.randrange(1, 4) * SECOND
        try:
            self.experiment.create(f"one-off {number}", due, work=0.05)
        except Refused as error:
            self._note_refusal(error, due)
        if number % 7 == 3:
            self._change_a_spare(number)

    def _change_a_spare(self, number: int) -> None:
        end = now() + 8 * SECOND
        try:
            spare = self.experiment.create(f"spare {number}", now() + SECOND, SECOND, end)
        except Refused as error:
            self._note_refusal(error, end)
            return
        pausing = number % 2 == 0
        self._beside(lambda: self._pause(spare) if pausing else self._cancel(spare))

    def _note_refusal(self, error: Refused, due: int) -> None:
        """Count a refusal as a failure, unless the store was unavailable until the schedule's time had passed."""
        if now() < due:
            self.experiment.gave_up.append(f"a schedule was refused before its time: {error}")

    def _pause(self, schedule: str) -> None:
        wait(2.0)
        self.experiment.pause(schedule, 2.0)

    def _cancel(self, schedule: str) -> None:
        wait(3.0)
        self.experiment.cancel(schedule)

    def _beside(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._attempt, args=(act,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _attempt(self, act: Callable[[], None]) -> None:
        """Record an error as a failure: the history would be judged as if the act had succeeded."""
        try:
            act()
        except Exception as error:
            self.experiment.gave_up.append(f"somebody who intervened: {error!r}")

    def _fault(self) -> None:
        free = [at for at in range(WORKERS) if at not in self._busy]
        at = self.chance.choice(free or [0])
        if self.database is not None and self.chance.random() < 0.3:
            self._hurt(self.database, at)
        elif self.chance.random() < 0.55 or not free:
            self.experiment.kill(at)
        else:
            self._busy.add(at)
            self._beside(lambda: self._stop(at))

    def _stop(self, at: int) -> None:
        self.experiment.stop(at, LEASE + self.chance.choice([0.5, 1.0, 1.5]))
        self._busy.discard(at)

    def _hurt(self, database: DatabaseFaults, at: int) -> None:
        """Disturb the server of the store, or the clock of one of its workers."""
        faults = self.experiment.faults
        match self.chance.choices(("clock", "cut", "restart", "freeze"), (20, 8, 1, 1))[0]:
            case "clock":
                self.experiment.workers[at].set_clock(self.chance.choice(CLOCKS))
            case "cut":
                faults.append(database.cut_connections())
            case "restart":
                faults.append(database.restart())
            case _:
                faults.append(database.freeze(self.chance.choice([1.0, 2.0, 3.0])))
