"""A worker whose tasks run on a cluster, in a process that a test kills: `python -m` with its settings as JSON."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading

from duetime.app import build
from duetime.settings import ExecutorSettings, Settings
from tests.support import cluster_tasks


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    given, stop = json.loads(sys.argv[1]), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = Settings(
        db=given["url"],
        timezone="UTC",
        lease=2.0,
        executors={"cluster": ExecutorSettings(given["type"], given["address"])},
        max_schedules=100_000,
    )
    app = build(settings, registry=cluster_tasks.registry)
    engine = app.engine()
    engine.start()
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    while not stop.wait(0.05) and engine.failure is None:
        pass
    engine.stop(5)
    app.close()


if __name__ == "__main__":
    main()
