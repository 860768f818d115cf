"""Instants are exact."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import datetime_of, instant_of


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-14 * 60, 14 * 60))
def test_instants_round_trip_to_the_microsecond(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert datetime_of(instant_of(moment)) == moment


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        instant_of(datetime(2026, 1, 1))
