"""Keeps values that were hidden from going where they were not given for.

Whoever sees `***` may send it back, and it stays what it was. Were the address changed in the same breath, the value
would go to a place of the sender's choice: so it is refused there, and has to be given anew by somebody who knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from duetime.core.errors import InvalidInput
from duetime.core.requesting import CALLBACKS
from duetime.core.requesting import KIND as REQUEST

_ADDRESSES: Final = ("url", *CALLBACKS)
"""Parts of a request that name a place each. A callback is told the headers and the body of what it follows."""
_WHO: Final = {"job": "task", "prompt": "agent", "notification": "topic"}
"""The part of every other kind that says who gets the rest."""
_URL = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s\"'<>\\]{1,2000}")
_NAMED = re.compile(r"(?i)(?:^|[_-])(url|uri|host|hostname|server|endpoint|address|command|destination|webhook)s?$")
_DEEPEST: Final = 60
_PORTS: Final = {"http": 80, "https": 443}


def refuse_other_places(kind: str, changed: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raises InvalidInput where a payload leads elsewhere than the stored one, whose hidden values were put back."""
    place = next(_other_places(kind, changed, stored), None)
    if place is not None:
        raise InvalidInput(
            f"payload: {place} is not where the hidden values (***) were given for, so they are not sent there; "
            "give each of them anew, or leave them out",
            field="payload",
        )


def _other_places(kind: str, changed: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
    if kind == REQUEST:
        for name in _ADDRESSES:
            if name in changed and origin_of(changed[name]) != origin_of(stored.get(name)):
                yield f"the {name}"
    who = _WHO.get(kind)
    if who is not None and changed.get(who) != stored.get(who):
        yield f"another {who}"
    known = set(_places(stored))
    yield from (place for place in _places(changed) if place not in known)


def _places(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Origins of all addresses in it, and whatever stands under the name of a place."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, str(key), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _places(inner, name, depth + 1)
    elif isinstance(value, str):
        found = [origin_of(each) for each in _URL.findall(value)]
        yield from found
        if not found and len(name) <= 100 and _NAMED.search(name):
            yield value[:200]


def origin_of(address: Any) -> str:
    """Scheme, host and port; of what is no address, the text itself."""
    if not isinstance(address, str):
        return ""
    try:
        parts = urlsplit(address.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme.lower(), 0)
    except ValueError:
        return address[:200]
    return f"{parts.scheme.lower()}://{host}:{port}" if host else address[:200]
