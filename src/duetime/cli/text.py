"""Text for a terminal. Names and errors were written by agents: they are shown, never obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duetime.core.clock import Instant, datetime_of
from duetime.core.times import format_local
from duetime.core.zones import known_zone
from duetime.faces.words import UNSAFE, ahead, clean, plural, relative, span

if TYPE_CHECKING:
    from duetime.core.store import Page

__all__ = [
    "ahead",
    "clean",
    "clock_time",
    "coming",
    "counted",
    "escaped",
    "local_time",
    "plural",
    "relative",
    "shortened",
    "span",
]
LONGEST_NAME = 28
"""Characters of a name where there is little room beside it."""


def escaped(document: str) -> str:
    """JSON text in which the same characters stand as escapes; the newlines that lay it out stay."""
    return UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else _escape(match[0]), document)


def _escape(character: str) -> str:
    """As JSON writes it: beyond U+FFFF that is a pair of surrogates."""
    pair = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pair[start : start + 4]}" for start in range(0, len(pair), 4))


def coming(instant: Instant | None, zone: str, now: Instant) -> str:
    return "-" if instant is None else f"{format_local(instant, zone)} ({ahead(instant, now)})"


def clock_time(instant: Instant, zone: str) -> str:
    return datetime_of(instant).astimezone(known_zone(zone)).strftime("%H:%M:%S")


def local_time(instant: Instant, zone: str) -> str:
    return datetime_of(instant).astimezone(known_zone(zone)).strftime("%Y-%m-%d %H:%M:%S")


def shortened(name: str) -> str:
    """So that there is room for what else is to be said."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def counted(page: Page[Any]) -> str:
    """How many there are in all, as far as somebody counted."""
    return f"{page.total:,}" if page.total_exact else f"at least {page.total:,}"
