"""The name of a kind of schedule on the command line, and the fields that it shows.

`display` shows its schedules; it is imported when a command runs, not for its help.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from duetime.engine.model import Definition

Payload = Mapping[str, Any]
Facts = Sequence[tuple[str, object]]


class KindView(NamedTuple):
    kind: str
    """Name in the engine."""
    command: str
    """Name of the command group, as it is typed."""
    plural: str
    headings: Sequence[str]
    cells: Callable[[Definition, Payload], Sequence[object]]
    """Return the cells under these headings in a list."""
    facts: Callable[[Definition, Payload], Facts]
    """Return what to show of a single schedule."""

    @property
    def noun(self) -> str:
        return self.kind


ANY_KIND = KindView(
    "schedule",
    "list",
    "schedules",
    ("KIND", "NAME"),
    lambda definition, _: (definition.kind, definition.name),
    lambda *_: (),
)
_HEADLINE = 60


def one_line(text: str) -> str:
    return " ".join(text[: 20 * _HEADLINE].split())


def headline(text: str) -> str:
    """Return the name that lists show for a text without a name of its own."""
    line = one_line(text)
    return line if len(line) <= _HEADLINE else f"{line[:_HEADLINE]}..."


def filled(payload: Payload, *names: str) -> Facts:
    """Return the fields that are not empty, texts and integers unchanged, others as JSON."""
    given = [(name, payload[name]) for name in names if payload.get(name) not in (None, [], {}, "")]
    return [
        (name, value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False))
        for name, value in given
    ]


PAGE = 1000
MEANT = {"scheduled": "pending", "failing": "failed", "waiting": "running"}
"""Statuses by the words for people."""
