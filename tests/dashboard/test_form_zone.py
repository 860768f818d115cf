"""What is typed in the dashboard is read in the configured zone; the browser's zone changes how times are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.support.browsing import Browser, made, page_of, signed_in, signed_in_as
from tests.support.web import Site, site

AT_NINE = {"kind": "job", "task": "echo", "when": "phrase", "phrase": "every day at 9", "intent": "save"}


@pytest.fixture(scope="module")
def berlin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("berlin"), timezone="Europe/Berlin") as made:
        yield made


@pytest.fixture
def abroad(berlin: Site) -> Browser:
    return signed_in(berlin, "America/New_York")


def zone_field(page: str) -> str:
    found = re.search(r'<input id="timezone" name="timezone"[^>]* value="([^"]*)"', page)
    assert found is not None
    return found[1]


def stored_zone(berlin: Site, location: str) -> str:
    schedule = berlin.room.store.find(location.partition("/schedules/")[2].partition("?")[0])
    assert schedule is not None
    zone: str = json.loads(schedule.definition.trigger)["timezone"]
    return zone


@pytest.mark.parametrize("kind", ["job", "prompt", "notification"])
def test_a_form_has_the_configured_zone_and_offers_that_of_the_browser(abroad: Browser, kind: str) -> None:
    page = abroad.get(f"/new?kind={kind}").body.decode()
    assert zone_field(page) == "Europe/Berlin"
    assert "Times in America/New_York" in abroad.text("/new"), "as they are shown"
    assert re.search("You are in America/New_York . use that", abroad.text(f"/new?kind={kind}"))
    answer = abroad.send(
        "/new", {**AT_NINE, "kind": kind, "timezone": "Europe/Berlin", "zone_here": "America/New_York"}
    )
    assert zone_field(answer.body.decode()) == "America/New_York"
    assert b"You are in" not in answer.body and b"every day at 9" in answer.body


def test_a_schedule_that_is_created_without_a_zone_gets_the_configured_one(berlin: Site, abroad: Browser) -> None:
    made = abroad.send("/new", {**AT_NINE, "timezone": ""})
    assert stored_zone(berlin, made.headers["location"]) == "Europe/Berlin"
    preview = abroad.send("/new", {**AT_NINE, "timezone": "", "intent": "look"}).body.decode()
    assert "every day at 09:00 (Europe/Berlin)" in preview


def test_the_zone_of_a_token_comes_before_the_setting(berlin: Site) -> None:
    browser = signed_in_as(berlin, "ada", timezone="Asia/Tokyo")
    page = browser.get("/new").body.decode()
    assert zone_field(page) == "Asia/Tokyo" and "You are in" not in page


def test_a_pause_ends_at_a_time_of_the_configured_zone(berlin: Site, abroad: Browser) -> None:
    schedule = made(berlin, "paused until")
    assert "Until in Europe/Berlin" in abroad.text(page_of(schedule, "pause"))
    abroad.send(page_of(schedule, "pause"), {"until": "2099-07-01 12:00"})
    paused = berlin.room.store.find(schedule.definition.public_id)
    assert paused is not None and paused.definition.resume_at == 4_086_583_200 * 1_000_000  # 10:00 UTC
    assert "Until in" not in signed_in(berlin, "Europe/Berlin").text(page_of(schedule, "pause"))
