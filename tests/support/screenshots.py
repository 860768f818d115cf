"""`python -m tests.support.screenshots FOLDER`: pictures of every page of the dashboard, to be looked at.

Each page is taken wide and narrow, light and dark, in three stores: one with a day of history, an empty one, and one
in which much has failed. A name at the end chooses pages: `... FOLDER now timeline`. `index.html` in the folder shows
all pictures that are there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.support.agents import Served, serving
from tests.support.chromium import ZONE, address, chromium, link_of
from tests.support.lively import TASKS, lively

WIDTHS: Final[dict[str, ViewportSize]] = {
    "1440": {"width": 1440, "height": 900},
    "390": {"width": 390, "height": 844},
}
SCHEMES: Final = ("light", "dark")
PAGES: Final = {
    "now": "/",
    "timeline": "/timeline",
    "timeline-week": "/timeline?span=7d",
    "schedules": "/schedules",
    "schedules-all": "/schedules?view=all",
    "new-job": "/new",
    "new-prompt": "/new?kind=prompt",
    "new-notification": "/new?kind=notification",
    "inbox": "/inbox",
    "dead-letters": "/dead-letters",
    "settings": "/settings",
    "connect": "/connect",
    "help": "/help",
    "preferences": "/preferences",
}
LINKS: Final = {
    "schedule": ("/schedules?view=all", "#rows a.name"),
    "run": ("/dead-letters", "#rows a[href^='/runs/']"),
}
"""Pages that are found by the first link of another page."""


def failing(db: Path) -> None:
    lively(db, hours=30, outage=True)


STORES: Final = {"filled": lively, "empty": None, "failing": failing}


@contextmanager
def signed_in(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    with browser.new_context(timezone_id=ZONE, locale="en-GB") as context:
        page = context.new_page()
        page.goto(link_of(served))
        page.wait_for_load_state()
        page.close()
        yield context


def addresses(page: Page, served: Served, wanted: set[str]) -> dict[str, str]:
    found = {name: path for name, path in PAGES.items() if not wanted or name in wanted}
    for name, (place, link) in LINKS.items():
        if not wanted or name in wanted:
            page.goto(address(served, place))
            first = page.locator(link).first
            if first.count():
                found[name] = str(first.get_attribute("href"))
    return found


def take(browser: Browser, served: Served, folder: Path, state: str, wanted: set[str]) -> int:
    number = 0
    with signed_in(browser, served) as context:
        page = context.new_page()
        paths = addresses(page, served, wanted)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            for width, size in WIDTHS.items():
                page.set_viewport_size(size)
                for name, path in paths.items():
                    page.goto(address(served, path))
                    page.wait_for_load_state("load")
                    page.screenshot(path=str(folder / f"{state}-{name}-{width}-{scheme}.png"), full_page=True)
                    number += 1
    return number


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
    folder, wanted, number = Path(arguments[0]), set(arguments[1:]), 0
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for state, fill in STORES.items():
            with tempfile.TemporaryDirectory() as scratch:
                place = Path(scratch)
                if fill is not None:
                    fill(place / "my.db")
                (place / "household.py").write_text(TASKS)
                with serving(place, "--tasks", "household.py") as served:
                    number += take(browser, served, folder, state, wanted)
    write_index(folder)
    sys.stdout.write(f"{number} pictures in {folder}; {folder / 'index.html'} shows them\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
