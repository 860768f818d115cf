"""Formatting of durations, counts and untrusted text for people, the same on pages and in terminals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from duetime.engine.clock import DAY, HOUR, MINUTE, NEVER, SECOND, Instant
from duetime.engine.encoding import UNSAFE, clean, clean_text
from duetime.engine.value_class import NamedTuple, pattern

__all__ = ["UNSAFE", "clean", "clean_text"]  # for interfaces

COUNTED: Final = 1_000
"""Maximum that is counted, so that the cost of a count does not depend on how many there are."""
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


def span(microseconds: int) -> str:
    """Format a duration with at most two units: `12 ms`, `3.4 s`, `2 h 5 min`."""
    if microseconds < 1000:
        return "0 ms" if microseconds <= 0 else "<1 ms"
    if microseconds < SECOND:
        return f"{microseconds // 1000} ms"
    if microseconds < 10 * SECOND:
        return f"{microseconds / SECOND:.1f} s"
    parts: list[str] = []
    for size, unit in _UNITS:
        amount, microseconds = divmod(microseconds, size)
        if amount or parts:
            parts.append(f"{amount} {unit}" if amount else "")
    return " ".join(part for part in parts[:2] if part)


def relative(instant: Instant, now: Instant) -> str:
    distance = abs(instant - now)
    whole = distance - distance % SECOND
    if whole == 0:
        return "now"
    distance_text = f"{whole // SECOND} s" if whole < MINUTE else span(whole)
    return f"in {distance_text}" if instant > now else f"{distance_text} ago"


def ahead(instant: Instant | None, now: Instant) -> str:
    """Format when a pending item is due, or by how much it is overdue."""
    if instant is None or instant >= NEVER:
        return "-"
    return relative(instant, now) if instant >= now - SECOND else f"overdue by {relative(instant, now)[:-4]}"


def compact(value: object) -> str:
    """Return a JSON value in one line, and a string as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def gist(error: str | None, report: str | None, result: Any) -> str:
    """Summarize a run: its error, its progress report, or its result."""
    if isinstance(result, dict):  # a delivered message or an agent's answer
        texts = (result.get(name) for name in ("message", "text"))
        result = next((text for text in texts if isinstance(text, str) and text), result)
    summary = error or report or result
    return "" if summary is None else compact(summary)


_ISO: Final = r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::(?!00)\d\d)?)(?::00)?[+-]\d\d:\d\d"
"""A time, of which the groups are the day and the time of day, without seconds if there are none."""
_PAST: Final = pattern(rf"{_ISO} is in the past; it is now {_ISO}")


def plain_times(text: str) -> str:
    """Rewrite the times in an error about a past time, which programs read too, as people write them."""
    return _PAST.sub(r"\1 \2 is in the past; it is now \3 \4", text)


def whole_number(text: str, digits: int) -> int | None:
    """Parse a number of at most this many digits; return None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def value_of(text: str, read_number: Callable[[str], Any] | None = None) -> Any:
    """Return the value if the text is JSON, else the text itself: `5`, `true`, `[1, 2]`, `hello`."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=read_number, parse_float=read_number)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def percent(rate: float) -> str:
    """Format a percentage. Only exactly nothing or everything is shown as 0 or 100."""
    return f"{rate:.0f}%" if rate in (0, 100) else f"{min(99.9, max(0.1, rate)):.1f}%"


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Count(NamedTuple):
    """A number that several pages show; one that is not exact was counted up to a bound."""

    number: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.number:,}{'' if self.exact else '+'}"


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]
