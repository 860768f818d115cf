"""`python -m bench.compare OTHER`: this checkout beside another one, in alternating runs of the same benchmark.

Absolute figures swing with the machine, so both are measured in turn and their medians are compared. On two shared
cores, the medians of eight bursts of the same commit differed by 14 %, those of thirty by 1 %. The other checkout is a
folder, such as one made by `git worktree add ../before v1`; the benchmark of this one measures its sources.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.processes import ROOT
from bench.sides import Bench, Side, Sizes
from bench.stores import Stores

SLOWER_AT_MOST = 1.10
"""The largest ratio, this checkout to the other, that counts as no slower."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout of the project")
    parser.add_argument("--runs", type=int, default=15, help="runs of each; the medians are compared")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--creates", type=int, default=2_000)
    parser.add_argument("--rate", type=int, default=200, help="starts a second for the lateness")
    parser.add_argument("--seconds", type=int, default=4, help="how long the lateness is measured")
    parser.add_argument("--stores", default="sqlite,postgres")
    options = parser.parse_args()
    checkouts = {"this checkout": ROOT, "the other": options.other.resolve()}
    held = True
    with Stores(0) as stores:
        bench = Bench(stores, Sizes(), options.runs, False, 0)
        for store in options.stores.split(","):
            late = {"rate": options.rate, "seconds": options.seconds, "others": 0}
            for measurement, request, keys in (
                ("burst", {"jobs": options.jobs}, ("cost",)),
                ("create", {"calls": options.creates, "callers": 1, "others": 1_000}, ("cost",)),
                ("lateness", late, ("p50", "p99")),
            ):
                sides = [_side(bench, name, folder, measurement, store, request) for name, folder in checkouts.items()]
                bench.measure(f"{measurement} on {store}", sides)
                held &= _verdicts(store, measurement, keys, sides)
    return 0 if held else 1


def _side(bench: Bench, name: str, folder: Path, measurement: str, store: str, request: dict[str, int]) -> Side:
    return Side(name, lambda: bench.run_duetime(measurement, store, folder, **request))


def _verdicts(store: str, measurement: str, keys: tuple[str, ...], sides: list[Side]) -> bool:
    return False not in [_verdict(store, measurement, key, sides) for key in keys]


def _verdict(store: str, measurement: str, key: str, sides: list[Side]) -> bool:
    for side in sides:
        if side.reason:
            raise SystemExit(f"{side.name} printed no figures: {side.reason}")
    ours, theirs = (side.figure(key).median or 0.0 for side in sides)
    held = ours <= theirs * SLOWER_AT_MOST
    what = f"{store:>8} {measurement:>8} {key:>4}"
    print(f"{what}: {ours:8.2f} beside {theirs:8.2f}: {ours / theirs:5.2f}x {'held' if held else 'BROKEN'}", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main())
