"""New and edit, inbox, settings and connecting an agent, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from duetime.api import Duetime
from tests.support.agents import Served, serving
from tests.support.chromium import DESK, PHONE, ZONE, Complaints, address, copied_text, picture, serious, sign_in

TASKS = """
from typing import Literal
from duetime import task

@task
def sync_crm(account: str, limit: int = 50, mode: Literal["full", "delta"] = "delta", dry_run: bool = False) -> str:
    "Sync one account of the CRM."
    return f"{account} {limit} {mode} {dry_run}"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "tasks.py").write_text(TASKS)
    with serving(folder, "--tasks", "tasks.py") as there:
        yield there


@pytest.fixture(scope="module")
def signed_in(browser: Browser, served: Served) -> Iterator[Page]:
    context = browser.new_context(
        viewport=DESK,
        timezone_id=ZONE,
        locale="en-GB",
        permissions=["clipboard-read", "clipboard-write"],
        reduced_motion="reduce",  # a notice that is still fading in has too little contrast
    )
    complaints = Complaints(context)
    page = context.new_page()
    sign_in(page, served)
    yield page
    assert [each for each in complaints.found if "422" not in each] == [], "refused forms are answered with 422"
    context.close()


@pytest.fixture
def page(signed_in: Page, served: Served) -> Page:
    signed_in.set_viewport_size(DESK)
    return signed_in


def accessible(page: Page) -> None:
    assert serious(page) == []


