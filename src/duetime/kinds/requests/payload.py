"""Validation of the parts of a request. An error names the part and says what would be valid."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.kinds.requests.retry_delay import read_formula
from duetime.kinds.requests.wire import LONGEST_PATIENCE
from duetime.net.messages import OURS, is_header_name, is_header_value

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MOST_RETRIES = 99
LONGEST_DELAY = 365 * 86_400
"""Maximum delay in seconds."""
_MOST_HEADERS = 100
_LONGEST_HEADERS = 32 * 1024
_LONGEST_TEXT = 200
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


def checked_request(payload: Mapping[str, Any], host_of: Callable[[str], str]) -> dict[str, Any]:
    for name in payload:
        if name not in _CHECKS:
            raise _refused(str(name)[:60], f"a request has no such part; it has {', '.join(_CHECKS)}")
    if "body" in payload and "body_base64" in payload:
        raise _refused("body_base64", "a request has one body; leave out one of the two")
    given = {"method": "POST", **{name: value for name, value in payload.items() if value is not None}}
    if "url" not in given:
        raise _refused("url", "is missing; give the address to call, such as https://hooks.example.org/path")
    for name in _URLS & given.keys():
        if not isinstance(given[name], str):
            raise _refused(name, "must be a text such as https://hooks.example.org/path")
        _check_url(name, given[name], host_of)
    return {name: _CHECKS[name](name, value) for name, value in given.items()}


def _refused(name: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{name}: {rule}", field=name)


def _check_url(name: str, url: str, host_of: Callable[[str], str]) -> None:
    try:
        host_of(url)
    except InvalidInput as error:
        raise _refused(name, error.message) from None


def _as_is(_name: str, value: Any) -> Any:
    return value


def _method(name: str, value: Any) -> str:
    if value not in METHODS:
        raise _refused(name, f"must be one of {', '.join(METHODS)}")
    return str(value)


def _headers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > _MOST_HEADERS:
        raise _refused(name, f"must be a table of at most {_MOST_HEADERS} names and values")
    for header, content in value.items():
        if not isinstance(header, str) or len(header) > _LONGEST_TEXT or not is_header_name(header):
            raise _refused(name, "a name holds characters that no header may have")
        if header.lower() in OURS:
            raise _refused(name, f"{header} is set by Duetime itself; leave it out")
        if not isinstance(content, str) or not is_header_value(content):
            raise _refused(name, f"{header} must be a text without line breaks and control characters")
    if sum(len(header) + len(content) for header, content in value.items()) > _LONGEST_HEADERS:
        raise _refused(name, f"they have more than {_LONGEST_HEADERS} characters together; send less")
    return dict(value)


def _body(name: str, value: Any) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise _refused(name, "must be a text; what is none goes into body_base64")
    return value


def _base64(name: str, value: Any) -> str:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _refused(name, "must be a text in base64") from None
    return str(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST_TEXT or not value.isprintable():
        raise _refused(name, f"must be a text of 1 to {_LONGEST_TEXT} characters that can be printed")
    return value


def _id(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _refused(name, "must be 1 to 100 letters, digits, hyphens, periods and underscores")
    return value


def _number(least: int, most: int) -> Callable[[str, Any], int]:
    def checked(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise _refused(name, f"must be a whole number from {least} to {most}")
        return value

    return checked


def _formula(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(name, "must be a text such as 1000 * (1 + retried)")
    read_formula(value)
    return value


def _redacted(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) and _is_redaction(each) for each in value):
        raise _refused(name, "holds body, headers and header[Name]")
    return value


def _is_redaction(text: str) -> bool:
    within = text.removeprefix("header[").removesuffix("]")
    return text in ("body", "headers") or (text == f"header[{within}]" and is_header_name(within))


_URLS = frozenset({"url", "callback", "failure_callback"})
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "method": _method,
    "url": _as_is,  # checked before all others
    "headers": _headers,
    "body": _body,
    "body_base64": _base64,
    "label": _text,
    "retries": _number(0, MOST_RETRIES),
    "retry_delay": _formula,
    "timeout": _number(1, LONGEST_PATIENCE),
    "delay": _number(0, LONGEST_DELAY),
    "cron": _text,
    "id": _id,
    "callback": _as_is,
    "failure_callback": _as_is,
    "callback_headers": _headers,
    "failure_callback_headers": _headers,
    "redact": _redacted,
}
