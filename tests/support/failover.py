"""Four workers and a creator on a primary with a synchronous standby, while the primary fails in mid-work."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.errors import StoreUnavailable
from duetime.engine.validation import NewSchedule
from tests.support.replicated import NetworkServer, Pair, running_pair
from tests.support.workers import CALLER, CLOCK, Crew, crew, eventually

COMPLETED = "SELECT count(*) FROM runs WHERE status = 'completed'"


class Fault(StrEnum):
    KILLED = "killed"
    """All processes of the primary are killed, and the standby is promoted."""
    AWAY = "away"
    """The primary crashes and comes back after a while."""
    HUNG = "hung"
    """The primary stops in its tracks without closing a connection, and the standby is promoted."""


class Trial(NamedTuple):
    """How much work there is and how long the fault lasts, in seconds."""

    occurrences: int
    lasting: float
    outage: float
    lease: float = 10.0


class Outcome(NamedTuple):
    acknowledged: int
    lost: int
    doubled: int
    repeated: int
    """Executions beyond the first one of an occurrence: allowed, and here a sign of what the fault cost."""
    resumed: float
    """Seconds from the moment that a server accepted writes to the first run that it recorded."""


class Creator:
    """Creates schedules one after the other, and repeats a request with its key until it is acknowledged."""

    def __init__(self, team: Crew) -> None:
        self._team = team
        self.acknowledged: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._create)
        self._thread.start()

    def _create(self) -> None:
        number = 0
        while not self._stopped.wait(0.01):
            key = f"new{number}"
            try:
                self._team.app.scheduler.create(CALLER, one_off(key, {"delay": 1}))
            except StoreUnavailable:
                continue
            self.acknowledged.append(key)
            number += 1

    def stop(self) -> list[str]:
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a create hangs"
        return self.acknowledged


def one_off(key: str, when: dict[str, Any]) -> NewSchedule:
    return NewSchedule(
        "job", key, "once", when, {"task": "mark", "kwargs": {"key": key}}, {"alert": "off"}, idempotency_key=key
    )


def fail_over(fault: Fault, trial: Trial, folder: Path) -> Outcome:
    """Cause the fault when a fifth of the work is done; return what became of everything."""
    with running_pair() as pair, crew(pair.url, folder, lease=trial.lease) as team:
        team.start(4)
        keys = [f"k{number}" for number in range(trial.occurrences)]
        first, step = CLOCK.now() + SECOND, int(trial.lasting * SECOND / trial.occurrences)
        due = [datetime_of(Instant(first + number * step)).isoformat() for number in range(trial.occurrences)]
        team.create([one_off(key, {"run_at": at}) for key, at in zip(keys, due, strict=True)], ago=60)
        creator = Creator(team)
        try:
            eventually(lambda: completed(pair.primary) > trial.occurrences // 5, 60, "a fifth is done")
            server = cause(fault, pair, trial.outage)
            accepting, before = CLOCK.monotonic(), completed(server)
            eventually(lambda: completed(server) > before, 60, f"work goes on\n{team.logs()}")
            resumed = CLOCK.monotonic() - accepting
            eventually(lambda: completed(server) >= trial.occurrences, 180, "the rest is done")
        finally:
            keys += creator.stop()
        eventually(lambda: is_available(team), 30, "this process follows too")
        team.settled(120, len(keys))
        team.check()
        runs = Counter(run.name for run in team.runs(status="completed"))
        executed = Counter(key.split("@")[0] for key in team.count("ran").elements())
        lost = sum(not runs[key] for key in keys)
        doubled = sum(number - 1 for number in runs.values())
        repeated = sum(number - 1 for number in executed.values())
        assert not [worker for worker in team.workers if worker.exit_code() is not None], "nobody had to be restarted"
        return Outcome(len(keys), lost, doubled, repeated, resumed)


def is_available(team: Crew) -> bool:
    try:
        return bool(team.app.store.schema())
    except StoreUnavailable:
        return False


def cause(fault: Fault, pair: Pair, outage: float) -> NetworkServer:
    """Let the primary fail, and return the server that accepts writes after the outage."""
    match fault:
        case Fault.KILLED:
            pair.primary.signal(signal.SIGKILL)
        case Fault.HUNG:
            pair.primary.signal(signal.SIGSTOP)
        case Fault.AWAY:
            pair.primary.stop("immediate")
    threading.Event().wait(outage)  # time itself is what is tried here
    if fault is Fault.AWAY:
        pair.primary.start()
        return pair.primary
    pair.standby.promote()
    return pair.standby


def completed(server: NetworkServer) -> int:
    [(number,)] = server.ask(COMPLETED)
    assert isinstance(number, int)
    return number
