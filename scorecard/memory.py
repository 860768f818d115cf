"""The memory of one worker over a million runs, on both stores, while old history is trimmed to its limit in bytes.

`python -m scorecard.memory STORE RUNS` follows one store, `sqlite` or `postgres`, and prints each sample; with `trace`
after that also what was allocated since the one before.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from duetime.app import App, build
from duetime.engine.clock import HOUR, SECOND
from duetime.engine.kind import LOCAL
from duetime.engine.policy.rows import Draft
from duetime.settings import Settings
from duetime.stores.base import BaseStore
from scorecard.experiment import ROOT, wait
from scorecard.line import Result, Scale, Tell, about
from tests.support.drafts import every, once
from tests.support.postgres import running_postgres
from tests.support.shell import write

SAMPLES = 20
"""How often the memory is measured; the second half of them is judged."""
BATCH = 5_000
AHEAD = 30_000
"""Jobs that are due, or soon will be."""
RECURRING = 50
"""Schedules that fire each second beside those that fire once."""
MOST_GROWTH = {Scale.FULL: 10, Scale.TENTH: 40, Scale.SMALL: 200}
"""Megabytes. Caches fill up during the first hundred thousand runs."""
STORED = 500_000
"""Bytes of history that an owner may have."""
STUCK = 30.0
ADA = "ada"
"""An owner with a limit: the history of the operator's own schedules has none, and a worker that has only the
operator's work carries it out fastest."""
OF_ADA = 200
"""Her jobs between two samples."""


class Followed(NamedTuple):
    """The result on one store."""

    samples: Sequence[int]
    trimmed: int
    """Runs that were deleted because the history was too large."""

    @property
    def growth(self) -> int:
        return self.samples[-1] - self.samples[len(self.samples) // 2]


def measure(scale: Scale, tell: Tell) -> Result:
    """Follow one worker on each store."""
    runs, stored = scale.of(1_000_000, 2_000), STORED if scale is not Scale.SMALL else 100_000
    stores = ("sqlite",) if scale is Scale.SMALL else ("sqlite", "postgres")
    shown, failures = [], []
    for store in stores:
        followed = follow(store, runs, stored, about(store, tell))
        shown.append(
            f"{store}: {followed.samples[-1] / 1e6:.0f} MB at the end, {followed.growth / 1e6:+.1f} MB in the second"
            f" half, {followed.trimmed:,} runs trimmed"
        )
        if followed.growth >= MOST_GROWTH[scale] * 1e6:
            failures.append(f"{store}: the memory grew by {followed.growth / 1e6:.1f} MB in the second half")
        if not followed.trimmed:
            failures.append(f"{store}: no history was trimmed")
    return Result({"runs": runs, "stores": len(stores)}, "; ".join(shown), tuple(failures))


def follow(store: str, runs: int, stored: int, tell: Tell, *options: str) -> Followed:
    """Let one worker carry out so many runs; measure its memory at regular intervals."""
    with tempfile.TemporaryDirectory() as folder, _url(store, Path(folder)) as url:
        app = build(Settings(db=url, timezone="UTC"))
        command = [sys.executable, "-m", "scorecard.memory_child", url, str(stored), *options]
        try:
            with subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as worker:
                try:
                    return _Follower(app, worker, tell).follow(runs)
                finally:
                    worker.kill()
        finally:
            app.close()


class _Follower:
    def __init__(self, app: App, worker: subprocess.Popen[str], tell: Tell) -> None:
        self._app, self._worker, self._tell = app, worker, tell
        assert isinstance(app.store, BaseStore)
        self._base = app.store
        self._made = self._aged = self._counted = 0

    def follow(self, runs: int) -> Followed:
        self._recur()
        samples = []
        for number in range(1, SAMPLES + 1):
            while (done := self._done()) < runs * number // SAMPLES:
                if self._made - done < AHEAD:
                    self._create(min(BATCH, max(100, runs // SAMPLES)))
                wait(0.05)
            self._create(OF_ADA, ADA)
            samples.append(self._memory())
            self._age()
            self._tell(f"{done:,} of {runs:,} runs, {samples[-1] / 1e6:.1f} MB")
        last = self._await_trimming()
        return Followed(samples, last)

    def _recur(self) -> None:
        now = self._app.clock.now()
        self._store([every(SECOND, now, created=now, **_job(1)) for _ in range(RECURRING)])

    def _create(self, count: int, owner: str = LOCAL) -> None:
        """Create jobs that are due soon, each with a trigger, an input and a name of its own. They are given to the
        store directly, because only the worker is measured."""
        now = self._app.clock.now()
        soon = now + SECOND
        numbers = range(self._made, self._made + count)
        self._store([once(soon + number, created=now, grace=HOUR, **_job(number, owner)) for number in numbers])
        self._made += count

    def _store(self, drafts: list[Draft]) -> None:
        self._app.store.create(drafts)

    def _done(self) -> int:
        """Return how many jobs that fire once are no longer in the queue."""
        ((left,),) = self._base._rows("SELECT count(*) FROM due", ())
        return self._made - max(0, int(left) - RECURRING)

    def _memory(self) -> int:
        assert self._worker.stdin is not None and self._worker.stdout is not None
        self._worker.stdin.write("\n")
        self._worker.stdin.flush()
        told = json.loads(self._worker.stdout.readline())
        assert not told["failure"], told
        memory: int = told["memory"]
        return memory

    def _age(self) -> None:
        """Make what has ended so far look as if it had ended two hours ago: what ended just now is never trimmed."""
        ((newest,),) = self._base._rows("SELECT max(id) FROM runs", ())
        ((added,),) = self._base._rows("SELECT count(*) FROM runs WHERE id > ? AND id <= ?", (self._aged, newest))
        self._counted += added
        write(
            self._base,
            "UPDATE runs SET finished = finished - ? WHERE id > ? AND id <= ? AND finished IS NOT NULL",
            2 * HOUR, self._aged, newest,
        )  # fmt: skip
        self._aged = newest

    def _await_trimming(self) -> int:
        """Carry out what is left, so that the history is too large however fast the jobs before it ended. Return how
        many runs are gone, as soon as there are some."""
        deadline = time.monotonic() + STUCK
        while self._done() < self._made and time.monotonic() < deadline:
            wait(0.05)
        self._age()
        while time.monotonic() < deadline:
            ((left,),) = self._base._rows("SELECT count(*) FROM runs WHERE id <= ?", (self._aged,))
            if left < self._counted:
                return int(self._counted - left)
            wait(0.2)
        return 0


@contextmanager
def _url(store: str, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield str(folder / "store.db")
        return
    with running_postgres() as url:
        yield url


def _job(number: int, owner: str = LOCAL) -> dict[str, Any]:
    payload = f'{{"task":"work","args":[{number}],"kwargs":{{}}}}'
    return {
        "owner": owner,
        "name": f"job {number}",
        "subject": "work",
        "payload": payload,
        "key": f"key {uuid.uuid4()}",
    }


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    seen = follow(sys.argv[1], int(sys.argv[2]), STORED, print, *sys.argv[3:])
    print(f"{seen.growth / 1e6:+.1f} MB in the second half; {seen.trimmed:,} runs trimmed")
