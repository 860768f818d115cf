"""How much the body of a request may have, and how it is parsed.

A parser holds the interpreter until it ends: meanwhile neither the event loop nor a run of any owner continues. So the
bytes are judged before, by their number, which the route limits, and by the number of values in them. A body above
IN_LOOP is parsed in a thread, and only one such body at a time in a process.
"""

from __future__ import annotations

import json
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from duetime.service.errors import refuse

IN_LOOP: Final = 4 * 1024
"""Maximum bytes of a body that is parsed in the event loop."""
MOST_BYTES: Final = 256 * 1024
MOST_IN_BATCH: Final = 1024 * 1024
MOST_IN_FORM: Final = 3 * MOST_BYTES
"""A form may need three bytes for each byte of a text."""
MOST_VALUES: Final = 50_000
HOOKS: Final = "/hooks/"
_PROGRAMS: Final = ("/api/", "/v2/", "/mcp", HOOKS)
LARGE_BODY_BYTES: Final = 64 * 1024
"""Bytes above which few requests of an owner are answered at a time."""
_alone = threading.Lock()


def most_bytes(path: str) -> int:
    """Return how many bytes an authenticated request to this path may have."""
    if path == "/v2/batch":
        return MOST_IN_BATCH
    return MOST_BYTES if path.startswith(_PROGRAMS) else MOST_IN_FORM


def alone(body: bytes) -> AbstractContextManager[object]:
    """Return a context in which no other large body is parsed. Call this in a thread if the body is large."""
    return _alone if len(body) > IN_LOOP else nullcontext()


def parse_json(body: bytes) -> Any:
    """Parse JSON. Raise Refused if it has too many values, and ValueError if it is not JSON."""
    with alone(body):
        if len(body) > MOST_VALUES and _values(body) > MOST_VALUES and _values(_without_texts(body)) > MOST_VALUES:
            words = f"The body has more than {MOST_VALUES:,} values; send fewer, or store the data elsewhere"
            raise refuse("too_large", f"{words} and send a reference to it.")
        try:
            # Numbers take the longest. Other threads can run between two calls of these functions of ours.
            return json.loads(body, parse_int=lambda text: int(text), parse_float=lambda text: float(text))  # noqa: PLW0108
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def _values(body: bytes) -> int:
    """Return how many values and names JSON has at most: each follows one of these bytes."""
    return sum(map(body.count, (b",", b":", b"[", b"{")))


def _without_texts(body: bytes) -> bytes:
    """Remove texts, in which these bytes mean nothing. In UTF-16, which has NUL bytes, a quote is not recognised. Each
    text is a value or a name, so behind the first `MOST_VALUES` texts nothing has to be removed."""
    if b"\0" in body:
        return body
    return b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 2 * MOST_VALUES)[::2])
