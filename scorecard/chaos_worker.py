"""A worker process of an experiment, whose wall clock can be set from outside. Nothing of Duetime is imported until
the process begins, so that whoever starts it stays independent.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duetime.app import App
    from duetime.engine.worker.threads import Engine
    from duetime.settings import Settings

PRELOADED = ["duetime.app", "duetime.engine.worker.threads", "scorecard.chaos_tasks"]
"""Imported once, before processes are forked."""


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    url: str
    effects: str
    log: str
    shift: str
    """A file that holds by how many microseconds its wall clock is wrong."""
    lease: float
    threads: int


def main(order: WorkerOrder) -> None:
    """Work until SIGTERM. Exit code 3 says that the worker gave up by itself."""
    os.environ["SCORECARD_EFFECTS"] = order.effects
    logging.basicConfig(filename=order.log, level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    _shift_clock(Path(order.shift))
    from duetime.settings import Settings

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = Settings(
        db=order.url,
        timezone="UTC",
        tasks=("scorecard.chaos_tasks",),
        lease=order.lease,
        threads=order.threads,
        drain=2.0,
    )
    app, engine = _started(settings, stop)
    while not stop.wait(0.05) and engine.failure is None:
        pass
    failed = engine.failure is not None
    engine.stop(settings.drain)
    app.close()
    sys.exit(3 if failed else 0)


def _started(settings: Settings, stop: threading.Event) -> tuple[App, Engine]:
    """Try again while the store is unavailable, as whatever keeps a service running does."""
    from duetime.app import build
    from duetime.engine.errors import StoreUnavailable

    while True:
        app = None
        try:
            app = build(settings)
            engine = app.engine()
            engine.start()
            return app, engine
        except StoreUnavailable:
            if app is not None:
                app.close()
            stop.wait(0.2)


def _shift_clock(path: Path) -> None:
    """Set the system clock as this process reads it; it stays a system clock in every other respect."""
    from duetime.engine.clock import Instant, SystemClock

    with path.open("rb") as file:
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    true_now = SystemClock.now

    def now(clock: SystemClock) -> Instant:
        return Instant(true_now(clock) + struct.unpack("q", shared[:8])[0])

    setattr(SystemClock, "now", now)  # noqa: B010 - mypy refuses a plain assignment to a method
