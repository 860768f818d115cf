"""`python -m bench.history`: claims and pages of the history beside 10,000,000 runs on PostgreSQL, compared with those
beside 100,000; how fast old history is deleted; and a migration of the large store while a worker uses it.

Both stores are asked in turn, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg

from duetime.engine.clock import HOUR, Instant, SystemClock
from duetime.engine.model import ScheduleId
from duetime.engine.store import RunQuery
from duetime.engine.worker.threads import TIDY_PAUSE
from duetime.stores.postgres.store import PostgresStore
from tests.support.drafts import once
from tests.support.filling import OWNER, fill_runs
from tests.support.hand import Hand, create
from tests.support.postgres import empty_database, server_url
from tests.support.versions import ADDED, migrate_with, newer_version
from tests.support.workers import crew, eventually

BOUND = 1.5
"""Maximum cost beside the larger number, as a multiple of that beside the smaller."""
FLOOR = 0.005
"""Seconds below which two costs are equal: what is so small differs by chance."""
BATCH, ROUNDS = 200, 40
LONGEST_GAP = 5.0
"""Maximum number of seconds between two runs of the worker while the store is migrated."""
PAGES: Mapping[str, RunQuery] = {
    "the newest runs": RunQuery(limit=50),
    "those of an owner": RunQuery(limit=50, owner=OWNER),
    "those of a schedule": RunQuery(limit=50, schedule=ScheduleId(7)),
    "those in progress": RunQuery(limit=50, status="running"),
}


class Filled:
    """A store with a history, and a worker that is moved by hand."""

    def __init__(self, url: str, runs: int) -> None:
        self.url, self.now = url, SystemClock().now()
        began = time.monotonic()
        fill_runs(url, runs, self.now)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT setval('run_ids', %s)", (runs + 1,))
        print(f"{runs:,} runs were stored in {time.monotonic() - began:.0f} s", flush=True)
        self.store = PostgresStore(url)
        self.hand = Hand(self.store, now=self.now)

    def claim(self) -> None:
        """Claim a batch of one-offs and record it."""
        self.hand.record(self.hand.claim(self.now, limit=BATCH), self.now)

    def add(self) -> None:
        create(self.store, *(once(self.now, created=self.now) for _ in range(BATCH)))


class Costs(NamedTuple):
    name: str
    small: float
    large: float

    @property
    def is_within_bound(self) -> bool:
        return self.large <= BOUND * max(self.small, FLOOR)

    def __str__(self) -> str:
        verdict = "" if self.is_within_bound else f": more than {BOUND} times as much"
        return f"{self.name:24} {self.small * 1000:8.1f} ms {self.large * 1000:8.1f} ms{verdict}"


def seconds_of(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def compare(small: Filled, large: Filled) -> list[Costs]:
    """Return the least of each cost on both stores: other work of the machine makes a try longer, never shorter."""
    taken: dict[str, tuple[list[float], list[float]]] = {
        name: ([], []) for name in (f"claim and record {BATCH}", *PAGES)
    }
    for _ in range(ROUNDS):
        for place, filled in enumerate((small, large)):
            filled.add()
            taken[f"claim and record {BATCH}"][place].append(seconds_of(filled.claim))
            for name, query in PAGES.items():
                taken[name][place].append(seconds_of(partial(filled.store.runs, query)))
    return [Costs(name, min(small), min(large)) for name, (small, large) in taken.items()]


def deletion_rate(filled: Filled, batch: int, rounds: int = 10) -> float:
    """Return how many old runs a worker deletes in a second, with its pauses."""
    before = Instant(filled.now - HOUR)
    begun, deleted = time.perf_counter(), 0
    for _ in range(rounds):
        deleted += filled.store.prune(before, batch)
    return deleted / (time.perf_counter() - begun + rounds * TIDY_PAUSE)


def migrate_beside_a_worker(url: str, folder: Path) -> tuple[float, float]:
    """Migrate the store with a newer version while a worker runs a job every tenth of a second; return the seconds that
    the migration took and the longest time between two runs."""
    with crew(url, folder, lease=10.0) as team:
        newer = newer_version(folder / "newer", team.app.store.known_schema, ADDED)
        team.start(1)
        team.add("mark", ["first"])
        eventually(lambda: team.events("ran"), 30, "the worker runs")
        ends: list[float] = []
        done = threading.Event()

        def has_run(number: int) -> bool:
            return len(team.events("ran")) > number

        def keep_busy() -> None:
            number = 0
            while not done.wait(0.1):
                number += 1
                team.add("mark", [f"k{number}"])
                eventually(partial(has_run, number), 60, "it is run")
                ends.append(time.monotonic())

        thread = threading.Thread(target=keep_busy)
        thread.start()
        took = seconds_of(lambda: migrate_with(newer, url, folder))
        threading.Event().wait(2.0)
        done.set()
        thread.join()
        return took, max(later - earlier for earlier, later in pairwise(ends))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--beside", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server_url() as server, ExitStack() as stack:
        small, large = (
            Filled(stack.enter_context(empty_database(server)), runs) for runs in (given.beside, given.runs)
        )
        costs = compare(small, large)
        print(f"{'':24} {given.beside:>11,} {given.runs:>11,}")
        print(*costs, sep="\n", flush=True)
        for batch in (200, large.store.tidy_batch):
            print(f"old runs deleted in batches of {batch:,}: {deletion_rate(large, batch):,.0f} a second", flush=True)
        took, gap = migrate_beside_a_worker(large.url, Path(folder))
        print(f"migrated in {took:.1f} s; longest time between two runs meanwhile {gap:.1f} s")
        for filled in (small, large):
            filled.store.close()
    return 0 if all(cost.is_within_bound for cost in costs) and gap < LONGEST_GAP else 1


if __name__ == "__main__":
    sys.exit(main())
