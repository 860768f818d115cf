"""One server for all tests that do not harm it: every agent that asks for none is an owner of its own."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest

from tests.support.agency import Agency, agency
from tests.support.mcp import LATENCIES, World, world


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="session")
def shared_agency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agency]:
    """A further one, whose settings name agents."""
    with agency(tmp_path_factory.mktemp("agency")) as made:
        yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LATENCIES:
        terminalreporter.write_line(
            f"{len(LATENCIES)} changes were heard of by subscribers after {median(LATENCIES):.2f} s (median), "
            f"{max(LATENCIES):.2f} s (longest)"
        )
