"""Warnings about clock changes name those within a year of the first time, and none outside of the rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from duetime.engine.clock import instant_of
from duetime.engine.triggers.build import build_trigger
from duetime.engine.triggers.describe import warnings_for

NOW = instant_of(datetime(2026, 11, 18, tzinfo=UTC))


def warnings(**bounds: Any) -> list[str]:
    return warnings_for(
        build_trigger("cron", {"expression": "30 2 * * *", **bounds}, zone="Europe/Berlin", now=NOW), NOW
    )


def test_a_rule_that_begins_later_is_warned_about_the_changes_after_its_beginning() -> None:
    later = warnings(start="2031-01-01T00:00:00+01:00")
    assert [text[:10] for text in warnings()] == ["2027-03-28", "2027-10-31"]
    assert [text[:10] for text in later] == ["2031-03-30", "2031-10-26"]


def test_a_rule_that_ends_before_a_change_is_not_warned_about_it() -> None:
    assert [text[:10] for text in warnings(end="2027-06-01T00:00:00+02:00")] == ["2027-03-28"]
