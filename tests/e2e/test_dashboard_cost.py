"""What the pages cost beside a hundred times as many schedules, each with a week of history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from starlette.testclient import TestClient

from duetime.app import build, web
from duetime.engine.clock import HOUR
from duetime.engine.model import LEASE
from duetime.security.tokens import Tokens
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from tests.support.filling import OWNER, fill_week

FEW, MANY = 100, 10_000
BOUND = 2.0
"""How much more a page may cost, in time of the processor and in size."""
SLACK = 0.02
"""Seconds that are not worth a failure: what a busy machine adds to a short measurement."""
PAGES = ("/", "/schedules", "/schedules?view=all", "/schedules?order=name", "/timeline", "/timeline?span=week")


class Cost(NamedTuple):
    seconds: float
    size: int


@contextmanager
def asking(folder: Path, count: int) -> Iterator[Callable[[str], Cost]]:
    app = build(Settings(db=str(folder / f"{count}.db"), timezone="UTC"), tasks=False)
    now = app.clock.now()
    assert isinstance(app.store, SqliteStore)
    fill_week(app.store, count, now)
    app.store.register("bench", ("job",), False, now, LEASE)
    tokens = Tokens(b"x" * 64, folder / "auth", app.clock, issuer="duetime", audience="duetime")
    headers = {"Authorization": f"Bearer {tokens.issue(OWNER, HOUR)}", "Accept-Encoding": "gzip"}
    client = TestClient(web(app, tokens), base_url="http://localhost", headers=headers)

    def ask(path: str) -> Cost:
        began = time.process_time()
        reply = client.get(path)
        assert reply.status_code == 200, reply.text
        return Cost(time.process_time() - began, int(reply.headers["content-length"]))

    try:
        yield ask
    finally:
        app.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Callable[[str], Cost]]]:
    folder = tmp_path_factory.mktemp("cost")
    with ExitStack() as stack:
        yield [stack.enter_context(asking(folder, count)) for count in (FEW, MANY)]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_costs_little_more_beside_a_hundred_times_as_much(
    servers: list[Callable[[str], Cost]], path: str
) -> None:
    for ask in servers:
        ask(path)  # templates are compiled once
    costs = [[ask(path) for ask in servers] for _ in range(5)]
    few, many = (Cost(median(c.seconds for c in each), max(c.size for c in each)) for each in zip(*costs, strict=True))
    assert many.size <= BOUND * few.size, (few, many)
    assert many.seconds <= BOUND * few.seconds + SLACK, (few, many)
