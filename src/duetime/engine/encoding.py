"""Encoding of results, errors and agent output as text for every store and interface, and escaping for terminals."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any

from duetime.engine.value_class import pattern

LIMIT = 64 * 1024
"""Maximum size of a stored result, in bytes."""
ERROR_LIMIT = 2000
"""Maximum length of a stored error, in characters."""
DEPTH = 50
"""Maximum nesting of a stored result: readers with a small stack must be able to parse it."""
NODES = 100_000
"""Maximum number of values visited: a list that contains itself would otherwise never end."""

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SMALL = 2**63
_UNSTORABLE = pattern("[\0\ud800-\udfff]")


def encode(value: Any, limit: int = LIMIT) -> str:
    """Return JSON text of at most `limit` bytes; longer text is cut and marked: `{"cut":true,"size":…,"text":…}`."""
    if type(value) is int and -_SMALL < value < _SMALL:  # the most common results need no encoder
        return str(value)
    text = encode_whole(value)
    if len(text) * 4 <= limit:
        return text
    size = len(text.encode())
    return text if size <= limit else _cut(value if isinstance(value, str) else text, size, limit)


def encode_whole(value: Any) -> str:
    """Return JSON text for any value; what JSON cannot represent becomes its `repr`."""
    with suppress(Exception):  # not JSON, circular, or with methods that raise: cleaned below
        text = _encoder.encode(value)
        storable = "\\u0000" not in text and (text.isascii() or is_text(text))
        if storable and not _is_deep(text, value):
            return text
    try:
        return _encoder.encode(_Cleaner().clean(value, 0))
    except Exception:  # a custom container that cannot even be iterated
        return _encoder.encode(_describe(value))


def parse_json(text: str | bytes, otherwise: Any = None) -> Any:
    """Return the value of a JSON text, or `otherwise` if it cannot be parsed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if the text contains anything else or cannot be parsed."""
    value = parse_json(text)
    return value if isinstance(value, dict) else None


def is_text(value: str) -> bool:
    """Return whether every store and receiver can handle the text: it contains neither NUL nor lone surrogates."""
    return _UNSTORABLE.search(value) is None


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates: PostgreSQL rejects the former, UTF-8 the latter."""
    return _UNSTORABLE.sub("\ufffd", text)


def error_text(error: BaseException) -> str:
    """Return `TypeName: message`, without a traceback."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # `__str__` is the task author's code and may fail as well
        message = "(its message cannot be read)"
    return shorten_error(f"{name}: {message}" if message else name)


def shorten_error(text: str) -> str:
    cut = clean_text(text[: ERROR_LIMIT + 1])  # the message may be huge: process only the part that is kept
    return cut if len(cut) <= ERROR_LIMIT else cut[: ERROR_LIMIT - 3] + "..."


def _is_deep(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") <= DEPTH:
        return False
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _cut(text: str, size: int, limit: int) -> str:
    text = clean_text(text[:limit])
    left = limit
    while True:
        whole = _encoder.encode({"cut": True, "size": size, "text": text})
        excess = len(whole.encode()) - limit
        if excess <= 0 or not text:
            return whole
        # Escapes lengthen the text by an unknown factor: shrink in proportion until it fits.
        left = min(left - 1, len(text) * limit // (limit + excess))
        text = text[: max(0, left)]


class _Cleaner:
    """Converts a value that JSON cannot encode as it is. Bounded in depth and in number of values for any input."""

    def __init__(self) -> None:
        self._left = NODES

    def clean(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return clean_text(str.__str__(value))
        if isinstance(value, int):  # Python refuses to write integers of more than 4,300 digits in decimal
            return int(value) if int.bit_length(value) <= 4096 else clean_text(hex(value)[:LIMIT])
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else float.__repr__(value)
        if isinstance(value, dict | list | tuple):
            return self._container(value, depth)
        return _describe(value)

    def _container(self, value: Any, depth: int) -> Any:
        if depth >= DEPTH or self._left <= 0:
            return "..."
        if isinstance(value, dict):
            return self._object(value, depth)
        items = [self.clean(inner, depth + 1) for inner in list(value) if self._left > 0]
        return items if len(items) == len(value) else [*items, "..."]

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        for key, inner in list(value.items()):
            if self._left <= 0:
                return items | {"...": "..."}
            items[self._key(key)] = self.clean(inner, depth + 1)
        return items

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return clean_text(str.__str__(key))
        if key is None or isinstance(key, bool):
            return json.dumps(key)
        return _describe(key)


def _describe(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # `repr` may be the task author's code
        text = f"<{type(value).__name__} without a readable form>"
    return clean_text(text[:LIMIT])


# Control characters (including terminal escapes), line separators, marks that change the reading direction, and
# invisible characters, with which text can be hidden in text.
UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
TERMINAL_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours, moves of the cursor and titles of windows."""


def clean(text: object) -> str:
    """Return one line in which no character moves the cursor, changes a colour or is hidden."""
    return UNSAFE.sub(escape, str(text))


def escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()
