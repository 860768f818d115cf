"""Times people write, read in a zone, and instants shown to them."""

from duetime.core.times.phrases import ReadTime
from duetime.core.times.reading import LONGEST_DURATION, read_duration, read_time, unreadable
from duetime.core.times.text import clock_local, format_local, iso_local

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
