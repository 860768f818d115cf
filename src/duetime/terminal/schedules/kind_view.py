"""`KindView` says how the commands name and show schedules: those of one kind, or those of any."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duetime.engine.value_class import NamedTuple
from duetime.service.kind_spec import KindSpec, load

if TYPE_CHECKING:
    from duetime.service.vocabulary import Definition
    from duetime.terminal.context import Application


Payload = Mapping[str, Any]
Facts = Sequence[tuple[str, object]]


class KindView(NamedTuple):
    kind: str | None
    """Name in the engine; None for schedules of any kind."""
    command: str
    """Name of the command group, as it is typed; empty for the commands of any kind."""
    plural: str
    headings: Sequence[str]
    cells: Callable[[Definition, Payload], Sequence[object]]
    """Return the cells under these headings in a list."""
    facts: Callable[[Definition, Payload], Facts]
    """Return what to show of a single schedule."""

    @property
    def noun(self) -> str:
        return self.kind or "schedule"


class NamedSchedule(NamedTuple):
    """The schedule that a command names, and how to show what came of the command."""

    app: Application
    view: KindView
    id: str
    """Its id or name, as it was typed."""
    json_: bool


ANY_KIND = KindView(
    None, "", "schedules", ("KIND", "NAME"), lambda definition, _: (definition.kind, definition.name), lambda *_: ()
)


def view_of(spec: KindSpec | None) -> KindView:
    """Return the view of a kind: its own, or else the standard one if a payload model describes it."""
    if spec is not None and spec.view:
        view: KindView = load(spec.view)
        return view
    return ANY_KIND if spec is None or not spec.payload else standard_view(spec)


def standard_view(spec: KindSpec) -> KindView:
    """Return the view of a kind that only its payload model describes."""
    from dataclasses import fields

    names = [each.name for each in fields(load(spec.payload))]
    return KindView(
        spec.name,
        spec.name,
        spec.plural,
        ("NAME",),
        lambda definition, _: (definition.name,),
        lambda _, payload: filled(payload, *names),
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
    values = [(name, payload[name]) for name in names if payload.get(name) not in (None, [], {}, "")]
    return [
        (name, value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False))
        for name, value in values
    ]
