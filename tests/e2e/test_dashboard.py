"""The dashboard in a real browser, against a real server: signing in, making, watching, changing, finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from duetime.api import Duetime
from duetime.app import build
from duetime.engine.clock import SECOND, SystemClock
from duetime.settings import Settings
from tests.support.agents import Served, serving
from tests.support.chromium import BEYOND, DESK, PHONE, ZONE, Complaints, address, link_of, picture, sign_in
from tests.support.drafts import every
from tests.support.lively import TASKS, lively
from tests.support.programs import processor_time

HOUSEHOLD = (
    TASKS
    + """
from pathlib import Path

@task
def mended() -> str:
    "Fails until somebody has mended it."
    if not Path("mended").exists():
        raise ConnectionError("the other side is down")
    return "works again"
"""
)
PAGES = {
    "now": "/",
    "timeline": "/timeline",
    "timeline-week": "/timeline?span=7d",
    "schedules": "/schedules",
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
PALE = """
() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const parts = rgba(colour).slice(0, 3).map(part => part / 255);
    const [red, green, blue] = parts.map(part => part <= 0.04 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (each) => {
    for (let box = each; box; box = box.parentElement) {
      const colour = getComputedStyle(box).backgroundColor;
      if (rgba(colour)[3] > 200) return light(colour);
    }
  };
  const found = new Set();
  for (const each of document.querySelectorAll("body *")) {
    const said = [...each.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!said || !each.checkVisibility() || each.closest(".unseen, .skip, title, option")) continue;
    const style = getComputedStyle(each);
    const [dark, bright] = [light(each.closest("svg") ? style.fill : style.color), behind(each)].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) found.add(`${each.tagName} ${each.textContent.trim()}`);
  }
  return [...found];
}
"""
"""What has less contrast than 4.5 to 1, which is what the accessibility guidelines ask of text of this size."""
LONGEST = 3.0
"""Seconds that the server may work at a page about 10,000 schedules."""


class Installation(NamedTuple):
    served: Served
    context: BrowserContext
    complaints: Complaints

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.goto(address(self.served, path))
        return page


@pytest.fixture(scope="module")
def installation(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A server with a day of history, and somebody who has signed in to it by the printed link."""
    folder = tmp_path_factory.mktemp("installation")
    lively(folder / "my.db")
    (folder / "household.py").write_text(HOUSEHOLD)
    with serving(folder, "--tasks", "household.py") as served:
        context = browser.new_context(viewport=DESK, timezone_id=ZONE, locale="en-GB")
        complaints = Complaints(context)
        page = context.new_page()
        sign_in(page, served)
        page.close()
        yield Installation(served, context, complaints)
        context.close()


@pytest.fixture
def page(installation: Installation) -> Iterator[Page]:
    opened = installation.open()
    yield opened
    opened.close()
    assert installation.complaints.found == []


def fill(page: Page, **fields: str) -> None:
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)


def create(page: Page) -> None:
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("Created.")


def made_job(installation: Installation, name: str, task: str, when: str) -> Page:
    page = installation.open("/new")
    fill(page, Name=name, Task=task, When=when)
    create(page)
    return page


# -- signing in -----------------------------------------------------------------------------------------------------


def test_the_link_signs_in_once_and_nothing_of_it_stays(installation: Installation, browser: Browser) -> None:
    with browser.new_context() as other:
        page = other.new_page()
        page.goto(link_of(installation.served))
        expect(page.get_by_role("alert")).to_have_text("The link was used before.")
        picture(page, "sign-in")
        [cookie] = [each for each in installation.context.cookies() if each["name"].startswith("duetime_session")]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie").count("session") == 0
        assert "token=" not in page.evaluate("document.referrer")


