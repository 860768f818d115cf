"""A real browser: the system's Chromium, headless. Without it, the tests are visibly skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from tests.support.agents import Served
from tests.support.cli import ROOT
from tests.support.workers import eventually

BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""How many pixels a page is wider than its window."""
SCREENSHOTS = ROOT / ".cache" / "screenshots"
PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 860}
ZONE = "Europe/Berlin"
PATIENCE = 20
"""Seconds to wait for what a page must show: more than a page needs on a busy machine."""


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium here; on Debian and Ubuntu: apt install chromium")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def link_of(served: Served) -> str:
    """Return the sign-in link that the server printed first."""
    [line] = [line for line in served.output.lines if line.startswith("Dashboard: ")]
    return line.removeprefix("Dashboard: ")


def address(served: Served, path: str = "/") -> str:
    return served.url.removesuffix("/mcp") + path


def sign_in(page: Page, served: Served) -> None:
    """Sign in with the printed link, and wait until the page has loaded again in the zone of its reader."""
    page.goto(link_of(served))
    expect(page).to_have_url(address(served))
    expect(page.get_by_text(f"Times in {ZONE}")).to_be_visible()


class Complaints:
    """Errors that a browser reports: script errors, refused resources, violations of the policy."""

    def __init__(self, context: BrowserContext) -> None:
        self.found: list[str] = []
        context.on("console", lambda message: self._heard(message.type, message.text))
        context.on("weberror", lambda error: self.found.append(str(error.error)))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.found.append(text)


def copied_text(page: Page, containing: str) -> str:
    """Return the text that a page has copied, which it does after the click has returned."""

    def look() -> str:
        copied: str = page.evaluate("navigator.clipboard.readText()")
        return copied if containing in copied else ""

    return eventually(look, PATIENCE, f"{containing!r} is copied")


def picture(page: Page, name: str) -> Path:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=str(path), full_page=True)
    return path


def serious(page: Page) -> list[str]:
    """Return what axe finds that is serious or worse."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
