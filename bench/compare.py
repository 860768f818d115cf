"""`python -m bench.compare OTHER`: this checkout beside another one, in alternating runs of the same benchmark.

Absolute figures swing with the machine, so both are measured in turn and their medians are compared. The other checkout
is a folder, such as one made by `git worktree add ../before v1`; it runs its own `bench` on its own sources.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SLOWER_AT_MOST = 1.10
"""The largest ratio, this checkout to the other, that counts as no slower."""

BURST = re.compile(r"^ +0 +[\d,]+ +([\d.]+) ", re.MULTILINE)
LATENESS = re.compile(r"p50 ([\d.]+) ms, p99 ([\d.]+) ms")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: microseconds per job of a burst, and milliseconds from due to start."""

    burst: float
    p50: float
    p99: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout of the project")
    parser.add_argument("--runs", type=int, default=5, help="runs of each; the medians are compared")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--stores", default="sqlite,postgres")
    options = parser.parse_args()
    held = [_compare(store, options) for store in options.stores.split(",")]
    return 0 if all(held) else 1


def _compare(store: str, options: argparse.Namespace) -> bool:
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for number in range(options.runs):
        order = ((HERE, ours), (options.other, theirs))
        for folder, samples in order if number % 2 else reversed(order):
            samples.append(_sample(folder, store, options.jobs))
            print(f"  {store} {number + 1}/{options.runs} {folder.name}: {samples[-1]}", flush=True)
    print(f"\n== {store}: medians of {options.runs}, this checkout beside {options.other}")
    verdicts = [_verdict(name, ours, theirs) for name in Sample.__dataclass_fields__]
    return all(verdicts)


def _sample(folder: Path, store: str, jobs: int) -> Sample:
    command = [sys.executable, "-m", "bench", "--stores", store, "--others", "0", "--rounds", "3", "--jobs", str(jobs)]
    done = subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False)
    burst, late = BURST.search(done.stdout), LATENESS.search(done.stdout)
    if burst is None or late is None:
        raise SystemExit(f"the benchmark in {folder} printed no figures:\n{done.stdout}{done.stderr}")
    return Sample(float(burst[1]), float(late[1]), float(late[2]))


def _environment(folder: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "src")}


def _verdict(name: str, ours: list[Sample], theirs: list[Sample]) -> bool:
    mine, other = (statistics.median(getattr(sample, name) for sample in samples) for samples in (ours, theirs))
    held: bool = mine <= other * SLOWER_AT_MOST
    print(f"{name:>6}: {mine:8.2f} beside {other:8.2f}: {mine / other:5.2f}x {'held' if held else 'BROKEN'}")
    return held


if __name__ == "__main__":
    sys.exit(main())