def test_a_pasted_token_signs_in_and_signing_out_ends_it(installation: Installation, browser: Browser) -> None:
    with browser.new_context() as other:
        page = other.new_page()
        page.goto(address(installation.served, "/schedules"))
        page.get_by_label("Or paste a token").fill(installation.served.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(address(installation.served, "/schedules"))
        expect(page.get_by_role("link", name="Exchange rates")).to_be_visible()
        cookies = other.cookies()
        page.locator("#menu summary").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        other.add_cookies(cookies)  # type: ignore[arg-type]  # as they were handed out
        page.goto(address(installation.served))
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


# -- making, and watching it fire -----------------------------------------------------------------------------------


def test_a_job_fires_before_ones_eyes(installation: Installation, page: Page) -> None:
    page.evaluate("window.stayed = true")
    expect(page.locator("#pulse")).to_have_text("Live")
    own_page = made_job(installation, "Before your eyes", "exchange_rates", "in 5 minutes")
    expect(own_page.locator("#history-card")).to_be_visible()
    coming = page.locator("#coming").get_by_text("Before your eyes")
    expect(coming).to_be_visible()
    picture(page, "before-it-fires")
    with Duetime(
        str(installation.served.folder / "my.db")
    ) as duetime:  # Only now: how soon a page shows it is not foreseen.
        duetime.edit(own_page.url.rpartition("/")[2], at="in 1 second")
    done = page.locator("#latest tr", has_text="Before your eyes")
    expect(done).to_contain_text("completed")
    expect(coming).to_have_count(0)
    assert page.evaluate("window.stayed") is True, "without loading the page again"
    expect(own_page.locator("#course")).to_contain_text("completed")
    expect(own_page.locator("#history-card")).to_be_hidden()
    own_page.close()


def test_a_page_follows_only_what_it_shows(installation: Installation, page: Page) -> None:
    """A form shows nothing that happens; a timeline, which asks much of the server, looks seldom."""
    clock = SystemClock()
    began = clock.monotonic()
    form, timeline = installation.context.new_page(), installation.context.new_page()
    asked: list[str] = []
    for each, path in ((form, "/new"), (timeline, "/timeline?span=7d")):
        each.on("request", lambda request: asked.append(request.url.removeprefix(address(installation.served, ""))))
        each.goto(address(installation.served, path))
    expect(timeline.locator("#pulse")).to_have_text("Live")
    made_job(installation, "Heard of elsewhere", "exchange_rates", "in 1 second").close()
    expect(page.locator("#latest")).to_contain_text("Heard of elsewhere")
    assert asked.count("/new") == 1
    assert asked.count("/timeline?span=7d") <= 1 + (clock.monotonic() - began) / 15
    assert asked.count("/api/v1/events") == 1, "the timeline listens, the form does not"
    expect(form.locator("#pulse")).to_be_hidden()
    form.close()
    timeline.close()


def test_a_trigger_is_explained_while_it_is_typed(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, "/new"))
    expect(page.get_by_role("button", name="Preview")).to_be_hidden()
    page.get_by_label("Cron", exact=True).check()
    page.get_by_label("Cron expression").fill("30 2 * * *")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("at 02:30")
    expect(preview.locator("li")).to_have_count(5)
    page.get_by_role("button", name="use that?").click()  # the browser is in Berlin, the server is not
    expect(page.get_by_label("Cron expression")).to_have_value("30 2 * * *")
    expect(preview).to_contain_text("does not exist in Europe/Berlin")
    page.get_by_label("Time zone").fill("America/New_York")
    expect(preview).to_contain_text("America/New_York")
    picture(page, "preview")
    page.get_by_label("Cron expression").fill("30 2 * *")
    expect(preview).to_contain_text("Invalid cron expression")
    page.get_by_label("Cron expression").fill("*/10 * * * * *")
    expect(preview.locator("li")).to_have_count(5)
    assert len({each.split("in ")[0] for each in preview.locator("li").all_inner_texts()}) == 5, "to the second"


def test_a_prompt_is_made(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, "/new?kind=prompt"))
    fill(page, Prompt="Look at the roses\nand say how they are", Send_the_result_to="garden")
    page.get_by_label("Every", exact=True).first.check()
    page.get_by_role("textbox", name="Every").fill("2")
    page.get_by_label("Unit").select_option("days")
    create(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Look at the roses and say how they are")
    expect(page.locator("#next time.countdown")).to_have_count(10)


def test_a_notification_is_made_and_arrives_in_the_inbox(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, "/new?kind=notification"))
    fill(page, Message="The kettle boils", Topic="kitchen", When="in 1 second")
    create(page)
    page.goto(address(installation.served, "/inbox?topic=kitchen"))
    expect(page.locator("#arrived")).to_contain_text("The kettle boils")


# -- changing -------------------------------------------------------------------------------------------------------


