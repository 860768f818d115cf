"""The same request has the same fingerprint through every interface, and another request another one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
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
    other = replace(HOURLY, **given)
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
    other = replace(HOURLY, **given)
    assert not is_same_request(fingerprint(HOURLY, "UTC"), other, "UTC")
    assert not is_same_request(fingerprint(other, "UTC"), HOURLY, "UTC")


def test_a_day_that_keeps_the_wall_clock_is_not_a_number_of_hours() -> None:
    day, hours = (replace(HOURLY, trigger_config=each) for each in ({"days": 1}, {"hours": 24}))
    assert fingerprint(day, "UTC") != fingerprint(hours, "UTC")
    assert fingerprint(day, "UTC") == fingerprint(replace(HOURLY, trigger_config={"weeks": 1 / 7}), "UTC")


def test_a_zone_that_was_left_open_both_times_may_have_changed() -> None:
    unsaid = replace(HOURLY, timezone=None)
    assert is_same_request(fingerprint(unsaid, "UTC"), unsaid, "Europe/Berlin")
    assert not is_same_request(fingerprint(HOURLY, "UTC"), unsaid, "Europe/Berlin")


@pytest.mark.parametrize("config", [{"hours": 1}, {"hours": 1.0}, {"seconds": 3600, "start": None}])
def test_a_fingerprint_of_an_earlier_version_is_recognized(config: dict[str, Any]) -> None:
    new = replace(HOURLY, trigger_config=config)
    parts = ["job", "n", "interval", config, new.payload, {}, "UTC"]
    stored = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    assert is_same_request(stored, new, "Asia/Tokyo")
    assert not is_same_request(stored, replace(new, name="other"), "UTC")
