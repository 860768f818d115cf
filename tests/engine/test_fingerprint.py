"""The same request has the same fingerprint through every interface, and another request another one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from duetime.engine.fingerprint import fingerprint, is_same_request
from duetime.engine.validation import NewSchedule

HOURLY = NewSchedule("job", "n", "interval", {"hours": 1}, {"task": "echo", "args": ["x"]}, {}, "UTC")


@pytest.mark.parametrize(
    "given",
    [
        {"trigger_config": {"hours": 1.0}},
        {"trigger_config": {"seconds": 3600, "jitter": None}},
        {"trigger_config": {"minutes": 30, "seconds": 1800.0}},
        {"trigger_config": {"hours": 1, "timezone": "UTC"}, "timezone": None},
        {"timezone": None},
        {"payload": {"task": "echo", "args": ["x"], "kwargs": {}}},
        {"policy": {"max_attempts": None}},
    ],
)
def test_another_way_to_say_the_same(given: dict[str, Any]) -> None:
    other = HOURLY._replace(**given)
    assert is_same_request(fingerprint(HOURLY, "UTC"), other, "UTC")
    assert is_same_request(fingerprint(other, "UTC"), HOURLY, "UTC")


@pytest.mark.parametrize(
    "given",
    [
        {"name": "other"},
        {"trigger_config": {"hours": 2}},
        {"trigger_config": {"hours": True}},
        {"trigger_config": {"hours": 1, "jitter": 5}},
        {"timezone": "Europe/Berlin"},
        {"timezone": "Nowhere/At_all"},
        {"payload": {"task": "echo", "args": ["x"], "kwargs": {"a": []}}},
        {"payload": {"task": "echo", "args": [""]}},
        {"policy": {"max_attempts": 2}},
    ],
)
def test_another_request(given: dict[str, Any]) -> None:
    other = HOURLY._replace(**given)
    assert not is_same_request(fingerprint(HOURLY, "UTC"), other, "UTC")
    assert not is_same_request(fingerprint(other, "UTC"), HOURLY, "UTC")


def test_a_day_that_keeps_the_wall_clock_is_not_a_number_of_hours_in_either_order() -> None:
    day, hours = (HOURLY._replace(trigger_config=each) for each in ({"days": 1}, {"hours": 24}))
    assert not is_same_request(fingerprint(day, "UTC"), hours, "UTC")
    assert not is_same_request(fingerprint(hours, "UTC"), day, "UTC")
    assert fingerprint(day, "UTC") == fingerprint(HOURLY._replace(trigger_config={"weeks": 1 / 7}), "UTC")


IN_TWO_HOURS = {"run_at": "in 2 hours"}
DELAYS = [{"delay": "2h"}, {"delay": 7200}, {"run_at": "In  120 minutes"}, {"run_at": "two hours from now"}]


@pytest.mark.parametrize("config", DELAYS)
def test_a_delay_is_the_same_in_words_and_in_numbers(config: dict[str, Any]) -> None:
    words, other = (HOURLY._replace(trigger_type="once", trigger_config=each) for each in (IN_TWO_HOURS, config))
    assert fingerprint(words, "UTC") == fingerprint(other, "UTC")


@pytest.mark.parametrize(
    "config",
    [{"delay": "3h"}, {"delay": "soon"}, {"run_at": "2 hours"}, {"run_at": 7200}, {**IN_TWO_HOURS, "delay": "2h"}],
)
def test_another_delay_or_none_that_can_be_read_is_another_request(config: dict[str, Any]) -> None:
    words, other = (HOURLY._replace(trigger_type="once", trigger_config=each) for each in (IN_TWO_HOURS, config))
    assert fingerprint(words, "UTC") != fingerprint(other, "UTC")


def test_a_zone_that_was_left_open_both_times_may_have_changed() -> None:
    unsaid = HOURLY._replace(timezone=None)
    assert is_same_request(fingerprint(unsaid, "UTC"), unsaid, "Europe/Berlin")
    assert not is_same_request(fingerprint(HOURLY, "UTC"), unsaid, "Europe/Berlin")


def test_what_is_sent_at_once_is_the_same_as_in_versions_that_named_utc() -> None:
    """So that a message is not refused if it is sent again after an upgrade, because its answer was lost."""
    new = HOURLY._replace(trigger_type="once", trigger_config={"run_at": "now"}, timezone=None)
    stored = fingerprint(new._replace(timezone="UTC"), "Asia/Tokyo")
    assert is_same_request(stored, new, "Asia/Tokyo")
    assert not is_same_request(stored, new._replace(name="other"), "Asia/Tokyo")
    assert not is_same_request(stored, new._replace(trigger_config={"run_at": "tomorrow 9am"}), "Asia/Tokyo")


def stored_earlier(config: dict[str, Any]) -> str:
    parts = ["job", "n", "interval", config, HOURLY.payload, {}, "UTC"]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@pytest.mark.parametrize("config", [{"hours": 1}, {"hours": 1.0}, {"seconds": 3600, "start": None}])
def test_a_fingerprint_of_an_earlier_version_is_recognized(config: dict[str, Any]) -> None:
    new = HOURLY._replace(trigger_config=config)
    stored = stored_earlier(config)
    assert is_same_request(stored, new, "Asia/Tokyo")
    assert not is_same_request(stored, new._replace(name="other"), "UTC")


@pytest.mark.parametrize("seconds", [86_400, 86_400.0])
def test_a_fingerprint_from_before_days_kept_the_wall_clock_is_still_recognized(seconds: float) -> None:
    """Earlier versions read `1d` as seconds, so the fingerprints of such requests hold seconds."""
    stored = stored_earlier({"seconds": seconds})
    assert is_same_request(stored, HOURLY._replace(trigger_config={"days": 1}), "UTC")
    assert not is_same_request(stored, HOURLY._replace(trigger_config={"days": 2}), "UTC")


def test_a_rule_that_skips_weeks_is_the_same_as_in_versions_that_named_its_first_day() -> None:
    rule = {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9,16;BYMINUTE=5;BYSECOND=0"}
    new = HOURLY._replace(trigger_type="rrule", trigger_config=rule)
    for first, same in (
        ("tue at 16:05", True),
        ("tue at 09:05", True),
        ("wed at 16:05", False),
        ("tue at 16:00", False),
    ):
        before = new._replace(trigger_config={**rule, "dtstart": first})
        assert is_same_request(fingerprint(before, "UTC"), new, "UTC") is same
