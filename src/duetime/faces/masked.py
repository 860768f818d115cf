"""Payloads and results fit to be shown: what stands under the name of a credential, or looks like one, is hidden."""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "***"
DEEPEST: Final = 60
"""Levels of a value; what lies deeper is not shown."""

_NAME = re.compile(
    r"(?i)(authorization|cookie|password|passwd|secret|token|credential|signature|(api|access|private|signing)[_-]?key)s?$"
)
_IN_TEXT = (
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;\"']{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), MASK),
)


def masked(value: Any, depth: int = 0) -> Any:
    """A copy; numbers, texts and shapes that are no secret stay as they are."""
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        return {name: _under(name, inner, depth) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, depth + 1) for inner in value]
    return _text(value) if isinstance(value, str) else value


def _under(name: str, value: Any, depth: int) -> Any:
    """A number is no credential: `max_tokens` may be shown."""
    hidden = value and isinstance(value, str | list | dict) and is_secret_name(name)
    return MASK if hidden else masked(value, depth + 1)


def is_secret_name(name: str) -> bool:
    return len(name) <= 100 and _NAME.search(name) is not None


def _text(text: str) -> str:
    for pattern, instead in _IN_TEXT:
        text = pattern.sub(instead, text)
    return text


def unmasked(given: Any, stored: Any) -> Any:
    """What somebody sends back after it was shown to them: where it still is hidden, it stays as it was stored."""
    if given != stored and given == masked(stored):
        return stored
    if isinstance(given, dict) and isinstance(stored, dict):
        return {
            name: stored[name] if _still_hidden(name, inner, stored) else unmasked(inner, stored.get(name))
            for name, inner in given.items()
        }
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        return [unmasked(inner, kept) for inner, kept in zip(given, stored, strict=True)]
    return given


def _still_hidden(name: str, value: Any, stored: dict[str, Any]) -> bool:
    return value == MASK and name in stored and is_secret_name(name)
