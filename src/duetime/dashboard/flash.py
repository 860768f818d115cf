"""Notices about the last change, shown on the next page. The URL holds only a known word and numbers, never text."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from duetime.service.text import plural

DONE = {
    "created": "Created.",
    "saved": "Saved.",
    "unchanged": "Nothing was changed.",
    "paused": "Paused: nothing fires until it is resumed.",
    "resumed": "Resumed.",
    "cancelled": "Cancelled.",
    "deleted": "Deleted; its history stays.",
    "fired": "It runs now.",
    "retried": "It is tried again.",
    "dismissed": "Dismissed; it stays in the history.",
    "stopped": "It is asked to stop.",
}
UNDONE = {"nothing": "Nothing was chosen: tick what is meant, then press the button again."}
MANY = {
    "paused": "paused",
    "resumed": "resumed",
    "cancelled": "cancelled",
    "retried": "tried again",
    "dismissed": "dismissed",
}


class Notice(NamedTuple):
    message: str
    partly: bool = False


def notice_of(request: Request) -> Notice | None:
    word = request.query_params.get("did", "")
    number, failed = (_number(request, name) for name in ("number", "failed"))
    if word in UNDONE:
        return Notice(UNDONE[word], partly=True)
    if number is None:
        return Notice(DONE[word]) if word in DONE else None
    if word not in MANY:
        return None
    done = f"{plural(number, 'item')} {MANY[word]}"
    if not failed:
        return Notice(f"{done}.")
    return Notice(
        f"{done}; {plural(failed, 'item')} could not be: over already, gone, or changed meanwhile.", partly=True
    )


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else None
