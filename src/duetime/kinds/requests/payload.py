"""The payload of a request: its parts, with their checks and the options that the command has for them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.engine.urls import BadAddress, read_url
from duetime.engine.value_class import dataclass
from duetime.kinds.requests.retry_delay import read_formula
from duetime.kinds.requests.wire import LONGEST_PATIENCE, METHODS
from duetime.net.calls import OURS, is_header_name, is_header_value
from duetime.service.payload_fields import About, rule

MAX_DELAY = 365 * 86_400
"""Maximum delay in seconds."""
_MAX_HEADERS = 100
_MAX_HEADER_LENGTH = 32 * 1024
"""Maximum characters of all headers."""
_MAX_TEXT_LENGTH = 200
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


def _url(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field=name, problem="must be a text such as https://hooks.example.org/path")
    try:
        read_url(value)
    except BadAddress as error:
        raise InvalidInput(field=name, problem=str(error)) from None
    return value


def _headers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > _MAX_HEADERS:
        raise InvalidInput(field=name, problem=f"must be a table of at most {_MAX_HEADERS} names and values")
    for header, content in value.items():
        if not isinstance(header, str) or len(header) > _MAX_TEXT_LENGTH or not is_header_name(header):
            raise InvalidInput(field=name, problem="a name holds characters that no header may have")
        if header.lower() in OURS:
            raise InvalidInput(field=name, problem=f"{header} is set by Duetime itself; leave it out")
        if not isinstance(content, str) or not is_header_value(content):
            raise InvalidInput(
                field=name, problem=f"{header} must be a text without line breaks and control characters"
            )
    if sum(len(header) + len(content) for header, content in value.items()) > _MAX_HEADER_LENGTH:
        raise InvalidInput(
            field=name, problem=f"they have more than {_MAX_HEADER_LENGTH} characters together; send less"
        )
    return dict(value)


def _formula(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field=name, problem="must be a text such as 1000 * (1 + retried)")
    read_formula(value)
    return value


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        return False
    return isinstance(value, str)


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _MAX_TEXT_LENGTH and value.isprintable()


def _is_redaction(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    within = text.removeprefix("header[").removesuffix("]")
    return text in ("body", "headers") or (text == f"header[{within}]" and is_header_name(within))


def _header_of(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise InvalidInput(f"--header: write it as 'Name: value', not {text[:60]!r}")
    return name.strip(), value.strip()


_is_method = rule(lambda value: value in METHODS, f"must be one of {', '.join(METHODS)}")
_is_body = rule(
    lambda value: isinstance(value, str) and is_text(value), "must be a text; what is none goes into body_base64"
)
_is_id = rule(
    lambda value: isinstance(value, str) and _ID.fullmatch(value) is not None,
    "must be 1 to 100 letters, digits, hyphens, periods and underscores",
)
_redactions = rule(
    lambda value: isinstance(value, list) and all(map(_is_redaction, value)), "holds body, headers and header[Name]"
)
_printable = rule(_is_short_text, f"must be a text of 1 to {_MAX_TEXT_LENGTH} characters that can be printed")
_for_programs = partial(About, option="")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An HTTP call. The parts without an option are for programs, which create requests through the APIs."""

    url: Annotated[str, About("Address to call.", argument="URL", option="--url URL", check=_url)]
    method: Annotated[
        str, About("Method: GET, POST, PUT, PATCH or DELETE.", option="--method NAME", check=_is_method)
    ] = "POST"
    headers: Annotated[
        dict[str, str] | None,
        About("Header to send, as 'Name: value'.", option="--header HEADER", read_item=_header_of, check=_headers),
    ] = None
    body: Annotated[str | None, About("Body to send.", option="--body TEXT", is_text_input=True, check=_is_body)] = None
    label: Annotated[
        str | None, About("Name in lists; by default the address.", option="--label NAME", check=_printable)
    ] = None
    body_base64: Annotated[str | None, _for_programs(check=rule(_is_base64, "must be a text in base64"))] = None
    retries: Annotated[int | None, _for_programs(minimum=0, maximum=99)] = None
    retry_delay: Annotated[str | None, _for_programs(check=_formula)] = None
    timeout: Annotated[int | None, _for_programs(minimum=1, maximum=LONGEST_PATIENCE)] = None
    delay: Annotated[int | None, _for_programs(minimum=0, maximum=MAX_DELAY)] = None
    cron: Annotated[str | None, _for_programs(check=_printable)] = None
    id: Annotated[str | None, _for_programs(check=_is_id)] = None
    callback: Annotated[str | None, _for_programs(check=_url)] = None
    failure_callback: Annotated[str | None, _for_programs(check=_url)] = None
    callback_headers: Annotated[dict[str, str] | None, _for_programs(check=_headers)] = None
    failure_callback_headers: Annotated[dict[str, str] | None, _for_programs(check=_headers)] = None
    redact: Annotated[list[str] | None, _for_programs(check=_redactions)] = None
