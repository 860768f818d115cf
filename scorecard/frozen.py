"""Frozen: workers and their children are suspended beyond the lease and go on, when others have their work."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from duetime.app import App, build
from duetime.engine.kind import Caller
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.settings import Settings
from scorecard.experiment import Experiment, Worker, read_effects, wait
from scorecard.history import Execution
from scorecard.line import Result, Scale, Tell
from tests.support.postgres import running_postgres
from tests.support.programs import is_stopped

CALLER = Caller("local", operator=True)
LEASE = 1.0
PAIRS = 5
"""Workers in a round, each with a child."""
HELD = 600.0
"""Seconds that the first attempt of a run would take."""
RESCUE = 30.0
CHILD_ENDS = 0.2
"""Seconds within which a child that goes on has to be gone."""
CHILD_ENDS_AMID_TESTS = 2.0
"""The same where other tests use the processors as well."""


def measure(scale: Scale, tell: Tell) -> Result:
    """Freeze workers and children round by round, on both stores in turn."""
    count = scale.of(100, 4)
    pairs = min(PAIRS, count // 2)
    failures: list[str] = []
    slowest = 0.0
    frozen = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = "" if scale is Scale.SMALL else stack.enter_context(running_postgres())
        for number, url in enumerate(_urls(Path(folder), server)):
            if frozen >= count:
                break
            place = Path(folder) / f"round-{number}"
            place.mkdir(exist_ok=True)
            seen = _Round(url, place, CHILD_ENDS_AMID_TESTS if scale is Scale.SMALL else CHILD_ENDS).play(pairs)
            frozen += 2 * pairs
            slowest = max(slowest, seen.slowest)
            failures += [f"round {number + 1}: {problem}" for problem in seen.problems]
            tell(f"{frozen} of {count} frozen")
    stale = sum("stale" in failure for failure in failures)
    measured = f"stale writes {stale}; the slowest child was gone after {slowest * 1000:.0f} ms"
    return Result({"frozen": frozen, "workers": frozen // 2, "children": frozen // 2}, measured, tuple(failures))


def _urls(folder: Path, server: str) -> Iterator[str]:
    """Yield a new store for each round: a file, or a new schema on the server."""
    number = 0
    while True:
        number += 1
        yield str(folder / f"store-{number}.db")
        if server:
            joined = "&" if "?" in server else "?"
            yield f"{server}{joined}options={quote(f'-csearch_path=frozen_{number}')}"


@dataclass
class _Round:
    url: str
    folder: Path
    bound: float
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def play(self, pairs: int) -> _Round:
        settings = Settings(db=self.url, timezone="UTC", tasks=("scorecard.chaos_tasks",))
        os.environ.setdefault("SCORECARD_EFFECTS", os.devnull)
        app = build(settings)
        experiment = Experiment(self.url, self.folder, lease=LEASE, threads=2)
        experiment.effects.touch()
        sleepers: list[Worker] = []
        children: list[int] = []
        try:
            sleepers = [experiment.start_worker() for _ in range(pairs)]
            children = self._begin(app, experiment, pairs)
            self._freeze(experiment, sleepers, children)
            rescuer = experiment.start_worker()
            sleepers.append(rescuer)
            self._check(app, sleepers[:-1], children, 2 * pairs)
        finally:
            for worker in sleepers:
                worker.end()
            for child in children:
                _signal_group(child, signal.SIGKILL)
            app.close()
        return self

    def _begin(self, app: App, experiment: Experiment, pairs: int) -> list[int]:
        """Give every worker a run in a thread and one in a child; return the children."""
        due = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
        tasks = [("hold", number) for number in range(pairs)] + [("hold_apart", number) for number in range(pairs)]
        made = app.scheduler.create_many(
            CALLER,
            [
                NewSchedule("job", f"{task} {number}", "once", {"run_at": due}, {"task": task, "args": [HELD]})
                for task, number in tasks
            ],
        )
        apart = {one.definition.public_id for one in made if one.definition.subject == "hold_apart"}

        def begun() -> list[Execution]:
            found = read_effects(experiment.effects)
            return found if len(found) == 2 * pairs else []

        found = _eventually(begun, RESCUE, "every run has begun")
        # A run whose worker was not heard of since it began is given back as one that has not begun.
        beats = {worker.id: worker.beat for worker in app.store.workers()}
        heard = lambda: all(worker.beat > beats[worker.id] + 1 for worker in app.store.workers())  # noqa: E731
        _eventually(heard, RESCUE, "the workers have said so")
        return [one.process for one in found if one.schedule in apart]

    def _freeze(self, experiment: Experiment, workers: Sequence[Worker], children: Sequence[int]) -> None:
        """Stop a worker between two writes: if it were stopped within one, nobody else could write."""
        for worker in workers:
            _stop(worker.pid)
            while experiment.is_locked():
                os.kill(worker.pid, signal.SIGCONT)
                wait(0.01)
                _stop(worker.pid)
        for child in children:
            _signal_group(child, signal.SIGSTOP)

    def _check(self, app: App, sleepers: Sequence[Worker], children: Sequence[int], count: int) -> None:
        """When others have done the work, let everybody go on, and see that nothing changes any more."""

        def done() -> list[Run]:
            runs = app.store.runs(RunQuery(limit=1000)).items
            return runs if len(runs) == count and all(run.finished is not None for run in runs) else []

        before = _eventually(done, RESCUE, "others have carried out what the frozen ones held")
        self.problems += [f"run {run.id} is {run.status}: {run.error}" for run in before if run.status != "completed"]
        self._thaw_children(children)
        known = {worker.id for worker in app.store.workers()}
        for worker in sleepers:
            os.kill(worker.pid, signal.SIGCONT)
        anew = len(sleepers)
        _eventually(
            lambda: len({worker.id for worker in app.store.workers()} - known) >= anew, RESCUE, "they register anew"
        )
        wait(0.5)
        after = {run.id: run for run in app.store.runs(RunQuery(limit=1000)).items}
        self.problems += [
            f"stale write: run {run.id} was {run} and is {after.get(run.id)}"
            for run in before
            if after.get(run.id) != run
        ]

    def _thaw_children(self, children: Sequence[int]) -> None:
        left = [child for child in children if _lives(child)]
        began = time.monotonic()
        for child in left:
            _signal_group(child, signal.SIGCONT)
        while left and time.monotonic() - began < 10 * self.bound:
            left = [child for child in left if _lives(child)]
            wait(0.005)
        self.slowest = max(self.slowest, took := time.monotonic() - began)
        if left or took > self.bound:
            self.problems.append(f"children were there {took:.2f} s after they went on: {left}")


def _eventually(ask: Callable[[], Any], seconds: float, what: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        wait(0.02)
    return answer


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    _eventually(lambda: is_stopped(pid), RESCUE, f"process {pid} stands still")


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(os.getpgid(pid), number)
    except ProcessLookupError:
        pass  # it is gone
