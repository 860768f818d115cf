"""Instants as people read them: always with the year, always in a zone."""

from __future__ import annotations

from duetime.engine.clock import Instant, datetime_of
from duetime.engine.times.zones import known_zone

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_local(instant: Instant, zone: str) -> str:
    """`Feb 10, 2026 3:00 PM PST`: for people, always with the year and the zone's abbreviation."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    hour = local.hour % 12 or 12
    half = "AM" if local.hour < 12 else "PM"
    month = _MONTH_NAMES[local.month - 1]
    return f"{month} {local.day}, {local.year} {hour}:{local.minute:02d} {half} {local.tzname()}"


def clock_local(instant: Instant, zone: str) -> str:
    """`Feb 10, 2026 15:00 PST`: the same beside what else schedules say, which is on a clock of 24 hours."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    month, clock = _MONTH_NAMES[local.month - 1], f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return f"{month} {local.day}, {local.year} {clock} {local.tzname()}"


def iso_local(instant: Instant, zone: str) -> str:
    """ISO 8601 with offset; microseconds only when there are any."""
    return datetime_of(instant).astimezone(known_zone(zone)).isoformat()