def test_edit_pause_resume_and_cancel(installation: Installation) -> None:
    page = made_job(installation, "To be changed", "exchange_rates", "tomorrow 9am")
    page.get_by_role("link", name="Edit").click()
    fill(page, Name="Has been changed")
    page.get_by_label("Cron", exact=True).check()
    page.get_by_label("Cron expression").fill("15 6 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.get_by_role("heading", level=1)).to_have_text("Has been changed")
    expect(page.locator("#next")).to_contain_text("06:15")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state")).to_contain_text("paused")
    expect(page.locator("#next")).to_contain_text("nothing fires until it is resumed")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state")).to_contain_text("scheduled")
    page.get_by_role("link", name="Cancel…").click()
    picture(page, "sure")
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#state")).to_contain_text("cancelled")
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("status")).to_contain_text("Deleted")
    page.close()


def test_many_are_paused_at_once(installation: Installation, page: Page) -> None:
    for number in range(3):
        made_job(installation, f"One of three, {number}", "exchange_rates", "tomorrow 9am").close()
    page.goto(address(installation.served, "/schedules?text=one+of+three"))
    page.get_by_label("Select all on this page").check()
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text("3 schedules paused.")


def test_a_dead_letter_is_tried_again(installation: Installation, page: Page) -> None:
    made_job(installation, "Until it is mended", "mended", "in 1 second").close()
    page.goto(address(installation.served, "/dead-letters"))
    row = page.locator(".problem", has_text="Until it is mended")
    expect(row).to_contain_text("the other side is down")
    picture(page, "dead-letter")
    (installation.served.folder / "mended").touch()
    row.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Retry selected").click()
    expect(page.get_by_role("status")).to_have_text("1 run requeued.")
    page.goto(address(installation.served))
    job = page.locator("#latest tr", has_text="Until it is mended").filter(has_not_text="notification")
    expect(job).to_contain_text("works again")


def test_what_needs_attention_is_resolved_and_undone(installation: Installation, page: Page) -> None:
    (installation.served.folder / "mended").unlink(missing_ok=True)
    made_job(installation, "Nobody mends it", "mended", "in 1 second").close()
    page.goto(address(installation.served))
    row = page.locator("#attention .item", has_text="Nobody mends it")
    expect(row).to_contain_text("the other side is down")
    picture(page, "attention")
    row.get_by_role("button", name="Resolve: Nobody mends it").click()
    expect(page.get_by_role("status")).to_contain_text("Resolved; it stays in the history.")
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("the other side is down")


# -- finding --------------------------------------------------------------------------------------------------------


def test_the_list_is_searched_and_filtered(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, "/schedules"))
    rows = page.locator("#rows tbody tr")
    page.get_by_label("Part of the name").fill("calendar")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Sync the family calendar")
    page.get_by_role("link", name="Clear").click()
    expect(rows).not_to_have_count(1)
    page.get_by_label("Status").select_option("paused")
    expect(page).to_have_url(re.compile("status=paused"))
    expect(page.locator("#rows")).to_contain_text("Weekly review")
    page.get_by_label("Kind").select_option("notification")
    expect(page).to_have_url(re.compile("kind=notification"))
    expect(page.locator("#rows")).not_to_contain_text("Weekly review")


def test_one_moves_along_the_timeline(installation: Installation, page: Page) -> None:
    page.goto(address(installation.served, "/timeline"))
    bars = page.locator(".timeline .bar")
    assert bars.count() > 50
    bars.nth(40).click()
    expect(page).to_have_url(re.compile(r"span=6h&from=\d+"))
    page.get_by_role("link", name="Later").click()
    page.get_by_role("link", name="Now", exact=True).last.click()
    expect(page).to_have_url(re.compile("span=6h$"))


EDGES = """
selector => [...document.querySelectorAll(selector)].map(each => each.getBoundingClientRect())
  .filter(box => box.width || box.height).map(box => [Math.round(box.left), Math.round(box.right)])
"""


@pytest.mark.parametrize("width", [DESK, PHONE], ids=["desk", "phone"])
def test_the_timeline_has_one_axis_and_labels_beside_each_other(
    installation: Installation, page: Page, width: ViewportSize
) -> None:
    page.set_viewport_size(width)
    page.goto(address(installation.served, "/timeline"))
    assert page.locator(".strip").count() > 5
    for drawn in (".chart, .strip", ".timeline line.here"):
        assert len({tuple(edges) for edges in page.evaluate(EDGES, drawn)}) == 1, drawn
    clocks_change = int(datetime(2027, 3, 27, 12, tzinfo=UTC).timestamp())
    starts = range(clocks_change, clocks_change + 86_400, 5 * 3600 + 900)
    for span, start in product(("24h", "7d"), starts):
        page.goto(address(installation.served, f"/timeline?span={span}&from={start}"))
        for labels in (".chart text.day", ".chart text.hour"):
            edges = sorted(page.evaluate(EDGES, labels))
            assert all(left[1] < right[0] for left, right in pairwise(edges)), (span, start, labels)


