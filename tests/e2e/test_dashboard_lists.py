"""Lists that hold still, one line for each row, keys on every list, and what the command palette puts first."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from duetime.api import Duetime
from duetime.engine.clock import SystemClock
from duetime.engine.policy.follow_ups import MESSAGE_KEY
from tests.support.agents import Served
from tests.support.chromium import BEYOND, PHONE, ZONE, address
from tests.support.drafts import once
from tests.support.lively import failing_server

SCREEN: ViewportSize = {"width": 1440, "height": 900}
CALENDAR = "Sync the family calendar"
LISTS = {
    "/schedules": "#rows [data-row]",
    "/runs": "#rows [data-row]",
    "/inbox": "#arrived [data-row]",
    "/dead-letters": "#rows [data-row]",
    "/settings/events": "#events [data-row]",
    "/": "#attention [data-row]",
}
"""Every list that has an address of its own, and its rows."""
ON_SCREEN = """
rows => rows.map(each => each.getBoundingClientRect()).filter(box => box.top >= 0 && box.bottom <= innerHeight).length
"""
HEIGHTS = "rows => rows.map(each => each.getBoundingClientRect().height)"
TOPMOST = """
each => { const box = each.getBoundingClientRect();
  return each.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)) }
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on which much has failed, with more schedules than a screen holds, and with events."""
    with failing_server(tmp_path_factory.mktemp("lists"), 45) as server:
        told = {"kind": "notification", "owner": "local", "payload": '{"message": "It failed.", "topic": "me"}'}
        now = SystemClock().now()
        with Duetime(str(server.folder / "my.db")) as duetime:
            for number in range(3):
                message = once(now, **told, name=f"{CALENDAR} failed", key=f"{MESSAGE_KEY}{number}.1")
                duetime.app.store.create([message])
            duetime.prompt("Say hello", agent="inbox", name="Greeting", at="in 9 days", tagged=["weekly"])
            for name in ("deploy.done", "door.opened", "door.closed"):
                duetime.emit(name, {"by": "a test"})
        yield server


@pytest.fixture(scope="module")
def viewport() -> ViewportSize:
    return SCREEN


@pytest.fixture
def duetime(served: Served) -> Iterator[Duetime]:
    with Duetime(str(served.folder / "my.db")) as opened:
        yield opened


def names(page: Page) -> Locator:
    return page.locator("#rows a.name")


def listed(duetime: Duetime, page: Page, served: Served, group: str) -> list[str]:
    """Create five schedules, open the list of them, soonest first, and return their ids."""
    prompts = [
        duetime.prompt("Say hello", agent="inbox", name=f"{group} {number}", at=f"in {number + 5} days")
        for number in range(5)
    ]
    page.goto(address(served, f"/schedules?text={group}"))
    expect(page.locator("#pulse")).to_have_text("Live")
    expect(names(page)).to_have_text([f"{group} {number}" for number in range(5)])
    return [each.id for each in prompts]


# -- rows that stay in place ----------------------------------------------------------------------------------------


def test_going_back_selects_no_other_rows(page: Page, served: Served, duetime: Duetime) -> None:
    """A browser restores what was typed by its place on the page, where another row may be by then."""
    ids = listed(duetime, page, served, "back")
    page.locator(f"#rows input[value='{ids[1]}']").check()
    names(page).nth(1).click()
    page.wait_for_url("**/schedules/**")
    duetime.cancel(ids[0])
    page.go_back()
    expect(names(page)).to_have_count(4)
    checked = page.locator("#rows input:checked").evaluate_all("boxes => boxes.map(each => each.value)")
    assert set(checked) <= {ids[1]}


def test_no_row_moves_under_the_pointer(page: Page, served: Served, duetime: Duetime) -> None:
    ids = listed(duetime, page, served, "Pointed")
    names(page).nth(3).hover()
    duetime.edit(ids[4], at="in 1 day")
    duetime.edit(ids[1], name="Pointed, renamed")
    changes = page.get_by_role("button", name="1 change", exact=True)
    expect(changes).to_be_visible()
    expect(names(page), "cells follow, the order does not").to_have_text(
        ["Pointed 0", "Pointed, renamed", "Pointed 2", "Pointed 3", "Pointed 4"]
    )
    expect(page.locator("#rows tr", has_text="Pointed 4")).to_contain_text("in 23 h")
    duetime.delete(ids[2])
    expect(page.get_by_role("button", name="2 changes", exact=True)).to_be_visible()
    expect(page.locator("#rows tr.gone")).to_contain_text("Pointed 2")
    page.get_by_role("button", name="2 changes", exact=True).click()
    expect(names(page)).to_have_text(["Pointed 4", "Pointed 0", "Pointed, renamed", "Pointed 3"])
    expect(page.locator("button.changes")).to_have_count(0)
    names(page).nth(3).hover()
    duetime.edit(ids[0], at="in 20 days")
    expect(changes).to_be_visible()
    page.mouse.move(5, 5)
    expect(names(page), "nobody is there any more").to_have_text(
        ["Pointed 4", "Pointed, renamed", "Pointed 3", "Pointed 0"]
    )


def test_no_row_moves_under_the_keyboard_and_a_key_applies_what_waits(
    page: Page, served: Served, duetime: Duetime
) -> None:
    ids = listed(duetime, page, served, "Focused")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(names(page).nth(1)).to_be_focused()
    duetime.edit(ids[4], at="in 1 day")
    expect(page.get_by_role("button", name="1 change", exact=True)).to_be_visible()
    expect(names(page).nth(1), "and it keeps the focus").to_be_focused()
    page.keyboard.press("r")
    expect(names(page)).to_have_text(["Focused 4", "Focused 0", "Focused 1", "Focused 2", "Focused 3"])
    expect(names(page).nth(2), "the focus is on the same schedule").to_be_focused()
    page.keyboard.press("k")
    expect(names(page).nth(1)).to_be_focused()


def test_a_selection_survives_what_happens(page: Page, served: Served, duetime: Duetime) -> None:
    ids = listed(duetime, page, served, "Chosen")
    page.get_by_label("Select Chosen 2").check()
    page.mouse.move(5, 5)
    duetime.edit(ids[4], at="in 1 day")
    expect(page.get_by_role("button", name="1 change", exact=True)).to_be_visible()
    page.get_by_role("button", name="1 change", exact=True).click()
    expect(names(page).first).to_have_text("Chosen 4")
    expect(page.get_by_label("Select Chosen 2")).to_be_checked()
    expect(page.get_by_text("1 selected")).to_be_visible()


# -- density --------------------------------------------------------------------------------------------------------


def test_a_screen_has_twenty_rows_unless_comfortable_ones_were_chosen(page: Page, served: Served) -> None:
    rows = page.locator("#rows tbody tr")
    page.goto(address(served, "/schedules"))
    assert rows.evaluate_all(ON_SCREEN) >= 20
    page.locator("#menu summary").click()
    page.get_by_role("button", name="Comfortable").click()
    expect(page.locator("html")).to_have_attribute("data-density", "comfortable")
    assert rows.evaluate_all(ON_SCREEN) < 20
    page.goto(address(served, "/preferences"))
    page.get_by_label("Compact").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html[data-density]")).to_have_count(0)
    for path, rows_there in LISTS.items():
        page.goto(address(served, path))
        if path != "/":
            assert max(page.locator(rows_there).evaluate_all(HEIGHTS)) <= 36, f"one line each in {path}"
    page.goto(address(served, f"/schedules?text={CALENDAR}"))
    names(page).first.click()
    assert max(page.locator("#history [data-row]").evaluate_all(HEIGHTS)) <= 36


def test_lists_fit_a_phone(browser: Browser, context: BrowserContext, served: Served) -> None:
    with browser.new_context(storage_state=context.storage_state(), viewport=PHONE, timezone_id=ZONE) as own:
        page = own.new_page()
        for path, rows in LISTS.items():
            page.goto(address(served, path))
            expect(page.locator(rows).first).to_be_visible()
            assert page.evaluate(BEYOND) <= 0, path
        page.goto(address(served, "/inbox"))
        page.locator("#arrived [data-row] input").first.check()
        expect(page.get_by_role("group", name="Actions on the selected messages")).to_be_in_viewport()


def test_the_actions_on_a_selection_stay_on_the_screen(page: Page, served: Served) -> None:
    page.goto(address(served, "/schedules"))
    page.locator("#rows tbody input").first.check()
    pause = page.get_by_role("group", name="Actions on the selected schedules").get_by_role("button", name="Pause")
    page.mouse.wheel(0, 1200)
    page.wait_for_function("scrollY > 300")
    expect(pause).to_be_in_viewport()
    assert pause.evaluate(TOPMOST), "and nothing lies above it"
    page.keyboard.press("Escape")
    for _ in range(30):
        page.keyboard.press("j")
    focused = page.locator("#rows a.name:focus")
    expect(focused).to_be_in_viewport()
    assert focused.evaluate(TOPMOST)
    for _ in range(28):
        page.keyboard.press("k")
    assert focused.evaluate(TOPMOST), "the bars at the top do not cover the row either"


# -- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LISTS)
def test_keys_move_along_every_list(page: Page, served: Served, path: str) -> None:
    page.goto(address(served, path))
    rows = page.locator(LISTS[path])
    expect(rows.nth(1)).to_be_visible()
    place = page.locator("[data-row]").evaluate_all("(all, first) => all.indexOf(first)", rows.first.element_handle())
    for key in ["j"] * (place + 2) + ["k"]:
        page.keyboard.press(key)
    expect(page.locator(".at-row")).to_have_count(1)
    expect(rows.first).to_have_class(re.compile("at-row"))
    assert rows.first.evaluate("each => each.contains(document.activeElement)"), "Enter works as well"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "and it can be seen"
    boxes = rows.first.locator("input[type=checkbox]")
    if boxes.count():
        for checked in (True, False):
            page.keyboard.press("x")
            expect(boxes.first).to_be_checked(checked=checked)
    details = rows.first.locator("summary[data-open]")
    page.keyboard.press("o")
    if details.count():
        expect(rows.first.locator("details").first).to_have_attribute("open", "")
    else:
        expect(page).to_have_url(re.compile("/(schedules|runs)/"))


def test_keys_move_along_the_runs_of_a_schedule(page: Page, served: Served) -> None:
    page.goto(address(served, f"/schedules?text={CALENDAR}"))
    names(page).first.click()
    expect(page.locator("#history")).to_be_visible()
    expect(page.locator("#pulse")).to_have_text("Live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("#history [data-row]").nth(1)).to_have_class(re.compile("at-row"))
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(r"/runs/\d+"))
    page.go_back()
    page.locator("#history [data-row]:has(.is-failed) a.outcome").first.focus()
    page.keyboard.press("x")
    bar = page.get_by_role("group", name="Actions on the selected runs")
    expect(bar).to_contain_text("1 selected")
    bar.get_by_role("button", name="Resolve").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 run resolved")
    expect(page).to_have_url(re.compile("/runs.*schedule=job_"))


def test_only_lists_whose_rows_can_be_selected_offer_that(page: Page, served: Served) -> None:
    overlay = page.get_by_role("dialog", name="Keyboard shortcuts")
    for path, number in (("/schedules", 1), ("/settings/events", 0)):
        page.goto(address(served, path))
        page.keyboard.press("?")
        expect(overlay).to_contain_text("Open the row")
        expect(overlay.get_by_text("Select the row")).to_have_count(number)


def test_messages_are_marked_by_keys(page: Page, served: Served) -> None:
    page.goto(address(served, "/inbox?show=unread"))
    number = page.locator("#arrived .message").count()
    first = page.locator("#arrived .message:has(input)").first
    first.locator("summary").first.focus()
    page.keyboard.press("x")
    bar = page.get_by_role("group", name="Actions on the selected messages")
    bar.get_by_role("button", name="Mark as read").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("marked as read")
    expect(page.locator("#arrived .message")).to_have_count(number - 1)


def test_what_needs_attention_is_resolved_by_keys(page: Page, served: Served) -> None:
    page.goto(address(served))
    boxes = page.locator("#attention [data-row] input")
    number = boxes.count()
    assert number >= 2
    for _ in range(30):
        page.keyboard.press("j")
        if page.evaluate("document.querySelector('.at-row input') !== null"):
            break
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_role("group", name="Actions on the selected").get_by_role("button", name="Resolve").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Resolved")
    expect(boxes).to_have_count(number - 1)
    page.get_by_role("button", name="Undo").click()
    expect(boxes).to_have_count(number)


# -- the command palette --------------------------------------------------------------------------------------------


def search(page: Page, text: str) -> Locator:
    """Type into the palette, and return its options once the server has answered."""
    if not page.locator("dialog.palette[open]").count():
        page.keyboard.press("Control+k")
    with page.expect_response(lambda reply: "/find?" in reply.url):
        page.get_by_role("combobox", name=re.compile("Search actions")).fill(text)
    return page.get_by_role("dialog", name="Command palette").get_by_role("option")


def test_the_palette_puts_first_what_is_meant(page: Page, served: Served) -> None:
    page.goto(address(served))
    options = search(page, "sync")
    expect(options.first).to_contain_text(CALENDAR)
    expect(options.filter(has_text="failed").first, "messages about it are found").to_be_attached()
    texts = options.all_inner_texts()
    late = [at for at, text in enumerate(texts) if "failed" in text]
    assert late and min(late) > max(at for at, text in enumerate(texts) if text.startswith(CALENDAR + "\n"))
    short = str(re.search(r"\b[a-z]\d+\b", texts[0])[0])  # type: ignore[index]
    expect(search(page, short).first).to_contain_text(CALENDAR)
    expect(search(page, "sycn").first).to_contain_text(CALENDAR)
    expect(search(page, "run 7").first).to_contain_text("Run 7")
    expect(search(page, "7").filter(has_text="Run 7"), "after the schedules with 7 in their name").to_have_count(1)
    texts = page.get_by_role("dialog", name="Command palette").get_by_role("option").all_inner_texts()
    assert texts[0].startswith("Nightly ") and [each for each in texts if "job" in each][-1].startswith("Nightly ")
    expect(search(page, "timel").first).to_contain_text("Go to Timeline")
    expect(search(page, "wekly").first).to_contain_text("Tag weekly")
    expect(search(page, "go to inbxo").first).to_contain_text("Go to Inbox")
    page.get_by_role("combobox", name=re.compile("Search actions")).fill(short)
    page.keyboard.press("Enter")  # before the server has answered
    page.wait_for_url("**/schedules/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(CALENDAR)


def test_the_actions_of_a_page_come_first(page: Page, served: Served) -> None:
    page.goto(address(served, "/schedules?text=nightly"))
    names(page).first.click()
    page.wait_for_url("**/schedules/job_*")  # and until its scripts have loaded, which take the key
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    expect(palette.get_by_role("option").first).to_have_text("Pause")
    for typed in ("pause", "puase"):
        expect(search(page, typed).first).to_have_text("Pause")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Paused")


@pytest.mark.parametrize(
    ("path", "typed", "label", "outcome"),
    [
        ("/runs?error=refused", "retry", "Retry all matching runs", "Retry .* runs"),
        ("/dead-letters", "retyr", "Retry all runs", "Retry dead letters?"),
        ("/inbox?show=unread", "mark", "Mark all messages as read", "Inbox"),
    ],
)
def test_the_actions_of_a_list_come_first(
    page: Page, served: Served, path: str, typed: str, label: str, outcome: str
) -> None:
    page.goto(address(served, path))
    expect(search(page, typed).first).to_have_text(label)
    expect(page.get_by_role("option", name="selected"), "as long as no row is").to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(outcome))
    if path.startswith("/inbox"):
        expect(page.get_by_role("status")).to_contain_text("marked as read")


@pytest.mark.parametrize(
    ("path", "row", "label"),
    [
        ("/schedules?text=nightly", r"Pause Nightly .+", "Pause the selected schedules"),
        ("/runs?status=failed", r"Resolve run \d+ of .+", "Resolve the selected runs"),
        ("/dead-letters", r"Resolve \d+ runs? of .+", "Resolve the selected runs"),
    ],
)
def test_the_actions_of_the_current_row_come_before_those_of_the_page(
    page: Page, served: Served, path: str, row: str, label: str
) -> None:
    page.goto(address(served, path))
    page.keyboard.press("j")
    while page.locator(".at-row").get_by_text("resolved", exact=True).count():  # by another test
        page.keyboard.press("j")
    for key in ("x", "Control+k"):
        page.keyboard.press(key)
    word = label.partition(" ")[0]
    first, second = search(page, word).nth(0), search(page, word).nth(1)
    expect(first).to_have_text(re.compile(row))
    expect(second).to_have_text(label)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text(re.compile("Paused|esolved"))


def test_a_name_finds_what_has_it_before_any_action_on_it(page: Page, served: Served, duetime: Duetime) -> None:
    """Whoever types the name of a schedule or a page, or the number of a run, and Enter must not run or retry it."""
    listed(duetime, page, served, "Run backup")
    page.keyboard.press("j")
    for name in ("Run backup 0", "backup 0"):
        options = search(page, name)
        expect(options.first).to_have_text(re.compile("^Run backup 0"))
        expect(options.filter(has_text="Run now Run backup 0"), "but is offered").to_have_count(1)
    expect(search(page, "run now").first).to_have_text("Run now Run backup 0")
    page.goto(address(served, "/runs?status=failed"))
    page.keyboard.press("j")
    number = page.locator(".at-row").get_attribute("data-row")
    assert number
    expect(search(page, number).first).to_contain_text(f"Run {number}")
    expect(search(page, "runs").first).to_have_text(re.compile("^Go to Runs"))


def test_the_palette_acts_on_a_prompt_that_waits_for_an_agent(page: Page, served: Served) -> None:
    page.goto(address(served, "/inbox"))
    page.keyboard.press("j")
    name = page.locator("#waiting .at-row a").first.inner_text()
    expect(search(page, "dismiss").first).to_have_text(f"Dismiss {name}")


def test_the_palette_acts_on_the_row_that_has_the_focus(page: Page, served: Served, duetime: Duetime) -> None:
    listed(duetime, page, served, "Aimed at")
    names(page).nth(2).focus()
    expect(search(page, "run").first, "also without j").to_have_text("Run now Aimed at 2")
    page.keyboard.press("Escape")
    names(page).nth(0).focus()
    page.keyboard.press("j")
    page.locator("#rows [data-row]").nth(3).get_by_role("checkbox").click()
    expect(search(page, "run").first).to_have_text("Run now Aimed at 3")


def test_the_box_in_the_header_is_the_palette(page: Page, served: Served) -> None:
    page.goto(address(served))
    palette = page.get_by_role("dialog", name="Command palette")
    box = page.locator("#finder")
    box.click()
    expect(palette).to_be_visible()
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    box.focus()
    page.keyboard.type("calendar")
    expect(palette.get_by_role("combobox")).to_have_value("calendar")
    expect(palette.get_by_role("option").first).to_contain_text(CALENDAR)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    expect(palette, "this page has no filter").to_be_visible()
    page.keyboard.press("Escape")
    page.goto(address(served, "/schedules"))
    page.keyboard.press("/")
    expect(page.get_by_label("Part of the name")).to_be_focused()
