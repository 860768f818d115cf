"""How the commands show notifications. Showing one needs none of the commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetime.terminal import output
from duetime.terminal.schedules.kind_view import Facts, KindView, Payload, filled, one_line

if TYPE_CHECKING:
    from duetime.service.vocabulary import Definition


def _cells(definition: Definition, payload: Payload) -> Sequence[object]:
    return (definition.subject, one_line(payload.get("message", definition.name)))


def _facts(_: Definition, payload: Payload) -> Facts:
    more = ("priority", "tags", "markdown", "click", "actions", "icon", "attach", "filename", "label")
    return [
        ("topic", payload.get("topic", "")),
        *filled(payload, "title"),
        ("message", output.block(payload.get("message", ""))),
        *filled(payload, *more),
    ]


NOTIFICATION = KindView("notification", "notify", "notifications", ("TOPIC", "MESSAGE"), _cells, _facts)
