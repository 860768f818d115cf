"""How the commands show notifications. Showing one needs none of the commands."""

from __future__ import annotations

from duetime.terminal import output
from duetime.terminal.schedules.kind_view import KindView, filled, one_line

_LOOKS = ("priority", "tags", "markdown", "click", "actions", "icon", "attach", "filename", "label")
NOTIFICATION = KindView(
    "notification",
    "notify",
    "notifications",
    ("TOPIC", "MESSAGE"),
    lambda definition, payload: (definition.subject, one_line(payload.get("message", definition.name))),
    lambda _, payload: [
        ("topic", payload.get("topic", "")),
        *filled(payload, "title"),
        ("message", output.block(payload.get("message", ""))),
        *filled(payload, *_LOOKS),
    ],
)
