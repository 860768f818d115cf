"""Warnings about schedules: one sentence of at most 120 characters each, with a code that programs can tell apart."""

from __future__ import annotations

from typing import Final, NamedTuple

LONGEST: Final = 120
DELIVERY_PREFIX: Final = "deliver_to: "
"""Begins a warning about where the results of runs are delivered."""
SENTENCES: Final[dict[str, str]] = {}
"""The sentences of all codes, with placeholders. Each part of the code declares its own."""


class ScheduleWarning(NamedTuple):
    """A reason why a schedule might not fire, or its result not arrive."""

    code: str
    text: str


def declare(**sentences: str) -> None:
    """Make the sentences of further codes known."""
    SENTENCES.update(sentences)


def warning(code: str, **values: str) -> ScheduleWarning:
    """Return a declared warning. If it is too long, the last of the values is cut first."""
    if not values:
        return ScheduleWarning(code, SENTENCES[code])
    room = LONGEST - len(DELIVERY_PREFIX)
    for name in reversed(values):
        excess = len(SENTENCES[code].format(**values)) - room
        if excess > 0:
            values[name] = values[name][: max(0, len(values[name]) - excess - 3)] + "..."
    return ScheduleWarning(code, SENTENCES[code].format(**values))