def test_first_steps_are_offered(page: Page, served: Served) -> None:
    page.goto(address(served, "/"))
    expect(page.get_by_role("heading", name="Create your first schedule")).to_be_visible()
    page.get_by_role("button", name="Copy").click()
    assert copied_text(page, containing="mcp")
    accessible(page)
    picture(page, "first-steps")
    page.get_by_role("button", name="Send yourself a test").click()
    page.wait_for_url(re.compile("/schedules/msg_"))
    page.goto(address(served, "/inbox"))
    expect(page.locator(".message", has_text="This is a test")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").locator(".badge")).to_have_text("1")


def test_a_job_is_created_from_the_signature_of_its_task(page: Page, served: Served) -> None:
    page.goto(address(served, "/new?kind=job"))
    page.get_by_label("Task", exact=True).fill("sync_crm")
    page.get_by_label("Task", exact=True).press("Tab")
    expect(page.get_by_label("Account")).to_be_visible()
    page.get_by_label("Limit (optional)").fill("many")
    page.get_by_role("button", name="Weekdays").click()
    expect(page.locator("#preview")).to_contain_text("Monday through Friday")
    page.get_by_text("Retries & limits").click()
    page.get_by_label("Timeout").fill("soon")
    page.get_by_role("button", name="Create").click()
    alert = page.locator("#problem")
    needed = "account: missing; the task sync_crm needs it"
    for problem in (needed, "limit: must be a number", "Timeout: must be a duration"):
        expect(alert).to_contain_text(problem)
    expect(page.locator("[aria-invalid=true]")).to_have_count(3)
    accessible(page)
    picture(page, "new-with-errors")
    page.get_by_label("Limit (optional)").fill("7")
    page.get_by_label("Timeout").fill("5m")
    page.get_by_role("button", name="Create").click()
    expect(alert).to_have_text(needed)
    expect(page.get_by_label("Account")).to_be_focused()
    page.get_by_label("Account").fill("acme")
    page.get_by_label("Dry run (optional)").select_option("true")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status").first).to_contain_text("Created.")
    page.goto(page.url.partition("?")[0] + "/edit")
    expect(page.get_by_label("Account")).to_have_value("acme")
    expect(page.get_by_label("Limit (optional)")).to_have_value("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("Nothing was changed.")


def test_switching_the_kind_keeps_what_was_typed(page: Page, served: Served) -> None:
    page.goto(address(served, "/new?kind=prompt"))
    page.get_by_label("Prompt").fill("Water the plants")
    page.get_by_label("When", exact=True).fill("every friday at 17:00")
    page.get_by_role("button", name="Tell a person").click()
    expect(page.get_by_label("Message")).to_have_value("Water the plants")
    expect(page.get_by_label("When", exact=True)).to_have_value("every friday at 17:00")
    page.get_by_label("Topic").fill("garden")
    page.get_by_role("button", name="Wake an agent").click()
    expect(page.get_by_label("Prompt")).to_have_value("Water the plants")
    page.get_by_role("button", name="Tell a person").click()
    expect(page.get_by_label("Topic")).to_have_value("garden")


def test_times_are_chosen_and_explained(page: Page, served: Served) -> None:
    page.goto(address(served, "/new?kind=notification"))
    preview = page.locator("#preview")
    page.get_by_label("Rule", exact=True).check()
    expect(preview).to_contain_text("The next times are shown here.")
    expect(page.locator("#preview .error")).to_have_count(0)
    page.get_by_label("Cron", exact=True).check()
    page.get_by_label("Cron expression").fill("61 9 * * MON")
    expect(preview).to_contain_text("the minute cannot be '61': use 0-59")
    page.get_by_label("Once", exact=True).check()
    page.get_by_label("Pick a date and time").fill("2031-05-04T15:30")
    expect(preview).to_contain_text("15:30")
    expect(page.get_by_label("At", exact=True)).to_have_value("2031-05-04 15:30")
    page.locator("#trigger summary").click()
    expect(page.get_by_label("When clocks change")).to_be_hidden()
    page.get_by_label("Cron", exact=True).check()
    expect(page.get_by_label("When clocks change")).to_be_visible()


def test_messages_and_prompts_are_dealt_with(page: Page, served: Served) -> None:
    with Duetime(str(served.folder / "my.db")) as duetime:
        duetime.notify("**Deploy done**, see [log](https://example.org)", topic="deploys", at="now", priority=5)
        duetime.prompt("Look at the *build*", at="now")
    page.goto(address(served, "/inbox"))
    message = page.locator(".message", has_text="Deploy done")
    expect(message.locator(".gist")).to_contain_text("Deploy done")
    message.locator("summary").first.click()
    expect(message.locator("strong", has_text="Deploy done")).to_be_visible()
    expect(message.get_by_text("Urgent")).to_be_visible()
    prompt = page.locator(".prompt", has_text="Look at the")
    expect(prompt).to_be_visible()
    accessible(page)
    for name, size in (("inbox-desk", DESK), ("inbox-phone", PHONE)):
        page.set_viewport_size(size)
        picture(page, name)
    prompt.get_by_text("Answer it yourself").click()
    prompt.get_by_label("Answer").fill("It is green.")
    with Duetime(str(served.folder / "my.db")) as duetime:
        duetime.notify("Another message", topic="deploys", at="now")
    expect(page.locator(".gist", has_text="Another message")).to_be_visible()
    expect(prompt.get_by_label("Answer")).to_have_value("It is green.")
    prompt.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("status").first).to_contain_text("Answered.")
    expect(page.locator(".prompt")).to_have_count(0)
    message.get_by_role("button", name=re.compile("as read")).click()
    expect(page.locator(".message.unread", has_text="Deploy done")).to_have_count(0)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_role("navigation", name="Pages").locator("a[href='/inbox'] .badge")).to_have_count(0)


def test_settings_test_a_channel_and_issue_a_token(page: Page, served: Served) -> None:
    page.goto(address(served, "/settings"))
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    accessible(page)
    picture(page, "settings")
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_role("button", name="Issue a token").click()
    token = page.locator("#issued-token").inner_text()
    whoami, bearer = address(served, "/api/v1/whoami"), {"Authorization": f"Bearer {token}"}
    assert page.request.get(whoami, headers=bearer).json()["owner"] == "ada@example.org"
    page.goto(address(served, "/settings"))
    expect(page.get_by_text(token)).to_have_count(0)
    page.locator("tr", has_text="ada@example.org").get_by_role("button", name=re.compile("Revoke")).click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status").first).to_contain_text("revoked")
    assert page.request.get(whoami, headers=bearer).status == 401
    page.get_by_role("button", name="Test inbox").click()
    expect(page).to_have_url(re.compile("/schedules/msg_"))


def test_an_agent_is_connected_by_copying(page: Page, served: Served) -> None:
    page.goto(address(served, "/connect"))
    page.get_by_role("button", name="Copy").first.click()
    assert copied_text(page, containing="claude").startswith("claude mcp add duetime -- ")
    accessible(page)
    picture(page, "connect")
