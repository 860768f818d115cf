"""What the form says about input that is wrong: in the words of the form, with its examples."""

from __future__ import annotations

import re

import pytest

from tests.support.browsing import Browser, field, found, made, page_of, words
from tests.support.web import Site


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"when": "phrase", "phrase": "tomorow at 9"},
            'When: could not parse "tomorow" as a date/time; give a time',
        ),
        ({"when": "phrase", "phrase": "every 0 seconds"}, "When: the interval is zero"),
        ({"when": "interval", "every": "0.1", "unit": "seconds"}, "Every: it fires more often"),
        ({"when": "once", "run_at": "2020-01-01"}, "At: 2020-01-01 00:00 is in the past; it is now 20"),
        ({"when": "phrase", "phrase": "today at 00:00"}, "is in the past; it is now 20"),
    ],
)
def test_an_error_about_times_names_the_field_as_the_form_does(
    local: Browser, given: dict[str, str], told: str
) -> None:
    reply = local.send("/new", {"kind": "job", "task": "echo", "timezone": "UTC", **given})
    assert (reply.status, told in words(reply)) == (422, True), words(reply)
    assert not re.search(r"\d\dT\d\d:|it is now \S*\.\d", words(reply)), "offsets and microseconds are for programs"
    shown = words(local.send("/new", {"kind": "job", "task": "echo", "timezone": "UTC", **given, "intent": "look"}))
    assert (
        told.removeprefix("When: ").removeprefix("At: ").removeprefix("Every: ") in shown
        and "run_at" not in shown
        and "seconds:" not in shown
    )


def test_the_preview_says_how_a_day_without_a_time_is_read(local: Browser) -> None:
    given = {"kind": "job", "when": "phrase", "phrase": "friday", "timezone": "UTC", "intent": "look"}
    assert "no time given: read as 00:00 in UTC" in words(local.send("/new", given))


def test_an_empty_topic_is_said_to_be_empty(local: Browser) -> None:
    reply = local.send("/new", {"kind": "notification", "message": "m", "when": "phrase", "phrase": "in 1 hour"})
    assert "Topic: must not be empty" in words(reply) and "None" not in words(reply)


@pytest.mark.parametrize("until", ["yesterday", "no time"])
def test_a_pause_until_a_wrong_time_is_asked_for_again(served: Site, local: Browser, until: str) -> None:
    schedule = made(served, "to pause")
    reply = local.send(page_of(schedule, "pause"), {"until": until, "note": "Moving house"})
    assert (reply.status, "Pause this schedule?" in words(reply)) == (422, True)
    assert re.search("Until: .*(in the past|tomorrow 18:00)", words(reply))
    assert field(reply, "until") == until and field(reply, "note") == "Moving house"
    assert found(served, schedule).progress.state == "active"
