"""The worker whose memory is measured: for each line that it reads, it prints its resident memory in bytes.

`python -m scorecard.memory_child STORE BYTES [trace]` works until its input ends. With `trace`, it prints the lines of
code that allocated most since the line before as well.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import tracemalloc
from pathlib import Path

from duetime.app import build
from duetime.engine.worker import threads
from duetime.kinds.jobs.registry import Registry
from duetime.processes.memory import relaxed_collector
from duetime.settings import Settings

RESULT = "a result of some length, as work has it " * 5


def main(url: str, stored_bytes: int, trace: bool) -> None:
    threads.TIDY_FIRST = threads.TIDY_EVERY = 2.0  # history is trimmed all the time
    registry = Registry()

    @registry.task
    def work(number: int) -> str:
        """Fail at times, with an error of its own."""
        if number % 50 == 0:
            raise ValueError(f"number {number} cannot be used")
        return f"{number}: {RESULT}"

    logging.disable(logging.CRITICAL)  # the failures are intended
    settings = Settings(db=url, timezone="UTC", threads=8, max_schedules=10_000_000, max_stored_bytes=stored_bytes)
    app = build(settings, registry=registry)
    engine = app.engine()
    with relaxed_collector():
        engine.start()
        if trace:
            tracemalloc.start()
        before = None
        for _ in sys.stdin:
            gc.collect()
            print(json.dumps({"memory": resident(), "failure": str(engine.failure or "")}), flush=True)
            if trace:
                now = tracemalloc.take_snapshot()
                if before is not None:
                    print(*now.compare_to(before, "lineno")[:15], sep="\n", file=sys.stderr, flush=True)
                before = now
    engine.stop()
    app.close()


def resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel reports no VmRSS")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), "trace" in sys.argv[3:])
