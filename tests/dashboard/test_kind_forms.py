"""Forms of kinds: the standard one of a kind that brings none, and refusals of what a kind cannot take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.dashboard.filters import kind_class
from duetime.engine.model import Schedule
from duetime.service import kind_spec
from tests.support.browsing import Browser, field, filled, found, page_of, signed_in, words
from tests.support.web import Site, site

TOYKIND = Path(__file__).parents[1] / "toykind"
LATER = {"when": "once", "run_at": "in 1 hour"}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(TOYKIND)
    monkeypatch.setitem(kind_spec._known, "beep", kind_spec.load("toykind:SPEC"))
    with site(tmp_path) as there:
        yield there


def beep(browser: Browser, **fields: str) -> Schedule:
    reply = browser.send("/new", {"kind": "beep", **LATER, **fields})
    assert reply.status == 303, words(reply)
    schedule = browser.site.room.store.find(reply.headers["location"].split("/")[2].partition("?")[0])
    assert schedule is not None
    return schedule


def test_a_kind_without_a_form_is_created_listed_edited_and_cancelled(toy: Site) -> None:
    browser = signed_in(toy)
    assert "Write a line" in browser.text("/new")
    page = browser.text("/new?kind=beep")
    assert "What it writes." in page and "How often. May be left empty: 1." in page
    schedule = beep(browser, **{"payload-text": "Tea is ready", "payload-file": "/tmp/x", "payload-loud": "on"})
    payload = {"text": "Tea is ready", "file": "/tmp/x", "times": 1, "loud": True}
    assert json.loads(schedule.definition.payload) == payload
    assert schedule.definition.name == "Tea is ready", "a required text names it"
    assert "Tea is ready" in browser.text("/schedules?kind=beep")
    assert "1 beep due" in browser.text("/timeline")
    assert 'class="kind colour-5"' in browser.get("/schedules").body.decode(), "the first colour that is free"
    form = filled(browser, schedule)
    assert (form["payload-text"], form["payload-times"]) == ("Tea is ready", "")
    browser.follow(browser.send(page_of(schedule, "edit"), {**form, "payload-times": "3", "payload-loud": ""}))
    assert json.loads(found(toy, schedule).definition.payload) == {**payload, "times": 3, "loud": False}
    browser.follow(browser.send(page_of(schedule, "cancel"), {}))
    assert found(toy, schedule).progress.state == "cancelled"


@pytest.mark.parametrize(
    ("given", "wrong", "message"),
    [
        ({"payload-times": "2.5"}, "payload-times", "times: must be a whole number"),
        ({"payload-times": "often"}, "payload-times", "times: must be a number"),
        ({"payload-text": ""}, "payload-text", "text: must not be empty"),
    ],
)
def test_the_standard_form_says_what_is_wrong(toy: Site, given: dict[str, str], wrong: str, message: str) -> None:
    fields = {"kind": "beep", "payload-text": "hi", "payload-file": "/tmp/x", **LATER, **given}
    reply = signed_in(toy).send("/new", fields)
    assert (reply.status, message in words(reply)) == (422, True), words(reply)
    assert f'name="{wrong}" aria-invalid="true"' in reply.body.decode()
    assert field(reply, "payload-file") == "/tmp/x"


def test_a_priority_is_refused_instead_of_rounded(local: Browser) -> None:
    fields = {"kind": "notification", "message": "m", "topic": "t", "priority": "2.5", **LATER}
    reply = local.send("/new", fields)
    assert (reply.status, "Priority: " in words(reply)) == (422, True)


def test_built_in_kinds_keep_their_colours() -> None:
    kinds = ("job", "prompt", "notification", "request")
    assert [kind_class(kind) for kind in kinds] == [f"colour-{number}" for number in (1, 2, 3, 4)]
    assert kind_class("unknown") == ""
