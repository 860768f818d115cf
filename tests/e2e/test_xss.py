"""Whatever agents write is shown and never run: hundreds of payloads in every text of every page, in a real browser.

`window.pwned` is what they call, and it must not be called. Nothing may open, ask or load; the policy must not even
have to step in, for what is escaped is no markup; and no page may hold an element that its template did not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect

from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Task
from tests.support.browsing import page_of, working
from tests.support.size import some
from tests.support.web import Site, site
from tests.support.workers import eventually
from tests.support.xss import packed, payloads
from tests.support.xss_visiting import FOUND, check, missing, visiting

PAYLOADS = payloads()
NAMES, BODIES = packed(PAYLOADS, 200), packed(PAYLOADS, 1500)
"""All of them: in names, which may have 200 characters, and in longer texts."""


def echo(text: str) -> Any:
    """Comes back as a result, as a report, or as an error."""
    if text.startswith("raise:"):
        raise ValueError(text.removeprefix("raise:"))
    return {"text": text, text[:90]: [text]}


def create(there: Site, owner: str, new: NewSchedule) -> Schedule:
    made = there.room.scheduler.create(Caller(owner), new)
    return made


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """First a few for pages of their own, with many payloads each; then one payload after the other, for the lists."""
    with site(tmp_path_factory.mktemp("xss")) as made:
        made.room.registry.add(Task(echo, name="tell"))
        for number, name in enumerate(NAMES):
            _write(made, number, name, BODIES[number // 4 % len(BODIES)], number % 4)
        for number, text in enumerate(PAYLOADS):
            for kind in range(4):
                _write(made, number, text, text, kind)
        runs = sum(number % 4 != 3 for number in range(len(NAMES))) + 3 * len(PAYLOADS)
        with working(made):
            eventually(lambda: _over(made) >= runs, 90, "all of them ran")
        yield made


def _write(there: Site, number: int, name: str, text: str, kind: int) -> None:
    """As a name, an owner, an argument, a result, an error, a message, a title and a prompt."""
    owner = name if number % 3 == 0 and name.isprintable() else "local"
    now = ("once", {"run_at": "now"})
    new = (
        NewSchedule("job", name, *now, {"task": "tell", "args": [text]}),
        NewSchedule("job", name, *now, {"task": "tell", "args": [f"raise:{text}"]}),
        NewSchedule("notification", name, *now, {"message": text, "topic": "t", "title": name}),
        NewSchedule("prompt", name, "interval", {"days": 30}, {"prompt": text}),
    )[kind]
    create(there, owner, new)


def _over(there: Site) -> int:
    pages = [there.room.store.runs(RunQuery(status=status, limit=1)) for status in ("completed", "failed")]
    return sum(page.total for page in pages)


def pages_of(page: Page, there: Site, path: str) -> Iterator[str]:
    """A list from its first to its last page."""
    following: str | None = path
    while following:
        yield check(page, there, following)
        onward = page.locator("a[rel=next]")
        following = onward.get_attribute("href") if onward.count() else None


def test_there_are_enough_of_them() -> None:
    assert len(PAYLOADS) >= 200
    assert len(set(PAYLOADS)) == len(PAYLOADS)


def test_nothing_runs_on_the_pages_of_all(browser: Browser, there: Site) -> None:
    with visiting(browser, there) as page:
        for path in (
            "/",
            "/timeline",
            "/timeline?span=1h",
            "/timeline?span=7d",
            "/new",
            "/new?kind=prompt",
            "/settings",
        ):
            check(page, there, path)
        lists = {path: list(pages_of(page, there, path)) for path in ("/schedules", "/dead-letters", "/inbox")}
    for path, texts in lists.items():
        assert missing(texts, PAYLOADS) == [], f"{path} does not show all of them, so it proves nothing"


@pytest.mark.parametrize("part", ["", "edit", "delete"])
def test_nothing_runs_on_the_page_of_each(browser: Browser, there: Site, part: str) -> None:
    """As names in titles, headings and fields, and as what each kind does. A sample: `make full` visits all of them."""
    schedules = there.room.store.search(ScheduleQuery(limit=len(NAMES))).items
    assert [each.definition.name for each in schedules] == NAMES
    visited = some(schedules)
    with visiting(browser, there) as page:
        texts = [check(page, there, page_of(each, *filter(None, [part]))) for each in visited]
    if part != "edit":  # what stands in fields is no text of the page
        assert missing(texts, [each.definition.name for each in visited]) == []


def test_nothing_runs_on_the_page_of_a_run(browser: Browser, there: Site) -> None:
    runs = there.room.store.runs(RunQuery(oldest_first=True, limit=3 * len(NAMES) // 4)).items
    visited = some(runs)
    with visiting(browser, there) as page:
        texts = [check(page, there, f"/runs/{run.id}") for run in visited]
    assert missing(texts, [run.name for run in visited]) == []


def test_what_is_looked_for_comes_back_as_text(browser: Browser, there: Site) -> None:
    with visiting(browser, there) as page:
        for text in some(packed(PAYLOADS, 480)):
            check(page, there, f"/schedules?{urlencode({'text': text, 'owner': text})}")
            for path in ("/timeline?owner=", "/inbox?topic="):
                check(page, there, path + quote(text))
        for path in ("/schedules?status=", "/schedules?kind=", "/dead-letters?kind=", "/?did=", "/timeline?span="):
            check(page, there, path + quote(PAYLOADS[4]))


@pytest.mark.parametrize(("kind", "field"), [("job", "task"), ("prompt", "deliver_to"), ("notification", "topic")])
def test_what_is_typed_comes_back_as_text(browser: Browser, there: Site, kind: str, field: str) -> None:
    """Explained while it is typed, and refused when it is sent."""
    with visiting(browser, there) as page:
        for text in NAMES[::6]:
            page.goto(f"http://127.0.0.1:{there.port}/new?kind={kind}")
            for name in ("name", field, "phrase", "timezone"):
                page.locator(f"#{name}").fill(text)
            page.locator("#preview .error").wait_for()
            assert page.evaluate(FOUND) == [], text
            page.get_by_role("button", name="Create").click()
            page.locator("#problem").wait_for()
            assert page.evaluate(FOUND) == [], text


def test_what_arrives_live_is_text_as_well(browser: Browser, there: Site) -> None:
    """Put in place by the script, not by loading a page."""
    with visiting(browser, there) as page, working(there):
        expect(page.locator("#pulse")).to_have_text("Live")
        for number in range(0, len(PAYLOADS), 40):
            mark = f"live {number} "
            job = {"task": "tell", "args": ["x"]}
            for _ in range(5):  # others that run at the same time may push it out of the latest ones
                create(
                    there, "local", NewSchedule("job", mark + PAYLOADS[number][:150], "once", {"run_at": "now"}, job)
                )
                with suppress(TimeoutError):
                    page.locator("#latest").get_by_text(mark).first.wait_for(timeout=8000)
                    break
            else:
                pytest.fail(f"{mark} did not arrive")
            assert page.evaluate(FOUND) == []
