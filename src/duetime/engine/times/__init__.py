"""Parsing of times that people write, in a time zone, and formatting of instants."""

from duetime.engine.times.format import clock_local, format_local, iso_local
from duetime.engine.times.parser import LONGEST_DURATION, read_duration, read_time, unreadable
from duetime.engine.times.phrases import ReadTime

__all__ = [
    "LONGEST_DURATION",
    "ReadTime",
    "clock_local",
    "format_local",
    "iso_local",
    "read_duration",
    "read_time",
    "unreadable",
]
