"""Redaction of credentials from what is stored, shown or logged.

Credentials are known from three sources: a run's payload; this process's settings and environment, which whoever builds
the process registers with `remember_secrets`; and the one table of patterns that look like credentials.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from duetime.engine.encoding import parse_json, shorten_error
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Retry, Skipped, Waiting
from duetime.engine.tracebacks import stored_traceback, traceback_of
from duetime.engine.value_class import NamedTuple, pattern

MASK: Final = "***"
MIN_SECRET_LENGTH: Final = 6
"""Minimum length of a value that is searched for, because shorter ones occur in many texts by chance."""
DEEPEST: Final = 60
"""Maximum nesting level of a value; deeper values are not read or shown."""
MOST_VALUES: Final = 2000
"""Maximum number of payload values that are searched for in one text."""
LONGEST_NAME: Final = 100
_BODIES: Final = ("body", "Body", "body_base64")
"""Ends of the names of bodies, which may be encoded in base64."""
SHORT_TEXT: Final = 100
"""Maximum length of a text whose masked form is remembered."""

# -- what looks like a credential ------------------------------------------------------------------------------------

_NAME = (
    r"(?:auth|authorization|cookie|password|passphrase|passwd|pwd|secret|token|credential|signature"
    r"|(?:api|access|private|signing)[ _-]?key|(?<![a-z0-9])sig)s?"
)
"""The end of every name of an argument, header, parameter, field or variable that holds a credential."""
_SECRET_NAME: Final = pattern(rf"(?i){_NAME}\Z")
_NAMES = ("auth", "cookie", "pass", "pwd", "secret", "token", "credential", "sig", "key")
_COUNT = r"(?<=tokens)[\"']?[ \t]{0,9}[=:][ \t]{0,9}[\d,.]{1,20}(?![\w-])"
"""A number of tokens, which is not a credential."""
_PATTERNS: Final = (
    (
        _NAMES,
        pattern(
            rf"(?i)(?=[acpst]){_NAME}(?!{_COUNT})"
            # `"password": "…"`, `password='…'`; also in JSON nested as an escaped string
            r"(?:\\{0,9}[\"']?\s{0,9}[=:]>?\s{0,9}(?:\\{0,9}\"((?:[^\"\\]|\\{1,9}[^\"\\])++)|'((?:[^'\\]|\\{1,9}[^'\\])++))"
            # `?token=…` in a URL, `password=…` in a form or on a command line, up to the next parameter
            r"|[\"']?[ \t]{0,9}=(?:(?![=>])[ \t]{0,9}|[=>]{1,2}(?=[^\s=>]))((?:[^\s&;\"'#]|#(?!\w{1,100}=))++))"
        ),
    ),
    (
        _NAMES,
        pattern(
            rf"(?i)(?=[acpst])(?:(?P<header>(?<=-){_NAME}|api-key|authorization|cookies?)|{_NAME})(?!{_COUNT})"
            # `X-Api-Key: …` in plain text, up to the end of the line; `password: …`, such as in a message
            r"[\"']?\s{0,9}:(?(header)[ \t]{0,9}|\s{0,9})(?:(?:bearer|basic|token)[ \t]{1,9})?"
            r"(?P<word>(?(header)[^\r\n\"'<>]+|[^\s,;\"']+))"
        ),
    ),
    (("bearer", "basic"), pattern(r"(?i)\b(?:bearer|basic)\s+(?P<word>[^\s,;\"']+)")),
    # the user and the password of a URL
    (("://",), pattern(r"://(?P<word>[^\s/]+)(?=@)")),
    # a JSON Web Token; begins at the start of a word, after optional name parts, so that each start is tried once
    (("eyj",), pattern(r"(?<![\w-])(?:\w{0,30}-){0,3}(eyJ[\w-]++\.[\w-]++\.[\w-]*)")),
)
"""The last group of a match is a credential, and the end of the match. In the group `word`, a plain word is a
credential in an error, but not in the text of a person. Each match contains one of the texts before its pattern in
lower case; texts without any, which are most, are not searched. Each pattern takes linear time on any text: nothing
before a name is matched, and repetitions are bounded or never backtrack."""
_PLAIN_WORD: Final = pattern(
    r"[A-Z]?[a-z]+(?:[-'/.][A-Z]?[a-z]+){0,9}[.!?:)]{0,3}|[0-9]{1,3}\W{0,2}|\w{1,20}://.*|<.*|\W{1,3}", re.DOTALL
)
"""A word, a small number, a link, a placeholder or a punctuation mark."""
_TOKEN: Final = pattern(r"(?=\D*\d)[\w-]{16,}")
"""A user of an address who is no name but a token."""


def is_secret_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and _SECRET_NAME.search(name) is not None


def _patterns_for(text: str) -> Iterator[re.Pattern[str]]:
    lowered = text.lower()
    return (each for needles, each in _PATTERNS if any(needle in lowered for needle in needles))


def _is_plain_word(match: re.Match[str]) -> bool:
    is_header = (match.groupdict().get("header") or "auth").lower() != "auth"  # "two-factor-auth: on" is prose
    return match.lastgroup == "word" and not is_header and _PLAIN_WORD.fullmatch(match["word"]) is not None


def mask_text(text: str, *, words: bool = True) -> str:
    """Mask what looks like a credential; `words` tells whether plain words are masked, too, where a value is due, as in
    errors."""

    def mask(match: re.Match[str]) -> str:
        if not words and _is_plain_word(match):
            return match[0]
        return f"{text[match.start() : match.start(match.lastindex or 0)]}{MASK}"

    for each in _patterns_for(text):
        text = each.sub(mask, text)
    return text


def without_secrets(reason: str) -> str:
    """Return a backend's message in a form that is safe to show, because an error may quote the request with its
    credentials."""
    return mask_text(reason[:2000])[:500]


def without_password(url: str) -> str:
    """Mask the passwords in a URL, because hints end up in logs."""
    address = re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", address)


# -- values with credentials -----------------------------------------------------------------------------------------


def masked(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return a copy with credentials masked; everything else, including the structure, is unchanged. A number is never
    a credential, so `max_tokens` may be shown."""
    if depth > DEEPEST:
        return "..."
    if name:
        if value and isinstance(value, str | list | dict) and is_secret_name(name):
            return MASK
        if isinstance(value, str) and name.endswith(_BODIES):
            return _mask_body(name, value, partial(_mask_prose, depth=depth))
    if isinstance(value, str):
        return _mask_short(value, depth) if len(value) <= SHORT_TEXT else _mask_prose(value, depth)
    if isinstance(value, dict):
        return {key: masked(inner, key, depth + 1) for key, inner in value.items()}
    return [masked(inner, "", depth + 1) for inner in value] if isinstance(value, list) else value


