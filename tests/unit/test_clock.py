"""Instants are exact, and a clock that follows another one agrees with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.core.clock import FollowingClock, Instant, datetime_of, instant_of
from duetime.simulation import SettableClock


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-14 * 60, 14 * 60))
def test_instants_round_trip_to_the_microsecond(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert datetime_of(instant_of(moment)) == moment


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        instant_of(datetime(2026, 1, 1))


def test_a_following_clock_agrees_with_the_one_it_follows() -> None:
    base = SettableClock(instant_of(datetime(2026, 1, 1, tzinfo=UTC)))
    clock = FollowingClock(base)
    clock.follow(lambda: Instant(base.now() + 90_000_000))
    assert clock.now() == base.now() + 90_000_000
    clock.follow(lambda: Instant(base.now() + 90_003_000))
    assert clock.offset == 90_000_000, "what is within the way there and back is no difference"
    clock.follow(lambda: Instant(base.now() + 1_000))
    assert clock.offset == 0
    clock.follow(lambda: None)
    assert clock.now() == base.now()
