"""Masking of payloads and results: hides values that look like credentials or have the name of one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from duetime.engine.errors import InvalidInput
from duetime.engine.redaction import DEEPEST, MASK, is_secret_name, parsed_json, text_of_base64
from duetime.service.kind_spec import known_specs, load

# -- restored credentials must not be sent to another destination ----------------------------------------------------

_URL = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s\"'<>\\]{1,2000}")
_NAMED_PLACES = re.compile(
    r"(?i)(?:^|[_-])"
    r"(url|uri|host|hostname|domain|server|endpoint|address|command|destination|webhook|target|recipient|to)s?$"
)
_PORTS: Final = {"http": 80, "https": 443}


LONGEST: Final = 16 * 1024
"""Maximum length in characters of one text in a list; reading a single item shows more of it."""
MOST_SHOWN: Final = 64 * 1024
"""Maximum characters of all texts of a single item: masking more would keep other threads from running."""


class PayloadMasking:
    """Masking of one kind's payloads and results; this one hides values that look like credentials."""

    def hide(self, payload: Any) -> Any:
        return masked(payload)

    def hide_on_page(self, shown: Any) -> Any:
        """Hide further parts of a payload that `hide` returned, for a page of the dashboard."""
        return shown

    def hide_result(self, result: Any) -> Any:
        return masked(result)

    def brief(self, value: Any, hide: Callable[[Any], Any], longest: int | list[int] = LONGEST) -> Any:
        """Shorten a value and hide credentials with `hide` or `hide_result`. Long texts are cut before masking, which
        is cheaper."""
        return hide(shortened(value, longest))

    def show(self, payload: Any, size: int) -> Any:
        """Return a payload of this size for the answer about a single item; what is too much of it is cut."""
        return self.hide(payload) if size <= MOST_SHOWN else self.brief(payload, self.hide, [MOST_SHOWN])

    def restore(self, given: Any, stored: Any) -> Any:
        """Restore the values that a client sends back in the form in which `hide` showed them."""
        return unmasked(given, stored)

    def other_places(self, changed: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
        """Yield the destinations of a changed payload that the stored one does not have."""
        known = set(_places(stored))
        yield from (place for place in _places(changed) if place not in known)


_CUT: Final = re.compile(r"\.\.\. \(cut: [0-9]+ characters in total\)\Z")


def shortened(value: Any, longest: int | list[int] = LONGEST) -> Any:
    """Return a copy in which every long text is cut and marked as cut. With a list, its item is the length of all texts
    together, of which each takes its part."""
    if isinstance(value, str):
        most = max(longest[0], _SHORT) if isinstance(longest, list) else longest
        if isinstance(longest, list):
            longest[0] -= len(value)
        return value if len(value) <= most else f"{value[:most]}... (cut: {len(value)} characters in total)"
    if isinstance(value, dict):
        return {name: shortened(inner, longest) for name, inner in value.items()}
    return [shortened(inner, longest) for inner in value] if isinstance(value, list) else value


_PLAIN: Final = PayloadMasking()
_SHORT: Final = 100


def masking_of(kind: str) -> PayloadMasking:
    spec = known_specs().get(kind)
    if spec is None or not spec.masking:
        return _PLAIN
    masking: PayloadMasking = load(spec.masking)
    return masking


def refuse_other_places(kind: str, changed: Mapping[str, Any], stored: Mapping[str, Any], depth: int) -> None:
    """Raise InvalidInput if a payload with restored credentials has a different destination than the stored payload.
    Any part of a payload may be a destination, or decide what the receiver does. A person knows which ones do and may
    change the others; an agent's run (`depth` above 0) may change nothing beside a restored value."""
    spec, masking = known_specs().get(kind), masking_of(kind)
    recipient = "" if spec is None else spec.recipient
    if recipient and changed.get(recipient) != stored.get(recipient):
        place: str | None = f"another {recipient}"
    else:
        place = next(masking.other_places(changed, stored), None)
    if place is None and depth > 0 and changed != stored:
        place = "a payload that an agent's run changed"
    if place is not None:
        problem = f"the hidden values (***) were not entered for {place}, so they are not used with it"
        raise InvalidInput(field="payload", problem=f"{problem}; enter each of them anew, or leave them out")


def _places(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the origins of all URLs in a value, and texts whose name indicates a destination, such as `host`."""
    if depth > DEEPEST:
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
        if not found and len(name) <= 100 and _NAMED_PLACES.search(name):
            yield value[:200]


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


_WORDS: Final = ("auth", "cookie", "pass", "pwd", "secret", "token", "credential", "sig", "key")
"""Every name of a credential contains one of these; texts without any, which are most, skip the slow patterns."""
# Quantifiers are bounded: a text crafted for the purpose could otherwise take minutes to match.
_NAMED: Final = (
    # `?token=…` in a URL, `password=…` in a form or on a command line
    re.compile(r"(?<![\w.\[\]-])(?P<start>(?P<name>[\w.\[\]-]{1,100})=)[^&#;\s\"'<>]+"),
    # `"password": "…"` anywhere in a text, also in JSON nested as an escaped string
    re.compile(r"(?P<start>\"(?P<name>[^\"\\]{1,100})\\{0,9}\"\s{0,9}:\s{0,9}\\{0,9}\")(?:[^\"\\]|\\{1,9}[^\"\\])+"),
)
_HEADER: Final = re.compile(
    r"(?i)(?<![\w-])(?P<name>\w{1,50}(?:-\w{1,50}){1,5}|authorization|cookie)\s{0,9}:\s{0,9}(?=[^\r\n\"'<>]{8})"
)
"""`X-Api-Key: `, the name of a header in plain text, such as on a command line, before a value that is long enough."""
_HEADER_VALUE: Final = re.compile(r"[^\r\n\"'<>]+")
_FIELD: Final = re.compile(
    r"(?i)(?<![\w.-])(?P<name>(?:(?:api|access|private|signing) )?[\w.-]{1,100})[\"']?"
    r"(?:[ \t]{0,9}:[ \t]{0,9}|[ \t]{1,9}=[ \t]{1,9})"
)
"""`password: ` or `API key = ` in plain text, such as a message."""
_FIELD_VALUE: Final = re.compile(
    r"(?P<quote>[\"'])[^\"'\r\n]{1,1000}(?=[\"'])"
    # a word, and whether it is followed in its line by nothing but another field
    r"|[^\s,;\"'<>]+(?P<alone>(?=[ \t]{0,9}(?:[\r\n]|\Z|[,;][ \t]{0,9}[\w.-]{1,100}[\"']?[ \t]{0,9}[:=])))?"
)
_PASSWORD: Final = re.compile(r"(?i)(?:password|passwd|pwd|passphrase)s?$")
_PROSE: Final = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-'/.](?:[A-Z]?[a-z]+|[A-Z]+)){0,9}|[0-9]{1,3}\S{0,2}")
_LINK: Final = re.compile(r"\w{1,20}://")
_SAID_OF_PASSWORDS: Final = frozenset(
    {"changed", "empty", "expired", "false", "here", "hidden", "incorrect", "invalid", "missing", "no", "none", "null"}
    | {"optional", "redacted", "required", "reset", "set", "string", "text", "true", "unchanged", "unknown", "unset"}
    | {"wrong", "yes"}
)
_SHORTEST_SECRET: Final = 6
_IN_TEXT: Final = (
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/@:]*:[^\s/@]+@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;\"']{8,}"), rf"\1 {MASK}"),
    # Matches only at the start of a word, after optional name parts, so that each start is tried once.
    (re.compile(r"(?<![\w-])((?:\w{0,30}-){0,3})eyJ[\w-]{8,1000}+\.[\w-]++\.[\w-]*"), rf"\1{MASK}"),
)


def masked(value: Any, depth: int = 0) -> Any:
    """Return a copy with credentials masked; everything else, including the structure, is unchanged."""
    if depth > DEEPEST:
        return "..."
    if isinstance(value, str):
        return _text(value, depth) if len(value) > _SHORT else _short_text(value, depth)
    if isinstance(value, dict):
        return {name: _under(name, inner, depth) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, depth + 1) for inner in value]
    return value


@lru_cache(maxsize=2048)
def _short_text(text: str, depth: int) -> str:
    """Mask a short text; cached, because lists and creates show the same names again and again."""
    return _text(text, depth)


def masked_payload(kind: str, payload: Any) -> Any:
    return masking_of(kind).hide(payload)


def _under(name: str, value: Any, depth: int) -> Any:
    """Mask a value by its name. A number is never a credential, so `max_tokens` may be shown."""
    hidden = value and isinstance(value, str | list | dict) and is_secret_name(name)
    return MASK if hidden else masked(value, depth + 1)


def _text(text: str, depth: int) -> str:
    lowered = text.lower()
    if any(word in lowered for word in _WORDS):
        text = _without_named(text, depth)
    for pattern, instead in _IN_TEXT:
        text = pattern.sub(instead, text)
    return text


def _without_named(text: str, depth: int) -> str:
    """Mask a JSON text by its structure; in any other text, mask what follows the name of a credential."""
    inner = parsed_json(text)
    if inner is not None:
        shown = masked(inner, depth + 1)
        return text if shown == inner else json.dumps(shown, ensure_ascii=False)
    for pattern in _NAMED:
        text = pattern.sub(lambda found: f"{found['start']}{MASK}" if is_secret_name(found["name"]) else found[0], text)
    text = _without_values(text, _HEADER, _HEADER_VALUE, lambda name, value: True)  # to the end of their line
    return _without_values(text, _FIELD, _FIELD_VALUE, _is_credential)


def _without_values(
    text: str, names: re.Pattern[str], values: re.Pattern[str], is_credential: Callable[[str, re.Match[str]], bool]
) -> str:
    """Mask the values that follow names of credentials. Other names with their values may precede them."""
    shown: list[str] = []
    rest = place = 0
    while (found := names.search(text, place)) is not None:
        place, name = found.end(), found["name"].replace(" ", "_")
        if not is_secret_name(name) or (value := values.match(text, place)) is None or not is_credential(name, value):
            continue
        shown += [text[rest:place], value.groupdict().get("quote") or "", MASK]
        rest = place = value.end()
    return "".join([*shown, text[rest:]])


def _is_credential(name: str, found: re.Match[str]) -> bool:
    """Return whether the text after a name is very likely a value and not the beginning of a sentence: not a plain word
    or a small number, except for a password that is alone in its line. Token counts are not credentials."""
    quoted, is_password = found["quote"] is not None, _PASSWORD.search(name) is not None
    value = (found[0][1:] if quoted else found[0]).rstrip(".!?")
    if _LINK.match(value):
        return False
    if quoted and is_password:
        return True
    if _PROSE.fullmatch(value):
        return is_password and found["alone"] is not None and value.lower() not in _SAID_OF_PASSWORDS
    if value.replace(",", "").isdigit() and not is_password:
        return False
    return " " not in value and (len(value) >= _SHORTEST_SECRET or is_password)


def unmasked(given: Any, stored: Any) -> Any:
    """Replace values that a client sends back in the masked form it was shown with the stored values."""
    if given != stored and given == masked(stored):
        return stored
    if isinstance(given, dict) and isinstance(stored, dict):
        return {
            name: stored[name]
            if inner == MASK and name in stored and is_secret_name(name)
            else unmasked(inner, stored.get(name))
            for name, inner in given.items()
        }
    if isinstance(given, list) and isinstance(stored, list):
        return _unmasked_list(given, stored)
    return given


def _unmasked_list(given: list[Any], stored: list[Any]) -> list[Any]:
    """Restore item by item; if the length changed, match masked items by the form that was shown, whatever their
    position."""
    if len(given) == len(stored):
        return [unmasked(inner, kept) for inner, kept in zip(given, stored, strict=True)]
    hidden = [(shown, kept) for kept in stored if (shown := masked(kept)) != kept]
    restored = []
    for inner in given:
        match = next((pair for pair in hidden if pair[0] == inner), (inner, inner))
        restored.append(match[1])
        hidden = [pair for pair in hidden if pair is not match]
    return restored


def unmasked_payload(kind: str, given: Any, stored: Any, depth: int = 0) -> Any:
    """Undo `masked_payload`. Raise InvalidInput if the payload now has another destination, or if a text in it was cut
    when it was shown."""
    if any(map(_CUT.search, {*_texts(given)} - {*_texts(stored)})):
        problem = "a text in it was cut when it was shown; give the whole text, or leave the payload as it is"
        raise InvalidInput(field="payload", problem=problem)
    restored = masking_of(kind).restore(given, stored)
    if restored != given and isinstance(restored, dict) and isinstance(stored, dict):
        refuse_other_places(kind, restored, stored, depth)
    return restored


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def masked_result(kind: str, result: Any) -> Any:
    return masking_of(kind).hide_result(result)


def masked_base64(encoded: str) -> str:
    """Mask a base64-encoded text; return binary data unchanged."""
    text = text_of_base64(encoded)
    shown = masked(text)
    return encoded if text is None or shown == text else base64.b64encode(shown.encode()).decode()
