"""191 dead letters of five schedules after an outage: one action puts all of them back, in a browser and a terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from duetime.app import build
from duetime.engine.clock import SystemClock, datetime_of
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.agents import serving
from tests.support.chromium import DESK, ZONE, Complaints, address, chromium, picture, sign_in
from tests.support.cli import environment
from tests.support.workers import eventually

TASKS = """
from pathlib import Path
from duetime import task

@task
def sync() -> None:
    if not Path("up").exists():
        raise ConnectionError("the database is down")
"""
NUMBERS = (39, 38, 38, 38, 38)


def outage(url: str) -> None:
    """Five jobs, each of which failed every ten minutes for a night."""
    registry = Registry()

    @registry.task
    def sync() -> None:
        raise ConnectionError("the database is down")

    length = timedelta(minutes=10)
    with Simulation(datetime_of(SystemClock().now()) - timedelta(hours=9), url=url, registry=registry) as night:
        for number, runs in enumerate(NUMBERS):
            end = night.now + runs * length
            night.duetime.schedule("sync", every=length, name=f"Sync {number}", max_attempts=1, pause_after=0, end=end)
        night.advance(timedelta(hours=8))


def runs_of(url: str) -> list[Run]:
    app = build(Settings(db=url, timezone="UTC"), tasks=False)
    try:
        return app.store.runs(RunQuery(kind="job", limit=500)).items
    finally:
        app.close()


def in_order(runs: list[Run]) -> bool:
    """Check that the runs of each schedule started in the order in which they were due."""
    by_due = sorted(runs, key=lambda run: (run.schedule, run.due))
    return by_due == sorted(runs, key=lambda run: (run.schedule, run.started))


def retry_all_in_browser(page: Page) -> None:
    rows = page.locator(".problem")
    expect(rows).to_have_count(5)
    expect(page.get_by_label("Select all shown")).to_be_visible()
    expect(page.get_by_text("191 runs · 5 problems")).to_be_visible()
    expect(page.get_by_role("button", name="Retry selected")).to_be_disabled()
    rows.nth(1).get_by_role("checkbox").first.check()
    expect(page.get_by_role("button", name="Retry selected")).to_be_enabled()
    rows.nth(1).get_by_role("checkbox").first.uncheck()
    rows.nth(0).get_by_text(re.compile("runs from")).click()
    expect(rows.nth(0).get_by_role("link", name=re.compile(r"Run \d+"))).to_have_count(25)
    picture(page, "dead-letters-191")
    page.get_by_role("button", name="Retry all 191").click()
    expect(page.get_by_role("heading", name="Retry dead letters?")).to_be_visible()
    expect(page.get_by_label("the newest run of each only")).to_be_checked()
    picture(page, "dead-letters-confirm")
    page.get_by_label("every run").check()
    page.get_by_role("button", name="Retry them").click()
    expect(page.get_by_role("status").first).to_contain_text("191 runs requeued.")
    expect(page.get_by_text("No dead letters")).to_be_visible()
    expect(page.get_by_text("Select all shown")).to_be_hidden()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_all_are_put_back_by_terminal_and_by_browser(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else str(tmp_path / "my.db")
    outage(url)
    (tmp_path / "tasks.py").write_text(TASKS)
    with serving(tmp_path, "--tasks", "tasks.py", "--db", url) as served, chromium() as browser:
        command = [sys.executable, "-m", "duetime", "dead", "retry", "--all", "--every-run", "--yes", "--db", url]
        said = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout) == (0, "Requeued 191 runs.\n"), said
        failed_again = lambda: sum(run.status == "failed" for run in runs_of(url)) == 191  # noqa: E731
        eventually(failed_again, 60, "all ran once more, and failed, since it is still down")
        assert in_order(runs_of(url))
        (tmp_path / "up").touch()
        context = browser.new_context(viewport=DESK, timezone_id=ZONE, locale="en-GB")
        complaints = Complaints(context)
        page = context.new_page()
        sign_in(page, served)
        page.goto(address(served, "/dead-letters"))
        retry_all_in_browser(page)
        eventually(lambda: {run.status for run in runs_of(url)} == {"completed"}, 60, "all are done")
        assert in_order(runs_of(url))
        assert complaints.found == []
