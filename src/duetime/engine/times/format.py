"""Formatting of instants for people, always with the year and in a time zone."""

from __future__ import annotations

from duetime.engine.clock import Instant, datetime_of
from duetime.engine.times.zones import known_zone

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_local(instant: Instant, zone: str) -> str:
    """Format as `Feb 10, 2026 3:00 PM PST`: for people, always with the year and the zone's abbreviation."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    hour = local.hour % 12 or 12
    half = "AM" if local.hour < 12 else "PM"
    month = _MONTH_NAMES[local.month - 1]
    return f"{month} {local.day}, {local.year} {hour}:{local.minute:02d} {half} {local.tzname()}"


def clock_local(instant: Instant, zone: str) -> str:
    """Format as `Feb 10, 2026 15:00 PST`: on the 24-hour clock, like other texts about schedules."""
    local = datetime_of(instant).astimezone(known_zone(zone))
    month, clock = _MONTH_NAMES[local.month - 1], f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return f"{month} {local.day}, {local.year} {clock} {local.tzname()}"


def iso_local(instant: Instant, zone: str) -> str:
    """Format as ISO 8601 with offset; microseconds only if there are any."""
    return datetime_of(instant).astimezone(known_zone(zone)).isoformat()
