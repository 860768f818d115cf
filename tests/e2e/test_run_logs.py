"""The log of a run in a real browser, which grows while the run goes on, and what the page of a failed run shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.test_run_pages import POST, WIDTHS
from tests.support.agents import Served, serving
from tests.support.chromium import BEYOND, ZONE, Complaints, address, picture, serious, sign_in

TASKS = """
import logging
from pathlib import Path

from duetime import TaskContext, task

log = logging.getLogger("orders")

@task
def import_orders(context: TaskContext, source: str = "shop", password: str = "") -> int:
    "Imports orders until a file tells it to end."
    print(f"connecting to {source} with password={password}")
    log.info("found 12 orders <b>in</b> %s", source)
    context.progress("3 of 12 orders")
    while source == "shop" and not Path("go").exists() and not context.cancelled.wait(0.05):
        pass
    if source == "nowhere":
        try:
            int(source)
        except ValueError as error:
            raise RuntimeError("the orders cannot be read") from error
    log.warning("2 orders have no address")
    return 12

@task
def short_one() -> None:
    print("done")
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    folder: Path = tmp_path_factory.mktemp("installation")
    (folder / "household.py").write_text(TASKS)
    with serving(folder, "--tasks", "household.py") as made:
        yield made, folder


@pytest.fixture(scope="module")
def context(browser: Browser, served: tuple[Served, Path]) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport=WIDTHS["1440"], timezone_id=ZONE, locale="en-GB")
    page = opened.new_page()
    sign_in(page, served[0])
    page.close()
    complaints = Complaints(opened)
    yield opened
    assert complaints.found == []
    opened.close()


def job(page: Page, served: Served, **kwargs: str) -> str:
    """Create a job that runs at once, and return the path of its schedule."""
    page.goto(address(served, "/"))
    payload = {"task": "import_orders", "kwargs": kwargs}
    given = {"kind": "job", "name": "Import orders", "trigger": {"type": "interval", "hours": 1}, "payload": payload}
    made = page.evaluate(POST, given)
    return f"/schedules/{made['id']}"


def start(page: Page, served: Served, schedule: str) -> None:
    """Run it now, and open the page of the run."""
    page.goto(address(served, schedule))
    page.get_by_role("button", name="Run now").first.click()
    page.goto(address(served, schedule))
    page.locator("a[href^='/runs/']").first.click()


def test_a_log_grows_on_the_page_of_the_run(context: BrowserContext, served: tuple[Served, Path]) -> None:
    server, folder = served
    page = context.new_page()
    start(page, server, job(page, server, source="shop", password="correct-horse"))
    log = page.locator("#log")
    expect(log).to_contain_text("connecting to shop with password=***")
    expect(log).to_contain_text("INFO orders: found 12 orders <b>in</b> shop")
    expect(log).not_to_contain_text("no address")
    expect(page.locator("#result progress")).to_have_attribute("value", "25.0")
    expect(page.locator("#result")).to_contain_text("so far")
    picture(page, "run-log-live")
    (folder / "go").touch()
    expect(log).to_contain_text("WARNING orders: 2 orders have no address")
    expect(page.locator("#state .status")).to_have_text("completed")
    expect(page.locator("#log .log-part time").first).to_be_visible()
    assert "correct-horse" not in page.content()
    assert page.evaluate(BEYOND) <= 0
    assert serious(page) == []


def test_a_failed_run_shows_its_causes_and_how_its_input_differs(
    context: BrowserContext, served: tuple[Served, Path]
) -> None:
    server, folder = served
    (folder / "go").touch()
    page = context.new_page()
    schedule = job(page, server, source="archive")
    start(page, server, schedule)
    expect(page.locator("#state .status")).to_have_text("completed")
    page.get_by_role("link", name="Run again with edited input").click()
    page.locator("#field-kwargs").fill('{"source": "nowhere"}')
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#state .status")).to_have_text("failed")
    causes = page.locator("#error .cause")
    expect(causes).to_have_count(2)
    expect(causes.nth(1)).to_contain_text("ValueError: invalid literal for int()")
    expect(causes.nth(0)).to_contain_text('raise RuntimeError("the orders cannot be read") from error')
    expect(page.locator(".differences")).to_contain_text("archive")
    expect(page.locator("#log")).to_contain_text("connecting to nowhere")
    picture(page, "run-log-failed")
    page.set_viewport_size(WIDTHS["390"])
    assert page.evaluate(BEYOND) <= 0
    picture(page, "run-log-failed-390")
