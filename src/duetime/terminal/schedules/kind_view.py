"""How the command line names a kind of schedule and displays its schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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
