"""Times of the past, for questions about what happened."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duetime.engine.clock import instant_of
from duetime.engine.errors import UnreadableTime
from duetime.engine.times import iso_local, read_instant
from duetime.engine.times.parser import read_past_time

NOW = instant_of(datetime(2026, 3, 30, 0, 30, tzinfo=UTC))
"""Monday 02:30 in Berlin, the day after clocks went forward."""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday", "2026-03-29T00:00:00+01:00", "2026-03-29T23:59:59.999999+02:00"),
        ("Yesterday 9am", "2026-03-29T09:00:00+02:00", "2026-03-29T09:00:00+02:00"),
        ("yesterday at 18:30", "2026-03-29T18:30:00+02:00", "2026-03-29T18:30:00+02:00"),
        ("2 hours ago", "2026-03-30T00:30:00+02:00", "2026-03-30T00:30:00+02:00"),
        ("3 days ago", "2026-03-27T01:30:00+01:00", "2026-03-27T01:30:00+01:00"),
        ("last friday", "2026-03-27T00:00:00+01:00", "2026-03-27T23:59:59.999999+01:00"),
        ("sunday 8am", "2026-03-29T08:00:00+02:00", "2026-03-29T08:00:00+02:00"),
        ("today", "2026-03-30T00:00:00+02:00", "2026-03-30T23:59:59.999999+02:00"),
        ("2026-03-01", "2026-03-01T00:00:00+01:00", "2026-03-01T23:59:59.999999+01:00"),
    ],
)
def test_it_is_understood(text: str, first: str, last: str) -> None:
    berlin = "Europe/Berlin"
    begins = read_instant(text, berlin, NOW, past=True)
    ends = read_instant(text, berlin, NOW, past=True, last=True)
    assert (iso_local(begins, berlin), iso_local(ends, berlin)) == (first, last)
    assert begins <= NOW


@pytest.mark.parametrize("text", ["yesterdays", "ago", "some ago", "", 5])
def test_it_is_refused(text: object) -> None:
    with pytest.raises(UnreadableTime):
        read_instant(text, "UTC", NOW, past=True)


def test_its_note_repeats_the_given_word() -> None:
    note = read_past_time("yesterday", zone="UTC", now=NOW).note
    assert note is not None and note.startswith("yesterday: read as Mar 29, 2026")
