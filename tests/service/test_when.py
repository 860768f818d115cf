"""Durations as people write them: the same limits for `40000d` and for `40000 days`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duetime.engine.clock import DAY
from duetime.engine.errors import InvalidInput
from duetime.service.when import duration, read_times


@pytest.mark.parametrize("text", ["36525d", "36525 days"])
def test_a_hundred_years_are_the_longest_duration(text: str) -> None:
    assert duration(text, "--every") == 36_525 * DAY


@pytest.mark.parametrize("text", ["36526d", "36526 days", "1000000 hours"])
def test_anything_longer_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="longer than a hundred years") as refused:
        duration(text, "--every")
    assert refused.value.field == "--every"


@pytest.mark.parametrize("text", ["2 days at 9", "1 month at noon", "the morning"])
def test_a_day_with_a_time_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        duration(text, "timeout")
    assert refused.value.field == "timeout" and text in refused.value.message


@pytest.mark.parametrize(
    ("every", "rule"),
    [("1 month", "MONTHLY"), ("month", "MONTHLY"), ("a year", "YEARLY"), ("every 3 months", "MONTHLY;INTERVAL=3")],
)
def test_an_interval_of_months_is_a_rule(every: str, rule: str) -> None:
    assert read_times({"every": every, "start": "tomorrow 9am"}) == (
        "rrule",
        {"rrule": f"FREQ={rule}", "start": "tomorrow 9am"},
        None,
    )


@pytest.mark.parametrize(
    ("given", "text"), [("1 month", "in 1 months"), ("2 Months", "in 2 months"), ("a year", "in 12 months")]
)
def test_a_delay_of_months_depends_on_the_date(given: str, text: str) -> None:
    assert read_times({"delay": given}).config == {"run_at": text}


@pytest.mark.parametrize("way", ["delay", "every"])
@pytest.mark.parametrize("given", ["0 months", "0 years", "1201 months", "101 years"])
def test_months_have_the_limits_of_other_durations(way: str, given: str) -> None:
    with pytest.raises(InvalidInput, match=f"{way}: must "):
        read_times({way: given})


@pytest.mark.parametrize(
    ("given", "text"),
    [(1.9, "in 1.9 seconds"), (0.5, "in 0.5 seconds"), (60, "in 60 seconds"), ("90 minutes", "in 5400 seconds")],
)
def test_a_delay_keeps_its_fraction(given: float | str, text: str) -> None:
    """Cut to whole seconds, it would start early."""
    assert read_times({"delay": given}).config == {"run_at": text}


@pytest.mark.parametrize("given", [-1, timedelta(seconds=-0.5)])
def test_a_negative_delay_is_refused_as_such(given: float | timedelta) -> None:
    with pytest.raises(InvalidInput, match=r"^delay: must be greater than zero"):
        read_times({"delay": given})
