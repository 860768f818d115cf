"""Cost of the pages beside few and many schedules with a week of history: processor time, size and first paint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page
from starlette.testclient import TestClient

from duetime.app import build, sign_in_link, web
from duetime.engine.clock import HOUR
from duetime.engine.model import LEASE
from duetime.http.server import HttpServer, listen, url_of
from duetime.processes.memory import relaxed_collector
from duetime.security.tokens import Tokens
from duetime.settings import Settings
from duetime.stores.sqlite.store import SqliteStore
from tests.support.filling import OWNER, fill_week
from tests.support.tokens import tokens_with

FEW, MANY = 100, 10_000
BOUND = 2.0
"""How many times as much a page may cost beside many schedules, in time and in size."""
PATIENCE = 0.3
"""Seconds within which a page is painted."""
PAGES: Final = (
    "/",
    "/schedules",
    "/schedules?view=all",
    "/schedules?order=name",
    "/schedules/job_7",
    "/schedules/job_7/edit",
    "/runs",
    "/runs?status=failed",
    "/runs/7",
    "/timeline",
    "/timeline?span=week",
    "/timeline?span=7d",
    "/inbox",
    "/dead-letters",
    "/settings",
)
OTHER_PAGES: Final = ("/new", "/new?kind=prompt", "/new?kind=notification", "/connect", "/help", "/preferences")
"""Pages that show neither schedules nor runs."""

_PAINTED = "() => performance.getEntriesByType('paint').find(each => each.name == 'first-contentful-paint')?.startTime"


class Cost(NamedTuple):
    seconds: float
    """Time of the processor."""
    size: int
    """Bytes that are sent."""


class Dashboard(NamedTuple):
    url: str
    tokens: Tokens
    client: TestClient

    def ask(self, path: str) -> Cost:
        """Ask for a page in this process, as the owner of all schedules."""
        began = time.process_time()
        reply = self.client.get(path)
        assert reply.status_code == 200, (path, reply.text)
        return Cost(time.process_time() - began, int(reply.headers["content-length"]))

    def sign_in(self, browser: Browser) -> Page:
        """Return a page of a browser that is signed in as the operator."""
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(sign_in_link(self.url, self.tokens))
        return page

    def paint(self, page: Page, path: str) -> float:
        """Return the seconds from the start of the navigation to the first paint of content, coming from another
        page of the dashboard, as people do."""
        page.goto(self.url + path)
        page.wait_for_function(_PAINTED)
        return float(page.evaluate(_PAINTED)) / 1000


@contextmanager
def dashboard(folder: Path, count: int) -> Iterator[Dashboard]:
    app = build(Settings(db=str(folder / f"{count}.db"), timezone="UTC"), tasks=False)
    now = app.clock.now()
    assert isinstance(app.store, SqliteStore)
    fill_week(app.store, count, now)
    app.store.register("bench", ("job",), False, now, LEASE)
    tokens = tokens_with(app.store, folder / f"{count}.auth", app.clock)
    headers = {"Authorization": f"Bearer {tokens.issue(OWNER, HOUR)}", "Accept-Encoding": "gzip"}
    asgi = web(app, tokens)
    with relaxed_collector(), listen("127.0.0.1", 0) as bound:  # as `duetime serve` does
        server = HttpServer(asgi, bound)
        server.start()
        try:
            yield Dashboard(url_of(bound), tokens, TestClient(asgi, base_url="http://localhost", headers=headers))
        finally:
            server.stop()
            app.close()
