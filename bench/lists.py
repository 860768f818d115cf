"""`python -m bench.lists`: what the first pages of lists cost beside a million schedules and runs, on SQLite; and how
long the page of runs takes beside a million runs, on both stores.

Both servers are asked in turn, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from starlette.testclient import TestClient

from bench.stores import STORES, Stores
from duetime.app import build, web
from duetime.engine.clock import HOUR, SystemClock
from duetime.engine.model import LEASE
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from tests.support.filling import OWNER, fill, fill_runs
from tests.support.tokens import tokens_with

BOUND = 3.0
"""Maximum cost of a first page beside the larger number, as a multiple of that beside the smaller."""
PAGES = (
    "/schedules",
    "/api/v1/schedules",
    "/api/v1/schedules?kind=prompt",
    "/api/v1/schedules?kind=notification",
    "/api/v1/schedules?order=next",
    "/api/v1/schedules?status=pending",
    "/api/v1/schedules?status=failed",
    "/api/v1/schedules?status=running",
    "/api/v1/runs",
    "/api/v1/runs?status=failed",
    "/api/v1/runs?status=running",
    "/api/v1/runs?kind=notification",
    "/api/v1/dead",
    "/api/v1/inbox",
    "/api/v1/upcoming",
)
WITHIN = 0.3
"""Maximum time of a first page of runs, in seconds."""
RUN_PAGES = (
    "/runs",
    "/runs?status=running",
    "/runs?status=completed",
    "/runs?status=failed",
    "/runs?status=missed",
    "/runs?error=refused",
    "/runs?error=nothing+has+this+text",
    "/runs?task=task+7",
    "/runs?longer_than=1h",
    "/runs?from=1+hour+ago&status=failed",
    "/runs?from=10+days+ago&to=9+days+ago",
    "/runs?to=11+days+ago",
    "/runs?to=11+days+ago&status=completed",
    "/runs?kind=notification",
    "/runs?kind=job&to=9+days+ago",
    "/runs?tagged=nightly",
    "/api/v1/runs?tagged=nightly",
    "/api/v1/runs?to=11+days+ago",
    "/api/v1/runs?to=11+days+ago&status=missed",
    "/api/v1/runs?to=11+days+ago&kind=notification",
    "/api/v1/runs?error=nothing+has+this+text",
)


class Server:
    """The whole application in this process, with a token of an owner and one of an operator."""

    def __init__(self, folder: Path, url: str) -> None:
        self.app = build(Settings(db=url, timezone="UTC"), tasks=False)
        tokens = tokens_with(self.app.store, folder / "auth", self.app.clock)
        self._client = TestClient(web(self.app, tokens), base_url="http://localhost")
        issued = {False: tokens.issue(OWNER, HOUR), True: tokens.issue("root", HOUR, scopes=["operator"])}
        self._headers = {is_operator: {"Authorization": f"Bearer {token}"} for is_operator, token in issued.items()}

    def fill(self, count: int) -> None:
        now = self.app.clock.now()
        assert isinstance(self.app.store, SqliteStore)
        fill(self.app.store, count, now)
        self.app.store.register("bench", ("job",), False, now, LEASE)

    def ask(self, path: str, *, operator: bool = False) -> float:
        began = time.perf_counter()
        reply = self._client.get(path, headers=self._headers[operator])
        took = time.perf_counter() - began
        assert reply.status_code == 200, reply.text
        return took


@contextmanager
def serving(folder: Path, url: str) -> Iterator[Server]:
    server = Server(folder, url)
    try:
        yield server
    finally:
        server.app.close()


class Cost(NamedTuple):
    """Median costs, in seconds."""

    path: str
    few: float
    many: float

    @property
    def ratio(self) -> float:
        return self.many / self.few


def measure(few: Server, many: Server, path: str, times: int) -> Cost:
    for _ in range(5):
        few.ask(path)
        many.ask(path)
    taken = [(few.ask(path), many.ask(path)) for _ in range(times)]
    return Cost(path, *(median(column) for column in zip(*taken, strict=True)))


def compare_pages(folder: Path, few: int, many: int, times: int) -> bool:
    """Print what each page costs beside few and many schedules; return whether all are within the bound."""
    with ExitStack() as stack:
        small, large = (stack.enter_context(serving(folder, str(folder / f"{count}.db"))) for count in (few, many))
        small.fill(few)
        large.fill(many)
        costs = [measure(small, large, path, times) for path in PAGES]
    print(f"{'first page of':<40} {f'{few:,}':>12} {f'{many:,}':>12}   cost, bound {BOUND:g}x")
    for cost in costs:
        verdict = "held" if cost.ratio <= BOUND else "BROKEN"
        print(f"{cost.path:<40} {cost.few * 1000:>9.2f} ms {cost.many * 1000:>9.2f} ms   {cost.ratio:.2f}x {verdict}")
    return all(cost.ratio <= BOUND for cost in costs)


def time_runs(folder: Path, stores: Stores, store: str, count: int, times: int) -> bool:
    """Print how long each page of runs takes its owner and an operator; return whether all are within the bound."""
    with stores.fresh(store) as url:
        fill_runs(url, count, SystemClock().now())
        with serving(folder, url) as server:
            rows = [
                (path, _median(server, path, times), _median(server, path, times, operator=True)) for path in RUN_PAGES
            ]
    print(f"{f'{count:,} runs on {store}':<40} {'owner':>12} {'operator':>12}   bound {WITHIN * 1000:g} ms")
    for path, owner, operator in rows:
        verdict = "held" if max(owner, operator) <= WITHIN else "BROKEN"
        print(f"{path:<40} {owner * 1000:>9.2f} ms {operator * 1000:>9.2f} ms   {verdict}")
    return all(max(owner, operator) <= WITHIN for _, owner, operator in rows)


def _median(server: Server, path: str, times: int, *, operator: bool = False) -> float:
    server.ask(path, operator=operator)
    return median(server.ask(path, operator=operator) for _ in range(times))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-lists ARGS=...", description=__doc__)
    parser.add_argument("--few", type=int, default=1_000, help="schedules and runs of the smaller store")
    parser.add_argument("--many", type=int, default=1_000_000, help="of the larger one")
    parser.add_argument("--times", type=int, default=40, help="requests of each sort")
    parser.add_argument("--only", choices=("pages", "runs"), help="one of the two tables")
    options = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder, Stores(0) as stores:
        if options.only != "runs":
            held = compare_pages(Path(folder), options.few, options.many, options.times)
        for store in STORES if options.only != "pages" else ():
            held &= time_runs(Path(folder), stores, store, options.many, options.times // 2)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
