"""Text for a terminal. Names and errors were written by agents: they are shown, never obeyed."""

from __future__ import annotations

import re

from duetime.core.clock import DAY, HOUR, MINUTE, SECOND, Instant, datetime_of
from duetime.core.times import format_local
from duetime.core.zones import known_zone

# Controls (among them the escapes that terminals obey), line separators, and marks that turn the reading direction.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


def clean(text: object) -> str:
    """One line in which nothing moves the cursor, changes a colour or hides."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), str(text))


def escaped(document: str) -> str:
    """JSON text in which the same characters stand as escapes; the newlines that lay it out stay."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", document)


def span(microseconds: int) -> str:
    """`12 ms`, `3.4 s`, `2 h 5 min`: two units at most."""
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
    shown = f"{whole // SECOND} s" if whole < MINUTE else span(whole)
    return f"in {shown}" if instant > now else f"{shown} ago"


def ahead(instant: Instant | None, now: Instant) -> str:
    """When something is due, for what is still to come."""
    if instant is None:
        return "-"
    return relative(instant, now) if instant >= now - SECOND else f"overdue by {relative(instant, now)[:-4]}"


def coming(instant: Instant | None, zone: str, now: Instant) -> str:
    return "-" if instant is None else f"{format_local(instant, zone)} ({ahead(instant, now)})"


def clock_time(instant: Instant, zone: str) -> str:
    return datetime_of(instant).astimezone(known_zone(zone)).strftime("%H:%M:%S")


def local_time(instant: Instant, zone: str) -> str:
    return datetime_of(instant).astimezone(known_zone(zone)).strftime("%Y-%m-%d %H:%M:%S")


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
