"""What the pages cost beside a hundred times as many schedules, each with a week of history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import pytest

from tests.support.chromium import chromium
from tests.support.page_costs import BOUND, FEW, MANY, PAGES, Cost, Dashboard, dashboard

SLACK = 0.02
"""Seconds of the processor that are not worth a failure: what a busy machine adds to a short measurement."""
SLACKS = {"/dead-letters": 0.06}
"""The same for a page that reads more: here, there are a hundred times as many dead letters."""
PAINT_SLACK = 0.1
"""Seconds until the first paint that are not worth a failure: a browser draws in several processes."""
LOADS = 20
"""Loads of a page at most: the best of them counts, since others may use the machine."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Dashboard]]:
    folder = tmp_path_factory.mktemp("cost")
    with ExitStack() as stack:
        yield [stack.enter_context(dashboard(folder, count)) for count in (FEW, MANY)]


def test_a_page_costs_little_more_beside_a_hundred_times_as_much(servers: list[Dashboard]) -> None:
    for path in PAGES:
        for server in servers:
            server.ask(path)  # templates are compiled once
        costs = [[server.ask(path) for server in servers] for _ in range(5)]
        few, many = (
            Cost(median(c.seconds for c in each), max(c.size for c in each)) for each in zip(*costs, strict=True)
        )
        assert many.size <= BOUND * few.size, (path, few, many)
        assert many.seconds <= BOUND * few.seconds + SLACKS.get(path, SLACK), (path, few, many)


def test_a_page_is_painted_little_later_beside_a_hundred_times_as_much(servers: list[Dashboard]) -> None:
    """`make bench-paint` measures how soon, which only means something on a quiet machine."""
    with chromium() as browser:
        pages = [server.sign_in(browser) for server in servers]
        for path in PAGES:
            few = many = float("inf")
            for _ in range(LOADS):
                few, many = (
                    min(best, server.paint(page, path))
                    for best, server, page in zip((few, many), servers, pages, strict=True)
                )
                if many <= BOUND * few + PAINT_SLACK:
                    break
            assert many <= BOUND * few + PAINT_SLACK, (path, few, many)
