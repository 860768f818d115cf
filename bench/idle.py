"""Costs of a worker and a server that have nothing to do, beside many schedules and beside none. Only on Linux."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.lines import Goal, Line
from bench.processes import ROOT, environment
from bench.sides import Bench
from scorecard.serving import serving

SETTLING = 8.0
"""Seconds from the start of a process to the measurement."""
SHARE = {"worker": Goal(0.2, 0.05, higher=False), "serve": Goal(0.5, 0.2, higher=False)}
MEMORY = Goal(1.2, higher=False)


# -- in the process that measures ------------------------------------------------------------------------------------


def measure_idle(url: str, command: str, seconds: int, windows: int, settling: float) -> dict[str, Any]:
    """Measure several windows of one process, one after the other."""
    with _server(url) if command == "serve" else _worker(url) as pid:
        time.sleep(settling)
        return {"windows": [_window(pid, seconds) for _ in range(windows)]}


def _window(pid: int, seconds: int) -> dict[str, float]:
    """Return the share of a core in percent and the resident memory in megabytes."""
    began, before = time.perf_counter(), _processor_seconds(pid)
    time.sleep(seconds)
    share = (_processor_seconds(pid) - before) / (time.perf_counter() - began) * 100
    return {"share": share, "memory": _resident_megabytes(pid)}


@contextmanager
def _worker(url: str) -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        own = environment(Path(folder), ROOT / "src") | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "duetime", "worker", "--db", url]
        process = subprocess.Popen(command, cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "the worker ended"
            yield process.pid
            assert process.poll() is None, "the worker ended"
        finally:
            process.terminate()
            process.communicate(timeout=30)


@contextmanager
def _server(url: str) -> Iterator[int]:
    with serving("", "--db", url) as server:
        yield server.process.pid
        assert server.alive, server.log


def _processor_seconds(pid: int) -> float:
    """Return the processor time of all threads, which the kernel counts in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel reports no VmRSS")


# -- the workload ----------------------------------------------------------------------------------------------------


def idle(bench: Bench, store: str) -> Iterator[Line]:
    """The share of a core and the resident memory of an idle worker and server."""
    many = bench.stores.filled(store)
    title = f"{bench.sizes.filled:,} schedules"
    seconds = bench.sizes.idle_seconds
    request = {"seconds": seconds, "windows": bench.rounds, "settling": min(SETTLING, seconds)}
    once = replace(bench, rounds=1)
    for command, share in SHARE.items():
        with bench.stores.fresh(store) as none:
            places = {title: many, "none": none} if bench.judged else {title: many}
            sides = [
                bench.duetime("idle", store, name=name, url=url, command=command, **request)
                for name, url in places.items()
            ]
            once.measure(f"idle {command} on {store}", sides)
        for side in sides:
            side.results = [window for result in side.results for window in result["windows"]]
        yield Line(f"idle {command}", store, "% of a core", sides[0].figure("share"), None, share)
        beside = sides[1].figure("memory") if len(sides) == 2 else None
        goal = MEMORY if beside else None
        yield Line(f"idle {command}, memory", store, "MB", sides[0].figure("memory"), beside, goal)
