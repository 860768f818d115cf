"""The frame around all pages: navigation with counts, theme, time zone, help, and undoing a change."""

from __future__ import annotations

import re

import pytest

from duetime.engine.kind import Caller
from duetime.engine.model import ScheduleState
from duetime.kinds.jobs.registry import Task
from tests.support.browsing import Browser, found, made, page_of, signed_in_as, words, working
from tests.support.web import Reply, Site
from tests.support.workers import eventually


def cookies(reply: Reply) -> str:
    return reply.headers.get("set-cookie", "")


def test_a_theme_is_kept_in_a_cookie_without_a_script(served: Site, local: Browser) -> None:
    reply = local.send("/preferences", {"theme": "dark", "to": "/timeline?span=7d"})
    assert (reply.status, reply.headers["location"]) == (303, "/timeline?span=7d&did=chosen")
    assert re.match("duetime_theme=dark; HttpOnly; Max-Age=31536000; Path=/; SameSite=strict", cookies(reply))
    dark = Browser(served, f"{local.cookie}; duetime_theme=dark")
    assert b'data-theme="dark"' in dark.get("/").body
    assert b'data-theme="dark"' in served.ask("GET", "/login", {"Cookie": "duetime_theme=dark"}).body
    assert b"data-theme" not in Browser(served, f"{local.cookie}; duetime_theme=%22onload").get("/").body
    auto = dark.send("/preferences", {"theme": "auto", "to": "/"})
    assert "duetime_theme=" in cookies(auto) and "Max-Age=0" in cookies(auto)


def test_a_zone_is_chosen_and_overrules_the_browsers(served: Site, local: Browser) -> None:
    reply = local.send("/preferences", {"zone": "Asia/Tokyo", "to": "/"})
    assert "duetime_zone_choice" in cookies(reply)
    chosen = Browser(served, f"{local.cookie}; duetime_zone_choice=Asia/Tokyo", "Europe/Berlin")
    assert "Times in Asia/Tokyo" in chosen.text("/")
    assert "Times in Europe/Berlin" in Browser(served, local.cookie, "Europe/Berlin").text("/")
    wrong = local.send("/preferences", {"zone": "Mars/Olympus", "to": "/"})
    assert wrong.status == 422 and "Mars/Olympus" in words(wrong) and not cookies(wrong)
    assert "Max-Age=0" in cookies(local.send("/preferences", {"zone": "", "to": "/"}))


def test_a_form_leads_back_to_our_own_pages_alone(local: Browser) -> None:
    for elsewhere in ("https://example.org/", "//example.org", "/\\example.org", "/nowhere", ""):
        reply = local.send("/preferences", {"theme": "light", "to": elsewhere})
        assert reply.headers["location"] == "/?did=chosen", elsewhere


def test_the_navigation_counts_what_failed(served: Site) -> None:
    """The same number as on the pages themselves."""

    def fail() -> None:
        raise ValueError("no luck")

    served.room.registry.add(Task(fail, name="fails_always"))
    browser = signed_in_as(served, "counting")
    assert b'class="badge' not in browser.get("/help").body
    with working(served):
        for _ in range(2):
            now, never = ("once", {"run_at": "now"}), {"max_attempts": 1}
            made(served, "unlucky", now, owner="counting", payload={"task": "fails_always"}, policy=never)
        eventually(lambda: "Dead letters 2" in browser.text("/help"), 20, "both failed")
    assert "2 failed runs to deal with" in browser.get("/schedules").body.decode()
    assert "Dead letters 2" not in signed_in_as(served, "another").text("/help")


def test_help_lists_every_shortcut_and_who_one_is(local: Browser) -> None:
    page = local.text("/help")
    for said in ("Ctrl K", "Open the command palette", "g s Go to Schedules", "g i Go to Inbox", "signed in as local"):
        assert said in page, said
    assert re.search(r"Duetime \d+\.\d+", page)


def test_pausing_and_resuming_are_undone(served: Site, local: Browser) -> None:
    schedule = made(served, "paused by mistake")
    for action, done, back in (("pause", "paused", "active"), ("resume", "resumed", "paused")):
        reply = local.send(page_of(schedule, action), {})
        place = reply.headers["location"]
        assert re.fullmatch(rf"{page_of(schedule)}\?did={done}&undo=[0-9a-f]{{16}}", place)
        key = place.partition("undo=")[2]
        assert f'name="undo" value="{key}"' in local.get(place).body.decode()
        assert "Undo" not in local.text(page_of(schedule)), "the notice is shown once"
        undone = local.send("/undo", {"undo": key, "to": page_of(schedule)})
        assert undone.headers["location"] == f"{page_of(schedule)}?did=undone"
        assert found(served, schedule).progress.state == back
        assert "no longer be undone" in local.follow(local.send("/undo", {"undo": key, "to": "/"})), "only once"
        if action == "pause":
            served.room.scheduler.pause(Caller("local"), schedule.definition.public_id)


def test_nobody_undoes_what_another_did(served: Site, local: Browser) -> None:
    schedule = made(served, "paused by its owner")
    place = local.send(page_of(schedule, "pause"), {}).headers["location"]
    stranger = signed_in_as(served, "stranger")
    key = place.partition("undo=")[2]
    assert "no longer be undone" in stranger.follow(stranger.send("/undo", {"undo": key, "to": "/"}))
    assert found(served, schedule).progress.state == ScheduleState.PAUSED
    assert "Undo" not in stranger.text(f"/?did=paused&undo={key}")


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_the_end_of_a_schedule_can_be_undone(served: Site, local: Browser, action: str) -> None:
    schedule = made(served, f"to {action}")
    place = local.send(page_of(schedule, action), {}).headers["location"]
    local.send("/undo", {"undo": place.partition("undo=")[2], "to": "/"})
    assert found(served, schedule).progress.state == ScheduleState.ACTIVE


def test_what_changes_nothing_offers_no_undo(served: Site, local: Browser) -> None:
    schedule = made(served, "as it was")
    assert "undo=" not in local.send(page_of(schedule, "resume"), {}).headers["location"]
    local.send(page_of(schedule, "pause"), {})
    assert "undo=" not in local.send(page_of(schedule, "pause"), {"note": "longer"}).headers["location"]
