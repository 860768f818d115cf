"""`python -m bench`: durable no-op jobs a second on each store, beside ever more other schedules, and lateness."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.burst import Burst, measure_burst
from bench.lateness import measure_lateness
from bench.peers import measure_peers
from bench.scene import Scene
from tests.support.postgres import empty_database, running_postgres

BOUNDS = {"sqlite": 1.5, "postgres": 2.5}
"""Maximum cost of a job beside a million other schedules, as a multiple of its cost beside none."""


def main() -> int:
    options = _options()
    failed = False
    for store in options.stores:
        print(f"\n== {store}")
        with _urls(store) as url_of:
            bursts = [measure_burst(url_of, options.jobs, others, options.rounds) for others in options.others]
            failed |= not _print_bursts(store, bursts)
            _print_owners(url_of, options.jobs, options.owners, options.rounds)
            _print_lateness(url_of, options.rate, options.seconds)
    if options.peers:
        _print_peers(options.jobs)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    parser.add_argument("--stores", type=_words, default=["sqlite", "postgres"], help="sqlite,postgres")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs in a burst")
    parser.add_argument("--others", type=_numbers, default=[0, 100_000, 1_000_000], help="further schedules")
    parser.add_argument("--owners", type=_numbers, default=[1, 1000], help="owners among whom a burst is divided")
    parser.add_argument("--rounds", type=int, default=3, help="bursts per line; the median counts")
    parser.add_argument("--rate", type=int, default=200, help="starts a second for the lateness")
    parser.add_argument("--seconds", type=int, default=10, help="how long the lateness is measured")
    parser.add_argument("--peers", action="store_true", help="also other schedulers, where they are installed")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    words = text.split(",")
    if not set(words) <= set(BOUNDS):
        raise argparse.ArgumentTypeError(f"{text}: choose from {', '.join(BOUNDS)}")
    return words


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


@contextmanager
def _urls(store: str) -> Iterator[Scene]:
    """Yield a scene that gives every measurement a new, empty store."""
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        if store == "sqlite":
            yield Scene(lambda number: str(Path(folder) / f"{number}.db"))
            return
        with running_postgres() as server, ExitStack() as databases:
            yield Scene(lambda _: databases.enter_context(empty_database(server)))


def _print_bursts(store: str, bursts: list[Burst]) -> bool:
    base = bursts[0]
    print(f"{'others':>10} {'jobs/s':>9} {'µs/job':>8} {'cost':>7}   create/s of the others")
    for burst in bursts:
        ratio = burst.seconds_per_job / base.seconds_per_job
        made = f"{burst.created_per_second:,.0f}" if burst.others else "-"
        print(
            f"{burst.others:>10,} {1 / burst.seconds_per_job:>9,.0f} {burst.seconds_per_job * 1e6:>8.1f}"
            f" {ratio:>6.2f}x   {made}"
        )
    worst = bursts[-1].seconds_per_job / base.seconds_per_job
    held = worst <= BOUNDS[store]
    print(f"beside {bursts[-1].others:,} others: {worst:.2f}x, bound {BOUNDS[store]}x: {'held' if held else 'BROKEN'}")
    return held


def _print_owners(scene: Scene, jobs: int, owners: list[int], rounds: int) -> None:
    base = 0.0
    for number in owners:
        cost = measure_burst(scene, jobs, 0, rounds, number).seconds_per_job
        base = base or cost
        print(f"{number:>10,} owners {1 / cost:>9,.0f} jobs/s {cost * 1e6:>8.1f} µs/job {cost / base:>6.2f}x")


def _print_lateness(scene: Scene, rate: int, seconds: int) -> None:
    late = measure_lateness(scene, rate, seconds)
    print(f"start minus due at {rate}/s: p50 {late.p50:.2f} ms, p99 {late.p99:.2f} ms, worst {late.worst:.2f} ms")


def _print_peers(jobs: int) -> None:
    print("\n== peers, the same no-op on SQLite, in this run")
    for peer in measure_peers(min(jobs, 4000)):
        print(f"{peer.name:>12} {peer.result}")


if __name__ == "__main__":
    sys.exit(main())
