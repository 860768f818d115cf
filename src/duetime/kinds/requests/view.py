"""How the commands show requests. Showing one needs none of the commands."""

from __future__ import annotations

from duetime.terminal.schedules.kind_view import KindView, filled

REQUEST = KindView(
    "request",
    "request",
    "requests",
    ("URL",),
    lambda _, payload: (payload.get("url", ""),),
    lambda _, payload: filled(payload, "method", "url", "headers", "body"),
)
