"""Which columns of a table a terminal has room for: names that are cut to their beginnings help nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

READABLE = 16
"""Columns that a text needs to say something; a shorter one needs its own width."""
GAP = 2
"""Between two columns, and after the last."""

Spare = Mapping[str, int]
"""Columns that may be left out, the first one first, and how wide all others must be for it to stay."""


def fitting(headings: Sequence[str], widths: Sequence[int], room: int, *, whole: int, spare: Spare) -> list[int] | None:
    """The numbers of those that are shown; None where nothing but a few lines for each row would be readable."""
    shown = list(range(len(headings)))
    for name, least in spare.items():
        if name in headings and _needed(widths, shown, whole, least) > room:
            shown.remove(headings.index(name))
    return shown if _needed(widths, shown, whole, READABLE) <= room else None


def _needed(widths: Sequence[int], shown: Sequence[int], whole: int, least: int) -> int:
    """Where the first `whole` columns are never cut, and each other one has so much at least."""
    return sum(GAP + (widths[number] if number < whole else min(widths[number], least)) for number in shown)
