"""`python -m tests.support.screenshots FOLDER`: pictures of every page of the dashboard, to be looked at.

Each page is taken wide and narrow, light and dark, in three stores: one with a day of history, an empty one, and one
in which much has failed; forms also with wrong input. A name at the end chooses pages: `... FOLDER now timeline`.
`index.html` in the folder shows all pictures that are there.

`python -m tests.support.screenshots --readme` renews the picture of the README instead.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.support.agents import Served, serving
from tests.support.chromium import ZONE, address, chromium, sign_in
from tests.support.cli import ROOT
from tests.support.lively import TASKS, lively

WIDTHS: Final[dict[str, ViewportSize]] = {
    "1440": {"width": 1440, "height": 900},
    "390": {"width": 390, "height": 844},
}
SCHEMES: Final = ("light", "dark")
README: Final = ROOT / "docs" / "images" / "dashboard.png"
README_SIZE: Final[ViewportSize] = {"width": 1280, "height": 940}
Pose = Callable[[Page], object]
"""What is done on a page before its picture is taken."""


def stay(page: Page) -> None:
    """Take the page as it was loaded."""


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.locator("dialog.palette[open]").wait_for()


def open_details(page: Page) -> None:
    """Open every part of a form that is shown on request."""
    page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true })")


def open_menu(page: Page) -> None:
    page.locator("#menu > summary").click()


def select_two(page: Page) -> None:
    for box in page.locator("#rows input[type=checkbox]:visible:not(#choose-all)").all()[:2]:
        box.check()


def point_at_failure(page: Page) -> None:
    marks = page.locator(".lanes rect.is-failed")
    if marks.count():
        marks.first.hover()


def ask_to_retry_all(page: Page) -> None:
    press_if_there(page, "retry")


def ask_to_stop_all(page: Page) -> None:
    press_if_there(page, "stop")


def press_if_there(page: Page, action: str) -> None:
    button = page.locator(f"button[name=all][value={action}]")
    if button.count():
        button.click()
        page.wait_for_load_state("load")


def submit_wrong_input(page: Page) -> None:
    page.locator("#when-cron").check()
    page.locator("#expression").fill("61 9 * * MON")
    page.locator("#timezone").fill("Europe/Nowhere")
    page.locator("#max_attempts").evaluate("field => { field.value = 'many' }")
    page.locator(".form-actions button[value=save]").click()
    page.locator("#problem").wait_for()
    page.wait_for_load_state("load")


def sign_in_wrongly(page: Page) -> None:
    page.locator("input[name=token]").fill("not a token")
    page.locator("form button").click()
    page.get_by_role("alert").wait_for()
    page.wait_for_load_state("load")


PAGES: Final[dict[str, tuple[str, Pose]]] = {
    "now": ("/", stay),
    "palette": ("/", open_palette),
    "menu": ("/", open_menu),
    "timeline": ("/timeline", stay),
    "timeline-popover": ("/timeline", point_at_failure),
    "timeline-week": ("/timeline?span=7d", stay),
    "timeline-past-week": ("/timeline?span=week", stay),
    "schedules": ("/schedules", stay),
    "schedules-all": ("/schedules?view=all", stay),
    "schedules-selected": ("/schedules", select_two),
    "schedules-none": ("/schedules?text=nothing+has+this+name", stay),
    "runs": ("/runs", stay),
    "runs-failed": ("/runs?status=failed", stay),
    "runs-filtered": ("/runs?error=refused&from=yesterday&longer_than=0s", stay),
    "runs-none": ("/runs?error=nothing+has+this+text", stay),
    "runs-wrong": ("/runs?from=whenever", stay),
    "runs-selected": ("/runs", select_two),
    "runs-retry": ("/runs?status=failed", ask_to_retry_all),
    "runs-stop": ("/runs", ask_to_stop_all),
    "new-job": ("/new", stay),
    "new-prompt": ("/new?kind=prompt", stay),
    "new-options": ("/new?kind=prompt", open_details),
    "new-notification": ("/new?kind=notification", stay),
    "new-request": ("/new?kind=request", stay),
    "new-wrong": ("/new", submit_wrong_input),
    "inbox": ("/inbox", stay),
    "inbox-dismissed": ("/inbox?show=dismissed", stay),
    "dead-letters": ("/dead-letters", stay),
    "dead-letters-retry": ("/dead-letters", ask_to_retry_all),
    "dead-letters-selected": ("/dead-letters", select_two),
    "dead-letters-dismissed": ("/dead-letters?show=dismissed", stay),
    "settings": ("/settings", stay),
    "hooks": ("/settings/hooks", open_details),
    "connect": ("/connect", stay),
    "help": ("/help", stay),
    "preferences": ("/preferences", stay),
    "not-found": ("/schedules/nothing", stay),
}
LINKS: Final = {
    "schedule": ("/schedules?view=all", "#rows a.name", ""),
    "edit": ("/schedules?view=all", "#rows a.name", "/edit"),
    "cancel": ("/schedules?view=all", "#rows a.name", "/cancel"),
    "schedule-failing": ("/dead-letters", "#rows a[href^='/schedules/']", ""),
    "run": ("/dead-letters", "#rows a[href^='/runs/']", ""),
    "run-again": ("/dead-letters", "#rows a[href^='/runs/']", "/again"),
    "run-completed": ("/", "#latest tr:has(.is-completed) a[href^='/runs/']", ""),
    "run-waiting": ("/inbox", "#waiting a[href^='/runs/']", ""),
}
"""Pages that are found by the first link of another page, and what is added to its address."""
SIGNED_OUT: Final[dict[str, tuple[str, Pose]]] = {
    "sign-in": ("/login", stay),
    "sign-in-wrong": ("/login", sign_in_wrongly),
}
"""Pages that a person without a session sees."""


def failing(db: Path) -> None:
    lively(db, hours=30, outage=True)


STORES: Final = {"filled": lively, "empty": None, "failing": failing}
HEALTHY: Final = "healthy"
"""The store of the picture in the README: one thing needs attention, and everything else works."""


@contextmanager
def signed_in(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    with browser.new_context(timezone_id=ZONE, locale="en-GB") as context:
        page = context.new_page()
        sign_in(page, served)
        page.close()
        yield context


def places(page: Page, served: Served) -> dict[str, tuple[str, Pose]]:
    """Return every page that this store has."""
    found = dict(PAGES)
    for name, (place, link, more) in LINKS.items():
        page.goto(address(served, place))
        first = page.locator(link).first
        if first.count():
            found[name] = str(first.get_attribute("href")) + more, stay
    return found


def stretch(page: Page, size: ViewportSize) -> None:
    """Make the window as high as the page, so that bars at its bottom do not cover the middle of the picture."""
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], height)})


def take(page: Page, served: Served, shown: dict[str, tuple[str, Pose]], folder: Path, state: str) -> int:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width, size in WIDTHS.items():
            page.set_viewport_size(size)
            for name, (path, pose) in shown.items():
                page.goto(address(served, path))
                page.wait_for_load_state("load")
                pose(page)
                if page.locator("dialog[open]").count() == 0:
                    stretch(page, size)
                page.screenshot(path=str(folder / f"{state}-{name}-{width}-{scheme}.png"))
                page.set_viewport_size(size)
    return len(shown) * len(SCHEMES) * len(WIDTHS)


def take_all(browser: Browser, served: Served, folder: Path, state: str, wanted: set[str]) -> int:
    number = 0
    with signed_in(browser, served) as context:
        page = context.new_page()
        shown = {name: each for name, each in places(page, served).items() if not wanted or name in wanted}
        number += take(page, served, shown, folder, state)
    if state == "empty":  # nothing of the store can be seen there
        with browser.new_context(timezone_id=ZONE, locale="en-GB") as context:
            shown = {name: each for name, each in SIGNED_OUT.items() if not wanted or name in wanted}
            number += take(context.new_page(), served, shown, folder, state)
    return number


def renew_readme(browser: Browser) -> None:
    with filled_server(HEALTHY) as served, signed_in(browser, served) as context:
        page = context.new_page()
        page.set_viewport_size(README_SIZE)
        page.goto(address(served, "/"))
        page.wait_for_load_state("load")
        page.locator("#pulse:not([hidden])").wait_for()
        page.screenshot(path=str(README))


@contextmanager
def filled_server(state: str) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        fill = partial(lively, healthy=True) if state == HEALTHY else STORES[state]
        if fill is not None:
            fill(place / "my.db")
        (place / "household.py").write_text(TASKS)
        with serving(place, "--tasks", "household.py") as served:
            yield served


def write_index(folder: Path) -> None:
    """Write a page that shows every picture, smaller, and links to it."""
    names = sorted(path.name for path in folder.glob("*.png"))
    figures = "\n".join(
        f'<figure><a href="{name}"><img src="{name}" alt="" loading="lazy"></a>'
        f"<figcaption>{name.removesuffix('.png')}</figcaption></figure>"
        for name in names
    )
    style = (
        "body { font: 14px system-ui; margin: 20px } main { display: flex; flex-wrap: wrap; gap: 16px }"
        " figure { margin: 0; width: 280px } img { width: 280px; height: 220px; object-fit: cover;"
        " object-position: top; border: 1px solid #ccc }"
    )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Screenshots</title><style>{style}</style>'
    (folder / "index.html").write_text(f"{head}<h1>{len(names)} screenshots</h1><main>\n{figures}\n</main>\n")


def main(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write("Name a folder: python -m tests.support.screenshots FOLDER [PAGE ...]\n")
        return 2
    logging.disable()  # what fails in these stores fails on purpose
    if arguments == ["--readme"]:
        with chromium() as browser:
            renew_readme(browser)
        sys.stdout.write(f"{README}\n")
        return 0
    folder, wanted, number = Path(arguments[0]), set(arguments[1:]), 0
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for state in STORES:
            with filled_server(state) as served:
                number += take_all(browser, served, folder, state, wanted)
    write_index(folder)
    sys.stdout.write(f"{number} pictures in {folder}; {folder / 'index.html'} shows them\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
