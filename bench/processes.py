"""Runs programs that take a request and print a result, both as JSON, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
SECONDS = 1800
"""Maximum duration of one measurement."""


class NotMeasured(Exception):
    """A measurement that could not be made; the message says why."""


def run_program(
    command: Sequence[str], measurement: str, request: dict[str, Any], sources: Path | None = None
) -> dict[str, Any]:
    """Return what the program printed. `sources` is the folder from which it imports Duetime."""
    given = json.dumps({"measure": measurement, **request})
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        try:
            done = subprocess.run(
                [*command, given], cwd=ROOT, env=environment(Path(folder), sources), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise NotMeasured(f"{measurement} did not end within {SECONDS} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotMeasured(f"{measurement} failed: {lines[-1] if lines else done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def environment(folder: Path, sources: Path | None = None) -> dict[str, str]:
    """Return an environment without the caller's settings of Duetime."""
    foreign = ("DUETIME_", "QSTASH_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = [str(ROOT)] if sources is None else [str(sources), str(ROOT)]
    places = {"PYTHONPATH": os.pathsep.join(path), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return own | places


def run_duetime(measurement: str, checkout: Path = ROOT, **request: Any) -> dict[str, Any]:
    """Run a measurement of Duetime with the sources of this checkout or of another one."""
    return run_program([sys.executable, "-m", "bench.duetime_program"], measurement, request, checkout / "src")


def say(text: str) -> None:
    """Show progress, on standard error, so that the tables can be redirected."""
    print(f"  {text}", file=sys.stderr, flush=True)


def fsync_milliseconds(count: int = 15) -> float:
    """Return the median duration of writing a block and waiting until it is on the disk."""
    taken = []
    with tempfile.NamedTemporaryFile(prefix="duetime-bench-") as file:
        for _ in range(count):
            began = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return median(taken) * 1000


def busy_percent(seconds: float = 0.2) -> float:
    """Return how much of all processors is in use while no side is measured. Only Linux tells; else 0."""
    if not Path("/proc/stat").exists():
        return 0.0
    before = _processor_ticks()
    time.sleep(seconds)
    idle, total = (after - earlier for earlier, after in zip(before, _processor_ticks(), strict=True))
    return 100 * (1 - idle / total) if total else 0.0


def _processor_ticks() -> tuple[int, int]:
    """Return the idle and all ticks of the processors since the start of the machine."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
