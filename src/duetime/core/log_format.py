"""Formats log records so that text of owners and agents cannot act on a terminal or imitate a record, and so that no
credential is in them."""

from __future__ import annotations

import logging

from duetime.core.escaping import clean
from duetime.core.redaction import redacted

LAYOUT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
INDENT = "    "
"""Stands before every further line of a record, so that only a record's first line begins with a date."""


class SafeFormatter(logging.Formatter):
    """Hides credentials, escapes control characters in every line, and indents all lines but the first."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)

    def format(self, record: logging.LogRecord) -> str:
        first, *others = redacted(super().format(record)).split("\n")
        return "\n".join([clean(first), *(f"{INDENT}{clean(line)}" for line in others)])


def format_the_last_resort() -> None:
    """Packages whose loggers have no handler, such as asyncio, write through this one."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())
