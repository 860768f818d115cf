"""A burst through the public Python API: jobs that one process has created, and that another one runs, which has just
started. `python -m bench.python_api URL JOBS` is the latter."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from duetime import Duetime, task

SECONDS_PER_JOB = 0.0025
"""Seconds after which a job is due, for each that is created: more than a create takes."""
_executed: list[None] = []


@task
def noop() -> None:
    """Do nothing."""
    _executed.append(None)


def measure_python_api(url: str, jobs: int) -> dict[str, Any]:
    """Create jobs, wait until they are due, and measure another process from the start of its worker until all are
    recorded. It has opened the store before, as a peer has."""
    from bench.burst import COUNTED, completed, durability

    due = datetime.now(UTC) + timedelta(seconds=2 + jobs * SECONDS_PER_JOB)
    client = Duetime(url)
    try:
        for _ in range(jobs):
            client.schedule(noop, at=due)
        time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
        command = [sys.executable, "-m", "bench.python_api", url, str(jobs)]
        took = float(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        assert completed(client.app) == min(jobs, COUNTED)
    finally:
        client.close()
    return {"rate": jobs / took, "durability": durability(url)}


def main(url: str, jobs: str) -> None:
    """Run a worker until all jobs are recorded, in a process that does nothing else, as a peer's consumer."""
    duetime = Duetime(url)
    began = time.perf_counter()
    threading.Thread(target=_stop_at_the_end, args=(duetime, int(jobs), began), daemon=True).start()
    duetime.run_forever()
    duetime.close()


def _stop_at_the_end(duetime: Duetime, jobs: int, began: float) -> None:
    while len(_executed) < jobs:
        time.sleep(0.005)
    while duetime.history(limit=1, status="live"):
        time.sleep(0.005)
    print(json.dumps(time.perf_counter() - began), flush=True)
    duetime.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
