"""Draws state diagrams that pages write in Mermaid's notation, so that the site needs no script from elsewhere.

Each state has one row for each transition that leaves it: the state, an arrow, the next state, and the cause.
"""

from __future__ import annotations

import re
from html import escape
from itertools import groupby
from typing import NamedTuple

_BLOCK = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRANSITION = re.compile(r"^\s*(\S+) --> (\S+): (.+)$", re.MULTILINE)
_ROW, _GAP, _BOX = 30, 14, 24
_FROM, _TO, _CAUSE, _PILL = 0, 150, 266, 96
_CHARACTER = 7.2
"""About as wide as a character of 14 px is on average."""


class Transition(NamedTuple):
    source: str
    target: str
    cause: str


def with_diagrams(text: str) -> str:
    """Replace every state diagram of a page by a picture in the page."""
    return _BLOCK.sub(lambda match: _drawn(match[1]), text)


def _drawn(notation: str) -> str:
    transitions = [Transition(*found) for found in _TRANSITION.findall(notation)]
    order = {source: place for place, source in reversed([*enumerate(each.source for each in transitions)])}
    parts, top = [], 0
    for source, leaving in groupby(sorted(transitions, key=lambda each: order[each.source]), lambda each: each.source):
        rows = list(leaving)
        parts += _state(source, rows, top)
        top += len(rows) * _ROW + _GAP
    width = _CAUSE + max(len(each.cause) for each in transitions) * _CHARACTER
    style = "font: 14px system-ui, sans-serif; max-width: 100%; height: auto"
    head = f'<svg role="img" viewBox="-1 -1 {width:.0f} {top}" width="{width:.0f}" style="{style}">'
    summary = "; ".join(f"{_name(each.source)} to {each.target}: {each.cause}" for each in transitions)
    return "\n".join(["<div>", head, f"<title>{escape(summary)}</title>", *parts, "</svg>", "</div>"])


def _state(source: str, rows: list[Transition], top: int) -> list[str]:
    middle = top + _BOX / 2
    parts = _pill(_FROM, top, _name(source), filled=True)
    spine = (_FROM + _PILL + _TO) / 2
    for number, each in enumerate(rows):
        y = middle + number * _ROW
        start = f"M{_FROM + _PILL} {y}" if number == 0 else f"M{spine} {y - _ROW}V{y}"
        arrow = f"{start}H{_TO - 2}m-6 -4l6 4l-6 4"
        parts.append(f'<path d="{arrow}" fill="none" stroke="currentColor" opacity=".6"/>')
        parts += _pill(_TO, y - _BOX / 2, each.target)
        parts.append(f'<text x="{_CAUSE}" y="{y + 5}" fill="currentColor">{escape(each.cause)}</text>')
    return parts


def _pill(x: float, y: float, name: str, *, filled: bool = False) -> list[str]:
    shade = 'fill="currentColor" fill-opacity=".12"' if filled else 'fill="none"'
    place = f'x="{x + _PILL / 2}" y="{y + _BOX / 2 + 5}"'
    return [
        f'<rect x="{x}" y="{y}" width="{_PILL}" height="{_BOX}" rx="12" {shade} stroke="currentColor"/>',
        f'<text {place} text-anchor="middle" fill="currentColor">{escape(name)}</text>',
    ]


def _name(state: str) -> str:
    return "new" if state == "[*]" else state
