"""Redaction of credentials from errors and traces before they are stored, shown or logged.

Credentials are known from three sources: a run's payload; this process's settings and environment, which whoever builds
the process registers with `remember_secrets`; and patterns that look like credentials.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from duetime.engine.encoding import shorten_error
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Waiting
from duetime.engine.tracebacks import stored_traceback, traceback_of

# Patterns that look like credentials. Each takes linear time on any text: nothing before the name is matched, and
# repetitions never backtrack.
_NAMED_VALUE = r"(?:token|secret|password|passwd|pwd|passphrase|api[ _-]?key|signature)[\"']?\s{0,9}[=:]\s{0,9}[\"']?"
_SECRETS = (
    (re.compile(r"(://)[^\s/@]++@"), r"\1***@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;\"']+"), r"\1 ***"),
    (re.compile(rf"(?i)({_NAMED_VALUE})[^\s&,;\"']+"), r"\1***"),
    (re.compile(r"(?<![\w-])((?:\w{0,30}-){0,3})eyJ[\w-]++\.[\w-]++\.[\w-]*"), r"\1***"),
)


def without_secrets(reason: str) -> str:
    """Return a backend's message in a form that is safe to show, because an error may quote the request with its
    credentials."""
    return masked_by_pattern(reason[:2000])[:500]


def masked_by_pattern(text: str) -> str:
    """Mask what looks like a credential, without shortening the text."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def without_password(url: str) -> str:
    """Mask the passwords in a URL, because hints end up in logs."""
    shown = re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", shown)


# Names of arguments, headers, parameters, fields and variables that hold credentials.

LONGEST = 100
_NAME = re.compile(
    r"(?i)(auth|authorization|cookie|password|passphrase|passwd|pwd|secret|token|credential|signature"
    r"|(api|access|private|signing)[_-]?key|(?<![a-z0-9])sig)s?$"
)


def is_secret_name(name: str) -> bool:
    return len(name) <= LONGEST and _NAME.search(name) is not None


MASK: Final = "***"
SHORTEST: Final = 6
"""Minimum length of a value that is searched for, because shorter ones occur in many texts by chance."""
DEEPEST: Final = 60
"""Maximum nesting level of a value; deeper values are not read or shown."""
MOST: Final = 2000
"""Maximum number of payload values that are searched for in one text."""

_USER = re.compile(r"://([^\s/@:]{0,200}):([^\s/@]{1,500})@")
_PAIR = re.compile(r"(?<![\w.\[\]-])([\w.\[\]-]{1,100})=([^&#;\s\"'<>]{1,2000})")
_FIELD = re.compile(r"(?<![\w-])([\w-]{1,100})[\"']?[ \t]{0,9}:[ \t]{0,9}[\"']?([^\r\n\"'<>]{1,2000})")
_SCHEME = re.compile(r"(?i)^(?:bearer|basic|token)\s+(\S+)$")
_BEARER = re.compile(r"(?i)\b(?:bearer|basic)[ \t]{1,9}([^\s,;\"']{6,2000})")
_CHANGED = re.compile(r"(?:%[0-9A-Fa-f]{2}|[^A-Za-z0-9_.~-])+")
"""Characters that the encoded forms of a value may represent in different ways."""

_known: set[str] = set()
AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


def remember_secrets(values: Iterable[str]) -> None:
    """Register credentials of this process, which are redacted from every text from now on."""
    _known.update(value for value in values if len(value) >= SHORTEST)