def _mask_prose(text: str, depth: int) -> str:
    """Mask a JSON text by its structure, and any other text by the patterns."""
    content = _parse_container(text)
    if content is None:
        return mask_text(text, words=False)
    copy = masked(content, "", depth + 1)
    return text if copy == content else json.dumps(copy, ensure_ascii=False)


_mask_short = lru_cache(maxsize=2048)(_mask_prose)  # lists and creates show the same names again and again


def _mask_body(name: str, text: str, mask: Callable[[str], str]) -> str:
    """Mask a text. A body may be encoded in base64; what is not a text is masked in its encoded form."""
    content = _decode_body(name, text)
    copy = mask(content)
    return text if copy == content else copy if content is text else base64.b64encode(copy.encode()).decode()


def _decode_body(name: str, text: str) -> str:
    """Return the text of a body in base64. Other texts, binary data and what is not base64 are returned unchanged."""
    if not name.endswith(_BODIES):
        return text
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text


def _parse_container(text: str) -> Any:
    """Parse a JSON object or list; return None for any other text."""
    return parse_json(text) if text.lstrip().startswith(("{", "[")) else None


def texts_in(value: Any, names: tuple[str, ...] = ("",)) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text in a value, after the names that lead to it, one for each level; items of a list have the name
    of the list."""
    if isinstance(value, str):
        yield names, value
    elif len(names) <= DEEPEST and isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else ((names[-1], inner) for inner in value)
        for name, inner in items:
            yield from texts_in(inner, (*names, str(name)))


def map_texts(value: Any, change: Callable[[str, str], str], name: str = "", depth: int = 0) -> Any:
    """Return a copy with every text changed by `change(name, text)`; what is nested too deeply is cut."""
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        return {key: map_texts(inner, change, key, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [map_texts(inner, change, name, depth + 1) for inner in value]
    return change(name, value) if isinstance(value, str) else value


def secrets_in(value: Any, names: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Yield every value under the name of a credential, and every credential within a text."""
    for path, text in texts_in(value, names):
        if any(map(is_secret_name, path)):
            yield from _credential(text)
        else:
            yield from _secrets_in_text(_decode_body(path[-1], text), path)


