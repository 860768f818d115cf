"""Parsing of times that people write, in a time zone, and formatting of instants."""

from duetime.engine.times.parser import (
    LONGEST_DURATION,
    ReadTime,
    read_duration,
    read_exact,
    read_instant,
    read_time,
)
from duetime.engine.times.zones import clock_local, format_local, iso_local

__all__ = [
    "LONGEST_DURATION",
    "ReadTime",
    "clock_local",
    "format_local",
    "iso_local",
    "read_duration",
    "read_exact",
    "read_instant",
    "read_time",
]
