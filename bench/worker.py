"""A worker in a process of its own. It says `ready`, starts at the line `go`, and prints what it measured as JSON.

With `due`, it ends when nothing that was due at that instant is left; otherwise it ends when its input does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from bench.scene import Tasks, open_app
from duetime.app import App
from duetime.engine.clock import Instant
from duetime.engine.worker.threads import Engine


class Worker:
    """The process, as its parent sees it."""

    def __init__(self, url: str, threads: int, due: Instant | None) -> None:
        options = json.dumps({"url": url, "threads": threads, "due": due})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"a worker ended with {self._process.wait(10)}")
        return line

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """Close its input and return what it measured."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        measured: dict[str, Any] = json.loads(self.read())
        self._process.wait(30)
        return measured

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def workers(url: str, count: int, threads: int, due: Instant | None = None) -> Iterator[Sequence[Worker]]:
    """Yield workers that are ready to start."""
    started = [Worker(url, threads, due) for _ in range(count)]
    try:
        for each in started:
            each.read()
        yield started
    finally:
        for each in started:
            each.close()


def main(url: str, threads: int, due: int | None) -> None:
    tasks = Tasks()
    app = open_app(url, tasks.registry(), threads)
    engine = app.engine()
    with _relaxed_collector():
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        engine.start()
        if due is None:
            print("started", flush=True)
            sys.stdin.read()
        else:
            while not _idle(app, engine, Instant(due)):
                assert engine.failure is None, engine.failure
                time.sleep(0.005)
        ended = time.monotonic()
        assert engine.stop() == 0
    app.close()
    print(json.dumps({"began": began, "ended": ended, "late": tasks.late}), flush=True)


def _relaxed_collector() -> AbstractContextManager[None]:
    """Do as the command `duetime worker` of the measured checkout does, which may be an older one."""
    try:
        from duetime.processes.memory import relaxed_collector
    except ImportError:
        command = import_module("duetime.cli.serve.worker")
        getattr(command, "relax_collector", lambda: None)()
        return nullcontext()
    return relaxed_collector()


def _idle(app: App, engine: Engine, due: Instant) -> bool:
    """Return whether nothing that was due is left, neither in this worker nor in the queue, which is asked only if the
    worker holds nothing for longer than between two claims: asking it more often would be part of what is measured."""
    for _ in range(3):
        if engine.worker.claimed:
            return False
        time.sleep(0.001)
    entry = app.store.earliest(engine.worker.lanes)
    return (entry is None or entry.at > due) and not engine.worker.claimed


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
