"""`python -m bench.lists`: what the first pages of lists cost beside a million schedules and runs, on SQLite.

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

from duetime.app import build, web
from duetime.engine.clock import HOUR
from duetime.engine.model import LEASE
from duetime.security.tokens import Tokens
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from tests.support.filling import OWNER, fill

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


class Server:
    """The whole application in this process, with a token."""

    def __init__(self, folder: Path, count: int) -> None:
        self.app = build(Settings(db=str(folder / f"{count}.db"), timezone="UTC"), tasks=False)
        now = self.app.clock.now()
        assert isinstance(self.app.store, SqliteStore)
        fill(self.app.store, count, now)
        self.app.store.register("bench", ("job",), False, now, LEASE)
        tokens = Tokens(b"x" * 64, folder / "auth", self.app.clock, issuer="duetime", audience="duetime")
        headers = {"Authorization": f"Bearer {tokens.issue(OWNER, HOUR)}"}
        self._client = TestClient(web(self.app, tokens), base_url="http://localhost", headers=headers)

    def ask(self, path: str) -> float:
        began = time.perf_counter()
        reply = self._client.get(path)
        took = time.perf_counter() - began
        assert reply.status_code == 200, reply.text
        return took


@contextmanager
def serving(folder: Path, count: int) -> Iterator[Server]:
    server = Server(folder, count)
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-lists ARGS=...", description=__doc__)
    parser.add_argument("--few", type=int, default=1_000, help="schedules and runs of the smaller store")
    parser.add_argument("--many", type=int, default=1_000_000, help="of the larger one")
    parser.add_argument("--times", type=int, default=40, help="requests of each sort")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder, ExitStack() as stack:
        few = stack.enter_context(serving(Path(folder), options.few))
        many = stack.enter_context(serving(Path(folder), options.many))
        costs = [measure(few, many, path, options.times) for path in PAGES]
    print(f"{'first page of':<40} {f'{options.few:,}':>12} {f'{options.many:,}':>12}   cost, bound {BOUND:g}x")
    for cost in costs:
        verdict = "held" if cost.ratio <= BOUND else "BROKEN"
        print(f"{cost.path:<40} {cost.few * 1000:>9.2f} ms {cost.many * 1000:>9.2f} ms   {cost.ratio:.2f}x {verdict}")
    return 0 if all(cost.ratio <= BOUND for cost in costs) else 1


if __name__ == "__main__":
    sys.exit(main())