def secrets_in(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield every value under the name of a credential, and every credential within a text."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from secrets_in(inner, name if is_secret_name(name) else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_in(inner, name, depth + 1)
    elif isinstance(value, str):
        yield from _whole(value) if is_secret_name(name) else _in_text(value, name, depth)


def _whole(value: str) -> Iterator[str]:
    yield value
    scheme = _SCHEME.match(value)
    if scheme is not None:
        yield scheme[1]


def _in_text(text: str, name: str, depth: int) -> Iterator[str]:
    if name == "body_base64":
        text = text_of_base64(text) or ""
    yield from secrets_in(parsed_json(text), "", depth + 1)
    for user, password in _USER.findall(text):
        yield from (user, password, f"{user}:{password}")
    for pattern in (_PAIR, _FIELD):
        for key, found in pattern.findall(text):
            if is_secret_name(key):
                yield from _whole(found.strip())
    yield from _BEARER.findall(text)


def parsed_json(text: str) -> Any:
    """Parse a JSON object or list; return None for any other text."""
    try:
        return json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None


def text_of_base64(encoded: str) -> str | None:
    """Return the decoded text of base64; None for binary data and for text that is not base64."""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return None


def secrets_of(payload: str) -> list[str]:
    """Return the credentials in a stored payload."""
    try:
        return list(secrets_in(json.loads(payload)))
    except (ValueError, RecursionError):
        return []


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these values, in whatever encoding it contains them, and without what looks like a
    credential."""
    return _redacted_text(text, _credentials(secrets))


def without_values(text: str, values: Iterable[str]) -> str:
    """Return the text without these values, in whatever encoding it contains them."""
    return _without(text, _forms_in(text, _sought(values)))


class _Sought(NamedTuple):
    value: str
    plain: str
    """Its longest part that is the same in every form."""


def _credentials(secrets: Iterable[str]) -> list[_Sought]:
    """Return the credentials of a payload and of this process, for all texts of an outcome."""
    given = sorted({value for value in secrets if len(value) >= SHORTEST}, key=len, reverse=True)[:MOST]
    return _sought({*given, *_known})


def _sought(values: Iterable[str]) -> list[_Sought]:
    """Return these values and the lines of long ones, longest first, because one may be part of another."""
    values = {*values}
    # the text may indent them differently
    lines = {line.strip() for value in values if "\n" in value for line in value.splitlines()}
    values |= {line for line in lines if len(line) >= SHORTEST}
    return [_Sought(value, max(_CHANGED.split(value), key=len)) for value in sorted(values, key=len, reverse=True)]


def _redacted_text(text: str, credentials: Sequence[_Sought]) -> str:
    return _masked(text, _forms_in(text, credentials))


def _masked(text: str, forms: Iterable[str]) -> str:
    return masked_by_pattern(_without(text, forms))


def _without(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _forms_in(text: str, sought: Sequence[_Sought]) -> dict[str, None]:
    """Return every form in which this text may quote the values. Building the forms of a value takes much longer than
    searching for its plain part, which few texts contain."""
    forms: dict[str, None] = {}
    for value, plain in sought:
        if plain in text:
            quoted = quote(value, safe="", errors="replace")  # it may be invalid Unicode
            forms |= dict.fromkeys(
                (value, repr(value)[1:-1], json.dumps(value)[1:-1], quoted, quoted.replace("%2F", "/"), unquote(value))
            )
    return forms


def redacted_trace(error: BaseException, payload: str) -> str:
    """Return the redacted traceback of a failure, for the log."""
    return redacted(traceback_of(error), secrets_of(payload))


def redacted_outcome(outcome: AnyOutcome, payload: str) -> AnyOutcome:
    """Redact what is stored of a failure. The result of a success belongs to its owner and stays as it is."""
    if isinstance(outcome, Completed | Waiting):
        return outcome
    credentials = _credentials(secrets_of(payload))

    def stored(text: str) -> str:
        return shorten_error(_redacted_text(text, credentials))

    if isinstance(outcome, Failed | Retry):
        result = None if outcome.result is None else _redacted_result(outcome.result, credentials)
        traceback = (
            None if outcome.traceback is None else stored_traceback(_redacted_text(outcome.traceback, credentials))
        )
        return replace(outcome, error=stored(outcome.error), result=result, traceback=traceback)
    if isinstance(outcome, Cancelled):
        return replace(outcome, reason=stored(outcome.reason))
    alert = outcome.alert
    if alert is not None:
        alert = replace(alert, title=stored(alert.title), text=stored(alert.text))
    reason = None if outcome.reason is None else stored(outcome.reason)
    return replace(outcome, reason=reason, alert=alert)


def redacted_result(result: str, payload: str) -> str:
    """Redact the result of a success from the credentials of its payload, for those who may not see them."""
    return _redacted_result(result, _credentials(secrets_of(payload)))


def _redacted_result(result: str, credentials: Sequence[_Sought]) -> str:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return _redacted_text(result, credentials)
    together = "\n".join(_texts(value))  # most forms occur in none of the texts, of which there may be thousands
    found = [form for form in _forms_in(together, credentials) if form in together]
    return json.dumps(_redacted_value(value, found), ensure_ascii=False, separators=(",", ":"))


def _texts(value: Any, name: str = "", depth: int = 0) -> Iterator[str]:
    """Yield every text in a result that is searched for credentials."""
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name, depth + 1)
    elif isinstance(value, str):
        yield (text_of_base64(value) or value) if name == "body" else value


def _redacted_value(value: Any, forms: Sequence[str], name: str = "", depth: int = 0) -> Any:
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        return {key: _redacted_value(inner, forms, key, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted_value(inner, forms, name, depth + 1) for inner in value]
    if not isinstance(value, str):
        return value
    if value and is_secret_name(name):
        return MASK
    return _redacted_body(value, forms) if name == "body" else _masked(value, forms)


def _redacted_body(value: str, forms: Sequence[str]) -> str:
    """Redact a response body, which is stored in base64. A body that is not text is redacted in its encoded form."""
    text = text_of_base64(value)
    if text is None:
        return _masked(value, forms)
    shown = _masked(text, forms)
    return value if shown == text else base64.b64encode(shown.encode()).decode()