def test_ten_thousand_schedules_on_one_timeline(browser: Browser, tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = SystemClock().now()
    for part in range(10):
        periods = ((600 + 7 * number) * SECOND for number in range(part * 1000, part * 1000 + 1000))
        room.store.create([every(each, now, owner="local", name=f"every {each // SECOND} s") for each in periods])
    room.close()
    with serving(tmp_path) as served, browser.new_context(viewport=DESK, timezone_id=ZONE) as context:
        page = context.new_page()
        sign_in(page, served)
        for span in ("24h", "7d"):
            took = server_time_for(page, served, f"/timeline?span={span}")
            assert took < LONGEST, f"{took:.1f} s for {span}"
            picture(page, f"ten-thousand-{span}")
        assert page.locator(".timeline .bar").count() > 100
        page.goto(address(served, "/schedules"))
        expect(page.locator("#total")).to_have_text("1,000+ schedules")


def server_time_for(page: Page, served: Served, timeline: str) -> float:
    """Seconds of a processor: others keep the same cores busy, and a clock on the wall would measure them."""
    before = processor_time(served.process.pid)
    page.goto(address(served, timeline))
    expect(page.get_by_text("24 of 500 schedules")).to_be_visible(timeout=60_000)
    return processor_time(served.process.pid) - before


# -- everybody ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_fits_the_screen(
    installation: Installation, browser: Browser, scheme: str, width: ViewportSize
) -> None:
    """And is kept as a picture, to be looked at."""
    state = installation.context.storage_state()
    schedules = installation.open("/schedules")
    names = ("Sync the family calendar", "Call with Tokyo")
    calendar, call = (schedules.get_by_role("link", name=name).first.get_attribute("href") for name in names)
    schedules.close()
    own = {"schedule": calendar, "edit": f"{call}/edit"}
    with browser.new_context(storage_state=state, viewport=width, color_scheme=scheme, timezone_id=ZONE) as context:  # type: ignore[arg-type]
        complaints = Complaints(context)
        page = context.new_page()
        for name, path in {**PAGES, **own}.items():
            page.goto(address(installation.served, str(path)))
            beyond = page.evaluate(BEYOND)
            picture(page, f"{name}-{scheme}-{width['width']}")
            assert beyond <= 0, f"{name} is {beyond} px too wide"
            assert page.evaluate(PALE) == [], f"{name} has words that are hard to read"
            assert [each for each in page.evaluate(EDGES, "nav a") if each[1] > width["width"]] == [], "cut off"
        assert complaints.found == []


def test_everything_is_reached_by_the_keyboard(installation: Installation, page: Page) -> None:
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.goto(address(installation.served, "/schedules"))
    page.get_by_label("Part of the name").focus()
    reached = {"Tab": "document.activeElement.name === 'id'", "Shift+Tab": "document.activeElement.value === 'pause'"}
    for key, value in reached.items():
        for _ in range(40):
            page.keyboard.press(key)
            if page.evaluate(value):
                break
        if key == "Tab":
            page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Pause"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')]"
        ".filter(each => !each.labels?.length && !each.ariaLabel && !each.textContent.trim()).length"
    )
    assert unnamed == 0, "every control has a name"


def test_without_a_script_it_works_as_well(installation: Installation, browser: Browser) -> None:
    state = installation.context.storage_state()
    with browser.new_context(storage_state=state, java_script_enabled=False, viewport=DESK) as context:
        page = context.new_page()
        page.goto(address(installation.served, "/new"))
        fill(page, Name="Without a script", Task="exchange_rates", When="in 2 days")
        page.get_by_role("button", name="Preview").click()
        expect(page.locator("#preview li")).to_have_count(1)
        expect(page.get_by_label("Name", exact=True)).to_have_value("Without a script")
        create(page)
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state")).to_contain_text("paused")
        page.get_by_role("link", name="Delete…").click()
        page.get_by_role("button", name="Delete it").click()
        expect(page.get_by_role("status")).to_contain_text("Deleted")
        page.goto(address(installation.served))
        expect(page.locator("#coming tr")).not_to_have_count(0)
