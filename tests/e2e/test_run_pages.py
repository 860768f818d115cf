"""The pages of one run and of one schedule in a real browser: why it failed, running it again, filters, copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.support.agents import Served, serving
from tests.support.chromium import BEYOND, ZONE, Complaints, address, copied_text, picture, serious, sign_in
from tests.support.lively import TASKS, lively

BROKEN = """
import json

def read_amounts(text):
    total = 0.0
    for each in json.loads(text):
        total += float(each)
    return total

@task
def import_invoices(month: str, dry_run: bool = False) -> dict:
    "Reads the invoices of a month."
    if dry_run:
        return {"month": month, "imported": 0}
    return {"month": month, "total": read_amounts('["12.50", "n/a"]')}
"""
POST = """
async (body) => {
  const proof = document.querySelector("meta[name=csrf]").content;
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": proof };
  const given = { method: "POST", credentials: "same-origin", headers, body: JSON.stringify(body) };
  return (await fetch("/api/v1/schedules", given)).json();
}
"""
WIDTHS: dict[str, ViewportSize] = {
    "1440": {"width": 1440, "height": 900},
    "390": {"width": 390, "height": 844},
}


class Installation(NamedTuple):
    served: Served
    context: BrowserContext
    run: str
    """The path of a run that failed after a retry."""


@pytest.fixture(scope="module")
def installation(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A server with a day of history, and a job that has failed after a retry."""
    folder: Path = tmp_path_factory.mktemp("installation")
    lively(folder / "my.db")
    (folder / "household.py").write_text(TASKS + BROKEN)
    with serving(folder, "--tasks", "household.py") as served:
        context = browser.new_context(viewport=WIDTHS["1440"], timezone_id=ZONE, locale="en-GB")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        sign_in(page, served)
        job = {
            "kind": "job",
            "name": "Import invoices",
            "trigger": {"type": "once", "run_at": "in 1 second"},
            "payload": {"task": "import_invoices", "kwargs": {"month": "2026-10"}},
            "policy": {"max_attempts": 2, "backoff_seconds": 1},
        }
        made = page.evaluate(POST, job)
        page.goto(address(served, f"/schedules/{made['id']}"))
        expect(page.locator("#outcome .status")).to_have_text("failed")
        link = page.get_by_role("link", name="Open the run").get_attribute("href")
        page.close()
        assert link is not None
        yield Installation(served, context, link)
        context.close()


@pytest.fixture
def page(installation: Installation) -> Iterator[Page]:
    opened = installation.context.new_page()
    complaints = Complaints(installation.context)
    yield opened
    opened.close()
    assert [each for each in complaints.found if "422" not in each] == [], "apart from what was refused on purpose"


def test_a_failed_run_tells_why_and_is_copied(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, installation.run))
    expect(page.get_by_role("heading", level=1)).to_have_text("Import invoices")
    expect(page.locator("#state")).to_contain_text("failed")
    for step in ("Due", "Attempt 1 failed", "Waited to retry", "Attempt 2 failed"):
        expect(page.locator("#trace")).to_contain_text(step)
    frames = page.locator(".frames li")
    expect(frames.first).to_contain_text("household.py")
    expect(frames.first).to_contain_text("read_amounts")
    expect(frames).to_have_count(2)
    expect(page.locator("#traceback")).not_to_be_visible()
    page.get_by_text("Full traceback").click()
    expect(page.locator("#traceback")).to_contain_text("Traceback (most recent call last)")
    expect(page.locator("#traceback"), "carets stay below what they point at").to_have_css("white-space", "pre")
    page.get_by_role("button", name="Copy the traceback").click()
    assert "could not convert string to float: 'n/a'" in copied_text(page, containing="Traceback")
    page.set_viewport_size(WIDTHS["390"])
    command, button = (page.locator(f".commands dd {each}").first.bounding_box() for each in ("code", "button"))
    assert command and button and command["height"] > button["height"], "a long command wraps"
    assert (button["y"], button["x"]) >= (command["y"], command["x"] + command["width"]), "its button stays beside it"
    assert button["y"] + button["height"] <= command["y"] + command["height"]
    page.get_by_role("button", name="Copy the run as JSON").click()
    copied = json.loads(copied_text(page, containing='"payload"'))
    assert (copied["status"], copied["payload"]["kwargs"]) == ("failed", {"month": "2026-10"})


def test_it_is_run_again_with_an_edited_input(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, installation.run))
    page.get_by_role("link", name="Run again with edited input…").click()
    page.get_by_label("kwargs").fill('{"month": "2026-10", "dry_run": tru}')
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("alert").last).to_contain_text("kwargs: this is not valid JSON")
    expect(page.get_by_label("kwargs")).to_be_focused()
    page.get_by_label("kwargs").fill('{"month": "2026-10", "dry_run": true}')
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#state .status")).to_have_text("completed")
    expect(page.locator("#state")).to_contain_text("with its own input")
    expect(page.locator("#result")).to_contain_text('"imported": 0')
    page.get_by_role("link", name="← Previous run").click()
    expect(page).to_have_url(address(installation.served, installation.run))


def shows_only(page: Page, outcome: str) -> None:
    """Wait until the history has rows of this outcome, and of no other."""
    shown = page.locator("#history td .status")
    expect(shown.filter(has_text=outcome).first).to_be_visible()
    expect(shown.filter(has_not_text=outcome)).to_have_count(0)


def test_the_history_of_a_schedule_is_filtered(installation: Installation, page: Page, browser: Browser) -> None:
    page.goto(address(installation.served, "/schedules?text=family"))
    page.get_by_role("link", name="Sync the family calendar").first.click()
    expect(page.locator(".ribbon .day")).to_have_count(30)
    path = page.url
    page.get_by_label("Outcome", exact=True).select_option("failed")
    page.wait_for_url(lambda url: "failed" in url)
    shows_only(page, "failed")
    state = installation.context.storage_state()
    with browser.new_context(storage_state=state, java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(path)
        plain.get_by_label("Outcome", exact=True).select_option("completed")
        plain.get_by_role("button", name="Filter").click()
        shows_only(plain, "completed")
        plain.locator(".ribbon a").last.click()
        expect(plain.get_by_label("from", exact=True)).not_to_have_value("")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", list(WIDTHS))
def test_they_fit_the_screen_and_are_accessible(
    installation: Installation, browser: Browser, scheme: str, width: str
) -> None:
    state = installation.context.storage_state()
    lists = installation.context.new_page()
    lists.goto(address(installation.served, "/schedules"))
    names = ("Sync the family calendar", "Morning briefing", "Call with Tokyo")
    paths = {
        f"schedule-{name.split()[0].lower()}": lists.get_by_role("link", name=name).first.get_attribute("href")
        for name in names
    }
    lists.close()
    paths |= {"run-failed": installation.run, "run-again": f"{installation.run}/again"}
    size = WIDTHS[width]
    with browser.new_context(storage_state=state, viewport=size, color_scheme=scheme, timezone_id=ZONE) as context:  # type: ignore[arg-type]
        complaints = Complaints(context)
        page = context.new_page()
        for name, path in paths.items():
            page.goto(address(installation.served, str(path)))
            beyond = page.evaluate(BEYOND)
            picture(page, f"{name}-{scheme}-{width}")
            assert beyond <= 0, f"{name} is {beyond} px too wide"
            assert serious(page) == [], name
        assert complaints.found == []
