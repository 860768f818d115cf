"""Durations as people write them: the same limits for `40000d` and for `40000 days`."""

from __future__ import annotations

import pytest

from duetime.engine.clock import DAY
from duetime.engine.errors import InvalidInput
from duetime.service.when import duration


@pytest.mark.parametrize("text", ["36525d", "36525 days"])
def test_a_hundred_years_are_the_longest_duration(text: str) -> None:
    assert duration(text, "--every") == 36_525 * DAY


@pytest.mark.parametrize("text", ["36526d", "36526 days", "1000000 hours"])
def test_anything_longer_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="longer than a hundred years") as refused:
        duration(text, "--every")
    assert refused.value.field == "--every"
