"""The notice about the last change. Why something was refused, and the notes of an answer, are kept here for the page
after the change."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from secrets import token_hex
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from starlette.requests import Request

from duetime.service.text import listed, plural, whole_number

T = TypeVar("T")

DONE = {
    "created": "Created.",
    "saved": "Saved.",
    "unchanged": "Nothing was changed.",
    "paused": "Paused: nothing fires until it is resumed.",
    "paused_until": "Paused: nothing fires until the time that you chose.",
    "resumed": "Resumed.",
    "cancelled": "Cancelled.",
    "deleted": "Deleted; its history is kept.",
    "fired": "It runs now.",
    "queued": "It is queued behind an earlier run.",
    "retried": "It will be retried now.",
    "dismissed": "Dismissed; it stays in the history.",
    "resolved": "Resolved; it stays in the history.",
    "reopened": "Reopened.",
    "restored": "Restored.",
    "stopped": "It was asked to stop.",
    "none": "None of these runs can be changed in this way.",
    "undone": "Undone.",
    "not_undone": "This can no longer be undone.",
    "chosen": "Saved for this browser.",
    "answered": "Answered.",
    "woken": "The agent is being woken.",
    "testing": "The test was started.",
    "revoked": "The token is revoked.",
    "reported": "The test event is stored.",
    "hook_deleted": "The hook is deleted; its events stay.",
}
_PARTLY = ("nothing", "none", "not_undone")
_REPLACED = ("paused_until", "stopped")
"""Changes of which the notes of the answer say more than the usual words."""
MANY = {
    "paused": "paused",
    "resumed": "resumed",
    "cancelled": "cancelled",
    "retried": "requeued",
    "resolved": "resolved",
    "reopened": "reopened",
    "restored": "restored",
    "stopped": "stopped or asked to stop",
    "read": "marked as read",
    "undone": "changed back",
}
THINGS = {"/schedules": "schedule", "/runs": "run", "/dead-letters": "run"}
"""What the lists at these addresses consist of."""
ONCE = ("did", "number", "failed", "undo", "reasons", "notes", "warnings")
"""Query parameters about the last change, which are not part of the page's address."""
_MOST_NAMED: Final = 3
_LONGEST_NAME: Final = 60


class Notice(NamedTuple):
    message: str
    partly: bool = False
    undo: str | None = None
    """Key of what reverses the change, if it can still be reversed."""


class SessionMemory(Generic[T]):
    """Values that pages remember for the next page of a session, by a key in its address, which holds no text. They
    are kept in this process, so that another one does not know them; and of all sessions together, only the latest."""

    most: Final = 200

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[str, T]] = OrderedDict()
        self._lock = Lock()

    def keep(self, session: str, value: T) -> str:
        key = token_hex(8)
        with self._lock:
            self._entries[key] = session, value
            while len(self._entries) > self.most:
                self._entries.popitem(last=False)
        return key

    def find(self, session: str, key: str) -> T | None:
        whose, value = self._entries.get(key, ("", None))
        return value if whose == session else None

    def take(self, session: str, key: str) -> T | None:
        """Return a value once."""
        with self._lock:
            return None if self.find(session, key) is None else self._entries.pop(key)[1]


SENTENCES: Final = SessionMemory[Sequence[str]]()
"""Why changes were refused, and the notes of answers. A process that does not know tells only how many were refused."""


def reasons_of(failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each reason why schedules were not changed, with the names of the first of them."""
    named = defaultdict[str, list[str]](list)
    for each in failed:
        named[str(each["error"])].append(str(each.get("name") or each["id"])[:_LONGEST_NAME])
    return [f"{_first(names)}: {reason}" for reason, names in named.items()]


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return listed([*names[:_MOST_NAMED], f"{more:,} more"] if more > 0 else names)


def notice_of(request: Request, session: str) -> Notice | None:
    """Return the notice about the last change: what was done, and why the rest was refused. The URL holds only a known
    word, numbers and a key, never text."""
    word, thing = request.query_params.get("did", ""), THINGS.get(request.url.path, "item")
    number, failed = (whole_number(request.query_params.get(name, ""), 6) for name in ("number", "failed"))
    if word == "nothing":
        return Notice(f"Select at least one {thing} first.", partly=True)
    if number is None:
        notes = SENTENCES.find(session, request.query_params.get("notes", "")) or ()
        sentences = notes if word in _REPLACED and notes else (DONE.get(word, ""), *notes)
        return Notice(" ".join(sentences), partly=word in _PARTLY) if word in DONE else None
    if word not in MANY:
        return None
    done = f"{plural(number, thing)} {MANY[word]}." if number else f"Nothing was {MANY[word]}."
    if number and (word, thing) == ("resolved", "run"):
        done += " You hear of the same failure again only after its schedule has worked."
    if not failed:
        return Notice(done)
    reasons = SENTENCES.find(session, request.query_params.get("reasons", "")) or ()
    return Notice(f"{done} Not {MANY[word]}: {'; '.join(reasons) or plural(failed, thing)}.", partly=True)