def _secrets_in_text(text: str, names: tuple[str, ...]) -> Iterator[str]:
    yield from secrets_in(_parse_container(text), (*names, ""))
    for each in _patterns_for(text):
        for match in each.finditer(text):
            if not _is_plain_word(match):
                secret = match[match.lastindex or 0]
                yield from _credential(secret)
                if match[0].startswith("://"):
                    yield from _secrets_of_login(secret)


def _secrets_of_login(login: str) -> Iterator[str]:
    """Yield the secret parts of `user:password` in an address. A user alone is a token, and so is the user of GitHub's
    `TOKEN:x-oauth-basic`, or a long one with digits, beside which any password may stand; other users have names, which
    results and logs may contain for other reasons."""
    user, _, password = login.partition(":")
    is_alone = password in ("", "x-oauth-basic")
    if is_alone or _TOKEN.fullmatch(user):
        yield user
    if not is_alone:
        yield password


def _credential(value: str) -> Iterator[str]:
    """Yield a credential, and its part after the name of a scheme, such as `Bearer`."""
    yield value
    scheme, _, rest = value.partition(" ")
    if scheme.lower() in ("bearer", "basic", "token"):
        yield rest.strip()


def secrets_of(payload: str) -> list[str]:
    """Return the credentials in a stored payload."""
    return list(secrets_in(parse_json(payload)))


# -- known credentials -----------------------------------------------------------------------------------------------

_known: set[str] = set()
_ENCODED: Final = pattern(r"(?:%[0-9A-Fa-f]{2}|[^A-Za-z0-9_.~-])+")
"""Characters that the encoded forms of a value may represent in different ways."""
AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


class _Credential(NamedTuple):
    value: str
    plain: str
    """Its longest part that is the same in every form."""


