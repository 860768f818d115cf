"""One server for all tests that do not harm it: every agent that asks for none is an owner of its own. And a browser
for each file of tests, signed in to the server of that file, which is its fixture `served`."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.support.agency import Agency, agency
from tests.support.agents import Served
from tests.support.chromium import DESK, ZONE, Complaints, chromium, sign_in
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def viewport() -> ViewportSize:
    return DESK


@pytest.fixture(scope="module")
def context(browser: Browser, served: Served, viewport: ViewportSize) -> Iterator[BrowserContext]:
    with browser.new_context(viewport=viewport, timezone_id=ZONE, locale="en-GB") as opened:
        page = opened.new_page()
        sign_in(page, served)
        page.close()
        yield opened


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    complaints = Complaints(context)
    opened = context.new_page()
    yield opened
    opened.close()
    assert complaints.found == []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LATENCIES:
        terminalreporter.write_line(
            f"{len(LATENCIES)} changes were heard of by subscribers after {median(LATENCIES):.2f} s (median), "
            f"{max(LATENCIES):.2f} s (longest)"
        )
