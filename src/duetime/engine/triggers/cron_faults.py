"""Explains what is wrong with a cron expression, in more detail than the error that refuses it."""

from __future__ import annotations

from duetime.engine.errors import InvalidInput
from duetime.engine.triggers.cron import cron_fields

INVALID = "Invalid cron expression: "
"""Beginning of the error about an expression."""
_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, or L for the last"),
    ("month", "1-12, or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT, where 0 and 7 are Sunday"),
)


def cron_fault(expression: str) -> str:
    """Explain which field is invalid, found by parsing each one alone."""
    parts = expression.split()
    if expression.strip().startswith("@"):
        return "there are @yearly, @monthly, @weekly, @daily and @hourly"
    if len(parts) not in (5, 6):
        has = f"{len(parts)} field" if len(parts) == 1 else f"{len(parts)} fields"
        return f"it has {has}, and cron has 5: minute hour day month weekday, or 6 with seconds in front"
    for number, (name, range_) in enumerate(_FIELDS[6 - len(parts) :]):
        alone = ["*"] * len(parts)
        alone[number] = parts[number]
        try:
            cron_fields(" ".join(alone))
        except InvalidInput:
            return f"the {name} cannot be {parts[number]!r}: use {range_}, with * - , and / as cron has them"
    return "its fields do not go together"


def with_cron_fault(message: str) -> str:
    """Return an error message, explained if it is about a cron expression."""
    return f"{message}; {cron_fault(message.removeprefix(INVALID))}" if message.startswith(INVALID) else message