def remember_secrets(values: Iterable[str]) -> None:
    """Register credentials of this process, which are redacted from every text from now on."""
    _known.update(value for value in values if len(value) >= MIN_SECRET_LENGTH)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these values and those of this process, in whatever encoding it contains them, and
    without what looks like a credential."""
    return _redact(text, _with_known(secrets))


_CLUES: Final = (
    "auth", "cookie", "passw", "passphrase", "pwd", "secret", "token", "credential", "sig", "bearer", "basic",
    "://", "eyj",
)  # fmt: skip
_KEYS: Final = [f"{word}{sign}key" for word in ("api", "access", "private", "signing") for sign in ("", " ", "_", "-")]
"""Every match of a pattern begins with a name that contains one of them, in lower case."""


def _has_clue(text: str) -> bool:
    text = text.lower()
    return any(clue in text for clue in _CLUES) or ("key" in text and any(key in text for key in _KEYS))


def line_redactor(payload: str) -> Callable[[str], str]:
    """Return a function that redacts many whole lines as `redacted` does, from the credentials of a payload. Only texts
    with a clue are masked, because the patterns take long."""
    credentials = _with_known(secrets_of(payload))

    def redact(text: str) -> str:
        text = _replace(text, _forms_in(text, credentials))
        return mask_text(text) if _has_clue(text) else text

    return redact


def without_values(text: str, values: Iterable[str]) -> str:
    """Return the text without these values, in whatever encoding it contains them."""
    return _replace(text, _forms_in(text, _credentials(values)))


def redacted_trace(error: BaseException, payload: str) -> str:
    """Return the redacted traceback of a failure, for the log."""
    return redacted(traceback_of(error), secrets_of(payload))


def redacted_outcome(outcome: AnyOutcome, payload: str) -> AnyOutcome:
    """Redact what is stored of a failure. The result of a success belongs to its owner and stays as it is."""
    if isinstance(outcome, Completed | Waiting):
        return outcome
    credentials = _with_known(secrets_of(payload))

    def redact(text: str) -> str:
        return shorten_error(_redact(text, credentials))

    if isinstance(outcome, Failed | Retry):
        result = None if outcome.result is None else _redact_result(outcome.result, credentials)
        trace = None if outcome.traceback is None else stored_traceback(_redact(outcome.traceback, credentials))
        return replace(outcome, error=redact(outcome.error), result=result, traceback=trace)
    if isinstance(outcome, Cancelled | Skipped):
        return replace(outcome, reason=redact(outcome.reason))
    alert = outcome.alert
    if alert is not None:
        alert = replace(alert, title=redact(alert.title), text=redact(alert.text))
    return replace(outcome, reason=None if outcome.reason is None else redact(outcome.reason), alert=alert)


def redacted_result(result: str, payload: str) -> str:
    """Redact the result of a success from the credentials of its payload, for those who may not see them."""
    return _redact_result(result, _with_known(secrets_of(payload)))


def _with_known(secrets: Iterable[str]) -> list[_Credential]:
    """Return the longest of these credentials and all of this process, for all texts of an outcome."""
    longest = sorted({value for value in secrets if len(value) >= MIN_SECRET_LENGTH}, key=len, reverse=True)[
        :MOST_VALUES
    ]
    return _credentials({*longest, *_known})


def _credentials(values: Iterable[str]) -> list[_Credential]:
    """Return these values and the lines of long ones, longest first, because one may be part of another."""
    values = {*values}
    # the text may indent them differently
    lines = {line.strip() for value in values if "\n" in value for line in value.splitlines()}
    values |= {line for line in lines if len(line) >= MIN_SECRET_LENGTH}
    return [_Credential(value, max(_ENCODED.split(value), key=len)) for value in sorted(values, key=len, reverse=True)]


def _forms_in(text: str, credentials: Sequence[_Credential]) -> dict[str, None]:
    """Return every form in which this text may quote the values. Building the forms of a value takes much longer than
    searching for its plain part, which few texts contain."""
    forms: dict[str, None] = {}
    for value, plain in credentials:
        if plain in text:
            quoted = quote(value, safe="", errors="replace")  # it may be invalid Unicode
            forms |= dict.fromkeys(
                (value, repr(value)[1:-1], json.dumps(value)[1:-1], quoted, quoted.replace("%2F", "/"), unquote(value))
            )
    return forms


def _replace(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _redact(text: str, credentials: Sequence[_Credential]) -> str:
    return mask_text(_replace(text, _forms_in(text, credentials)))


def _redact_result(result: str, credentials: Sequence[_Credential]) -> str:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return _redact(result, credentials)
    texts = (_decode_body(names[-1], text) for names, text in texts_in(value))
    together = "\n".join(texts)  # most forms occur in none of the texts, of which there may be thousands
    forms = [form for form in _forms_in(together, credentials) if form in together]

    def redact(name: str, text: str) -> str:
        if text and is_secret_name(name):
            return MASK
        return _mask_body(name, text, lambda content: mask_text(_replace(content, forms)))

    return json.dumps(map_texts(value, redact), ensure_ascii=False, separators=(",", ":"))
