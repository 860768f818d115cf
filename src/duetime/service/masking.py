"""Masking of the payloads and results of kinds: what is shown of them, and what clients send back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from duetime.engine.errors import InvalidInput
from duetime.engine.redaction import (
    SHORT_TEXT,
    map_texts,
    masked,
    redacted,
    texts_in,
    without_password,
    without_secrets,
)
from duetime.engine.value_class import pattern
from duetime.service.kind_spec import known_specs, load

__all__ = ["masked", "redacted", "without_password", "without_secrets"]  # for interfaces

LONGEST: Final = 16 * 1024
"""Maximum length in characters of one text in a list; reading a single item shows more of it."""
MOST_SHOWN: Final = 64 * 1024
"""Maximum characters of all texts of a single item: masking more would keep other threads from running."""
_CUT: Final = pattern(r"\.\.\. \(cut: [0-9]+ characters in total\)\Z")
_URL: Final = pattern(r"(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s\"'<>\\]{1,2000}")
_NAMED_PLACES: Final = pattern(
    r"(?i)(?:^|[_-])"
    r"(url|uri|host|hostname|domain|server|endpoint|address|command|destination|webhook|target|recipient|to)s?$"
)
_PORTS: Final = {"http": 80, "https": 443}


class PayloadMasking:
    """Masking of one kind's payloads; this one hides values that look like credentials."""

    def hide(self, payload: Any) -> Any:
        return masked(payload)

    def hide_on_page(self, view: Any) -> Any:
        """Hide further parts of a payload that `hide` returned, for a page of the dashboard."""
        return view

    def brief(self, value: Any, hide: Callable[[Any], Any], longest: int | list[int] = LONGEST) -> Any:
        """Shorten a value and hide its credentials. Long texts are cut before masking, which is cheaper."""
        return hide(shortened(value, longest))

    def show(self, payload: Any, size: int) -> Any:
        """Return a payload of this size for the answer about a single item; what is too much of it is cut."""
        return self.hide(payload) if size <= MOST_SHOWN else self.brief(payload, self.hide, [MOST_SHOWN])

    def restore(self, payload: Any, stored: Any) -> Any:
        """Restore the values that a client sends back in the form in which `hide` showed them."""
        return unmasked(payload, stored)

    def other_places(self, payload: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
        """Yield the destinations of a changed payload that the stored one does not have."""
        known = set(_places(stored))
        yield from (place for place in _places(payload) if place not in known)


_PLAIN: Final = PayloadMasking()


def masking_of(kind: str) -> PayloadMasking:
    spec = known_specs().get(kind)
    if spec is None or not spec.masking:
        return _PLAIN
    masking: PayloadMasking = load(spec.masking)
    return masking


def masked_payload(kind: str, payload: Any) -> Any:
    return masking_of(kind).hide(payload)


def shortened(value: Any, longest: int | list[int] = LONGEST) -> Any:
    """Return a copy in which every long text is cut and marked as cut. With a list, its item is the length of all texts
    together, of which each takes its part."""

    def cut(_: str, text: str) -> str:
        limit = max(longest[0], SHORT_TEXT) if isinstance(longest, list) else longest
        if isinstance(longest, list):
            longest[0] -= len(text)
        return text if len(text) <= limit else f"{text[:limit]}... (cut: {len(text)} characters in total)"

    return map_texts(value, cut)


# -- what clients send back ------------------------------------------------------------------------------------------


def unmasked_payload(kind: str, payload: Any, stored: Any, depth: int = 0) -> Any:
    """Undo `masked_payload`. Raise InvalidInput if the payload now has another destination, or if a text in it was cut
    when it was shown."""
    if any(map(_CUT.search, {text for _, text in texts_in(payload)} - {text for _, text in texts_in(stored)})):
        problem = "a text in it was cut when it was shown; give the whole text, or leave the payload as it is"
        raise InvalidInput(field="payload", problem=problem)
    restored = masking_of(kind).restore(payload, stored)
    if restored != payload and isinstance(restored, dict) and isinstance(stored, dict):
        refuse_other_places(kind, restored, stored, depth)
    return restored


def unmasked(value: Any, stored: Any, name: str = "") -> Any:
    """Replace values that a client sends back in the masked form it was shown with the stored values."""
    if value != stored and value == masked(stored, name):
        return stored
    if isinstance(value, dict) and isinstance(stored, dict):
        return {key: unmasked(inner, stored.get(key), key) for key, inner in value.items()}
    if not isinstance(value, list) or not isinstance(stored, list):
        return value
    if len(value) == len(stored):
        return [unmasked(inner, original) for inner, original in zip(value, stored, strict=True)]
    # the length changed: masked items are known by the form that was shown, whatever their position
    hidden = [(form, original) for original in stored if (form := masked(original)) != original]
    items = []
    for inner in value:
        pair = next((pair for pair in hidden if pair[0] == inner), (inner, inner))
        items.append(pair[1])
        hidden = [other for other in hidden if other is not pair]
    return items


def refuse_other_places(kind: str, payload: Mapping[str, Any], stored: Mapping[str, Any], depth: int) -> None:
    """Raise InvalidInput if a payload with restored credentials has a different destination than the stored payload.
    Any part of a payload may be a destination, or decide what the receiver does. A person knows which ones do and may
    change the others; an agent's run (`depth` above 0) may change nothing beside a restored value."""
    spec = known_specs().get(kind)
    recipient = "" if spec is None else spec.recipient
    if recipient and payload.get(recipient) != stored.get(recipient):
        place: str | None = f"another {recipient}"
    else:
        place = next(masking_of(kind).other_places(payload, stored), None)
    if place is None and depth > 0 and payload != stored:
        place = "a payload that an agent's run changed"
    if place is not None:
        problem = f"the hidden values (***) were not entered for {place}, so they are not used with it"
        raise InvalidInput(field="payload", problem=f"{problem}; enter each of them anew, or leave them out")


def _places(value: Any) -> Iterator[str]:
    """Yield the origins of all URLs in a value, and texts whose name indicates a destination, such as `host`."""
    for names, text in texts_in(value):
        origins = [origin_of(url) for url in _URL.findall(text)]
        yield from origins
        if not origins and len(names[-1]) <= 100 and _NAMED_PLACES.search(names[-1]):
            yield text[:200]


def origin_of(address: Any) -> str:
    """Return scheme, host and port, or the text itself if it is not a URL."""
    if not isinstance(address, str):
        return ""
    try:
        parts = urlsplit(address.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme.lower(), 0)
    except ValueError:
        return address[:200]
    return f"{parts.scheme.lower()}://{host}:{port}" if host else address[:200]
