"""A hundred thousand schedules that are due at one instant, on a server that somebody works with at the same time."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from duetime.app import open_store
from duetime.engine.clock import Instant
from duetime.engine.model import Definition, ScheduleId
from duetime.engine.policy.rows import Draft
from duetime.engine.triggers import OnceTrigger, trigger_to_json
from scorecard.experiment import Experiment, Unanswered, now, wait, wait_until
from scorecard.history import SECOND
from scorecard.line import Result, Scale, Tell, about
from tests.support.postgres import running_postgres

CHUNK = 5000
CREATED_A_SECOND = 2000
"""A low estimate, so that all schedules exist before the instant."""
THREADS = 16
LAST_START = 60.0
P99 = 0.5
P99_AMID_TESTS = 3.0
"""Bound of the latency where other tests use the processors as well."""
REQUESTS_A_SECOND = 5
PATIENCE = 180.0


def measure(scale: Scale, tell: Tell) -> Result:
    """Create them, wait for the instant, and count who began when, while a client goes on asking."""
    count = scale.of(100_000, 300)
    stores = ("sqlite",) if scale is Scale.SMALL else ("sqlite", "postgres")
    failures: list[str] = []
    said: list[str] = []
    for store in stores:
        with tempfile.TemporaryDirectory() as folder, _url(store, Path(folder)) as url:
            seen = _run(url, Path(folder), count, about(store, tell))
        bound = P99_AMID_TESTS if scale is Scale.SMALL else P99
        failures += [f"{store}: {problem}" for problem in seen.problems(bound)]
        said.append(f"{store}: last start {seen.last:.1f} s, {seen.requests} requests, p99 {seen.p99 * 1000:.0f} ms")
    return Result({"schedules": count, "stores": len(stores)}, "; ".join(said), tuple(failures))


@dataclass(frozen=True, slots=True)
class _Seen:
    count: int
    times: Counter[str]
    last: float
    latencies: list[float]
    refused: int

    @property
    def requests(self) -> int:
        return len(self.latencies)

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.latencies, n=100)[98] if len(self.latencies) > 1 else 0.0

    def problems(self, bound: float) -> list[str]:
        found = []
        if len(self.times) < self.count:
            found.append(f"{self.count - len(self.times):,} of {self.count:,} did not run within {PATIENCE:g} s")
        if repeated := [name for name, times in self.times.items() if times > 1]:
            found.append(f"{len(repeated):,} ran more than once, {repeated[0]} among them")
        if self.last > LAST_START:
            found.append(f"the last one started after {self.last:.1f} s")
        if self.p99 > bound:
            found.append(f"a client's p99 was {self.p99 * 1000:.0f} ms")
        if self.refused:
            found.append(f"{self.refused} requests of the client got no answer")
        return found


@contextmanager
def _url(store: str, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield str(folder / "store.db")
        return
    with running_postgres() as url:
        yield url


def _run(url: str, folder: Path, count: int, tell: Tell) -> _Seen:
    experiment = Experiment(url, folder, lease=10.0, server_threads=THREADS)
    with experiment.running(0):
        instant = now() + int((2 + count / CREATED_A_SECOND) * SECOND)
        _create(url, count, instant, tell)
        client = _Client(experiment)
        wait_until(instant - 2 * SECOND)
        client.start()
        instant = max(instant, now())
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and (ran := _lines(experiment.effects)) < count:
            tell(f"{ran:,} of {count:,} began")
            wait(0.2)
        client.stop()
    begun = [line.split() for line in experiment.effects.read_text(encoding="utf-8").splitlines()]
    last = max((int(at) for *_, at in begun), default=instant)
    times = Counter(name for _, name, _ in begun)
    return _Seen(count, times, (last - instant) / SECOND, client.latencies, client.refused)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _create(url: str, count: int, instant: int, tell: Tell) -> None:
    """Create the schedules in bulk, directly in the store: creation is not measured here."""
    trigger = trigger_to_json(OnceTrigger(timezone="UTC", at=Instant(instant)))
    payload, policy, created = '{"task":"stamp","args":[],"kwargs":{}}', '{"grace":31536000000000}', Instant(now())
    store = open_store(url)
    try:
        for begin in range(0, count, CHUNK):
            drafts = [
                Draft(
                    Definition(
                        ScheduleId(0), f"job_{{id}}_{number}", "job", "local", f"one of many {number}", "stamp",
                        trigger, payload, policy, 0, 1, f"~{number:09}", "", created, created,
                    ),
                    Instant(instant),
                )
                for number in range(begin, min(count, begin + CHUNK))
            ]  # fmt: skip
            store.create(drafts)
            tell(f"{begin + len(drafts):,} of {count:,} created")
    finally:
        store.close()


@dataclass
class _Client:
    """A client that looks at lists and creates schedules, five times a second."""

    experiment: Experiment
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        for number in range(4):
            self._request(number)  # the first ones load what a server loads once
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        number = 0
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._request(number)
            except Unanswered:
                self.refused += 1
            took = time.monotonic() - began
            self.latencies.append(took)
            number += 1
            self._over.wait(max(0.0, 1 / REQUESTS_A_SECOND - took))

    def _request(self, number: int) -> None:
        trigger = {"type": "once", "run_at": "in 2 hours"}
        new = {"kind": "job", "name": f"client {number}", "trigger": trigger, "payload": {"task": "stamp"}}
        asked = (("GET", "/schedules"), ("GET", "/runs"), ("POST", "/schedules"), ("GET", "/upcoming"))
        method, path = asked[number % len(asked)]
        self.experiment.ask(method, path, new if method == "POST" else None)
