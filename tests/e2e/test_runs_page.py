"""The page of runs in a browser: filters that live in the address, and changes of all that match, by keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from duetime.app import build
from duetime.engine.clock import SystemClock, datetime_of
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Registry
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.agents import Served, serving
from tests.support.chromium import (
    BEYOND,
    DESK,
    PATIENCE,
    PHONE,
    ZONE,
    Complaints,
    address,
    chromium,
    picture,
    serious,
    sign_in,
)
from tests.support.screenshots import WIDTHS
from tests.support.workers import eventually

TASKS = """
from pathlib import Path
from duetime import task
from duetime.kinds.jobs.context import TaskContext

@task
def sync(shop: str) -> None:
    if not Path("up").exists():
        raise ConnectionError(f"{shop}: connection refused")

@task
def report() -> str:
    return "written"

@task
def listen(context: TaskContext) -> None:
    context.cancelled.wait(600)
"""


def fill(url: str) -> None:
    """Two shops that were refused ten times each, a job that worked ten times, and one that waits for its end."""
    registry = Registry()

    @registry.task
    def sync(shop: str) -> None:
        raise ConnectionError(f"{shop}: connection refused")

    @registry.task
    def report() -> str:
        return "written"

    @registry.task
    def listen() -> None: ...

    with Simulation(datetime_of(SystemClock().now()) - timedelta(hours=11), url=url, registry=registry) as past:
        for shop in ("north", "south"):
            input, often = {"shop": f"{shop}.example"}, timedelta(hours=1)
            past.duetime.schedule("sync", name=f"Sync {shop}", kwargs=input, every=often, max_attempts=1, pause_after=0)
        past.duetime.schedule("report", name="Write the report", every=timedelta(hours=1))
        past.duetime.schedule("listen", name="Listen", every=timedelta(days=30))
        past.advance(timedelta(hours=10))


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    postgres = request.param == "postgres"
    return str(request.getfixturevalue("postgres_url") if postgres else tmp_path / "my.db")


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Served]:
    fill(url)
    (tmp_path / "tasks.py").write_text(TASKS)
    with serving(tmp_path, "--tasks", "tasks.py", "--db", url) as made:
        yield made


@pytest.fixture
def context(served: Served) -> Iterator[BrowserContext]:
    with chromium() as browser, browser.new_context(viewport=DESK, timezone_id=ZONE, locale="en-GB") as opened:
        complaints = Complaints(opened)
        page = opened.new_page()
        sign_in(page, served)
        page.close()
        yield opened
        assert complaints.found == []


def stored(url: str, **query: str) -> list[Run]:
    app = build(Settings(db=url, timezone="UTC"), tasks=False)
    try:
        return app.store.runs(RunQuery(limit=500, **query)).items  # type: ignore[arg-type]
    finally:
        app.close()


def check_page(page: Page, name: str) -> None:
    picture(page, name)
    assert page.evaluate(BEYOND) <= 0, f"{name} is wider than the window"
    assert serious(page) == []


def tab_to(page: Page, name: str) -> None:
    """Move the focus with the Tab key to a button or link, as somebody without a mouse does."""
    for _ in range(300):
        page.keyboard.press("Tab")
        text = page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
        if re.fullmatch(name, text.strip()):
            return
    raise AssertionError(f"the Tab key leads to no {name}")


def go_to_runs(page: Page, served: Served) -> None:
    page.clock.set_fixed_time(SystemClock().now() // 1000)  # the second key has to follow the first soon
    page.goto(address(served))
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_many_runs_are_found_retried_and_resolved_by_keyboard(
    context: BrowserContext, served: Served, url: str, tmp_path: Path
) -> None:
    page = context.new_page()
    go_to_runs(page, served)
    tabs = page.get_by_role("navigation", name="Statuses")
    expect(tabs.get_by_role("link", name="Failed")).to_have_text(re.compile("Failed 2[0-9]"))
    check_page(page, "runs")
    page.get_by_label("Error", exact=True).focus()
    page.keyboard.type("north.example: connection")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"error=north\.example"))
    rows = page.locator("#rows tbody tr")
    expect(rows.first).to_contain_text("Sync north")
    number = rows.count()
    assert number >= 10 and number == page.get_by_text("north.example: connection refused").count()
    page.reload()
    expect(page.get_by_label("Error", exact=True)).to_have_value("north.example: connection")
    expect(rows).to_have_count(number)
    check_page(page, "runs-filtered")
    page.set_viewport_size(WIDTHS["1440"])
    clear, error = page.get_by_role("link", name="Clear").bounding_box(), page.locator("#error").bounding_box()
    assert clear is not None and error is not None and abs(clear["y"] - error["y"]) < 8, "the filter has one line"
    page.set_viewport_size(DESK)
    (tmp_path / "up").touch()
    retry_all(page, number)
    done = lambda: {run.status for run in stored(url) if run.name == "Sync north"} == {"completed"}  # noqa: E731
    eventually(done, 60, "all are done")
    page.goto(address(served, "/runs?status=failed&task=sync"))
    failed = len(stored(url, status="dead"))
    resolve_all(page, failed)
    assert stored(url, status="dead") == []
    page.keyboard.press("z")
    expect(page.get_by_role("status").first).to_contain_text("Undone.")
    assert len(stored(url, status="dead")) == failed


def retry_all(page: Page, number: int) -> None:
    tab_to(page, "Retry all matching…")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Retry {number} runs?")
    expect(page.locator(".by-schedule li")).to_have_text(re.compile(rf"{number}\u00d7\s*job\s*Sync north"))
    check_page(page, "runs-retry")
    tab_to(page, "")  # the first choice
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("every run")).to_be_checked()
    tab_to(page, "Retry them")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"{number} runs requeued.")
    assert "error=north.example" in page.url, "it leads back to the same list"


def resolve_all(page: Page, failed: int) -> None:
    tab_to(page, "Resolve all matching…")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Resolve {failed} runs?")
    expect(page.locator(".by-schedule")).not_to_contain_text("north")
    tab_to(page, f"Resolve {failed} runs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"{failed} runs resolved.")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_row_is_selected_opened_and_stopped_by_keyboard(context: BrowserContext, served: Served, url: str) -> None:
    page = context.new_page()
    page.goto(address(served, "/schedules?text=Listen"))
    page.get_by_label("Actions for Listen").click()
    page.get_by_role("button", name="Run now").first.click()
    eventually(lambda: stored(url, status="running"), PATIENCE, "it is running")
    [run] = stored(url, status="running")
    page.goto(address(served, "/runs?status=running"))
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    check_page(page, "runs-selected")
    page.keyboard.press("o")
    page.wait_for_url(f"**/runs/{run.id}")
    page.go_back()
    tab_to(page, "Stop all…")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Stop 1 run?")
    check_page(page, "runs-stop")
    tab_to(page, "Stop 1 run")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("1 run stopped or asked to stop.")
    eventually(lambda: not stored(url, status="running"), PATIENCE, "the task has heard of it")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_without_scripts_and_on_a_phone(context: BrowserContext, served: Served) -> None:
    browser, state = context.browser, context.storage_state()
    assert browser is not None
    with browser.new_context(storage_state=state, java_script_enabled=False, viewport=PHONE) as own:
        page = own.new_page()
        page.goto(address(served, "/runs"))
        page.locator(".filters > summary").click()
        page.get_by_label("Schedule", exact=True).fill("Write the report")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.locator("#rows tbody tr").first).to_contain_text("Write the report")
        expect(page.locator(".filters > summary")).to_have_text("Filter 1")
        expect(page.get_by_label("Longer than"), "it does not fill the screen").to_be_hidden()
        page.locator(".filters > summary").click()
        page.get_by_label("Longer than").fill("an eternity")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("longer_than")
        expect(page.get_by_label("Longer than"), "which is to be corrected").to_be_visible()
    with browser.new_context(storage_state=state, viewport=PHONE, color_scheme="dark") as own:
        page = own.new_page()
        for name, path in (("phone", "/runs"), ("phone-failed", "/runs?status=failed&error=refused")):
            page.goto(address(served, path))
            check_page(page, f"runs-{name}")
            last = page.get_by_role("navigation", name="Pages").get_by_role("link").last.bounding_box()
            assert last is not None and last["x"] + last["width"] <= PHONE["width"], "the navigation fits"
            tab = page.locator(".tabs [aria-current]").bounding_box()
            assert tab is not None and 0 <= tab["x"] <= PHONE["width"] - tab["width"], "the chosen tab can be seen"
