"""Bodies that are expensive to parse, validate or refuse, on each interface: far beyond the limits, and just within
them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scorecard.mcp_client import ERA, META

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
STREAM = {**JSON, "Accept": "application/json, text/event-stream"}
MODERN = {**STREAM, "MCP-Protocol-Version": ERA, "Mcp-Method": "tools/call", "Mcp-Name": "get_current_time"}
TRIGGER = '"trigger": {"type": "once", "delay": "300d"}'
ALLOWED = 256 * 1024
IN_BATCH = 1024 * 1024
MEGABYTE = 1024 * 1024


class HostileBody(NamedTuple):
    """A request with an expensive body. Pages need the cookie of a session instead of a token."""

    about: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_page(self) -> bool:
        return self.headers is FORM


def hostile_bodies() -> Iterator[HostileBody]:
    yield HostileBody("700,000 unknown fields", "/api/v1/preview", JSON, _fields(700_000))
    yield HostileBody("7,000 unknown fields", "/api/v1/preview", JSON, _fields(7000))
    yield HostileBody("350 unknown fields in 4 kB", "/api/v1/preview", JSON, _fields(350))
    yield HostileBody("2.6 million empty lists", "/api/v1/schedules", JSON, _created(b"[],", 8 * MEGABYTE))
    yield HostileBody("a million objects", "/api/v1/schedules", JSON, _created(b'{"a":1},', 8 * MEGABYTE))
    yield HostileBody("deep nesting", "/api/v1/schedules", JSON, b"[" * (8 * MEGABYTE))
    yield HostileBody("deep nesting within the limit", "/api/v1/schedules", JSON, b'{"a":' * 40_000)
    yield HostileBody("24,000 objects", "/api/v1/schedules", JSON, _created(b'{"":1},', 24_000 // 2 * 7))
    yield HostileBody("long numbers", "/api/v1/schedules", JSON, _created(b"9" * 4000 + b",", ALLOWED - 500))
    yield HostileBody(
        "a text of 250 kB", "/api/v1/schedules", JSON, _created(b'"' + b"pass " * 50_000 + b'",', 250_000)
    )
    yield HostileBody("wrong items", "/api/v1/dead/retry", JSON, b'{"ids": [' + b'"",' * 45_000 + b"1]}")
    yield HostileBody("a form of 8 MB", "/new", FORM, b"csrf=" + b"%41" * (8 * MEGABYTE // 3))
    yield HostileBody("a form within the limit", "/new", FORM, b"csrf=" + b"%41" * (ALLOWED - 10))
    yield HostileBody("a batch of 8 MB", "/v2/batch", JSON, b"[" + b"{}," * (8 * MEGABYTE // 3) + b"{}]")
    yield HostileBody("a batch of texts", "/v2/batch", JSON, b'["' + b"\\u1234" * (IN_BATCH // 6 - 2) + b'"]')
    yield HostileBody("a batch of long numbers", "/v2/batch", JSON, b"[" + (b"9" * 4000 + b",") * 260 + b"1]")
    yield HostileBody("a tool's arguments of 8 MB", "/mcp", MODERN, _called(b"1," * (4 * MEGABYTE)))
    yield HostileBody("a tool's arguments within the limit", "/mcp", MODERN, _called(b"1," * 49_000))
    yield HostileBody("a message of the older protocol", "/mcp", STREAM, _called(b"1," * 49_000))
    yield HostileBody("a message that is no call", "/mcp", STREAM, b'{"method": [' + b"1," * 49_000 + b"1]}")


def _fields(number: int) -> bytes:
    return b"{" + b",".join(b'"%d":1' % each for each in range(number)) + b"}"


def _created(item: bytes, size: int) -> bytes:
    items = (item * (size // len(item)))[:-1]
    payload = b'"payload": {"task": "noop", "args": [' + items + b"]}"
    return b'{"kind": "job", "name": "n", ' + TRIGGER.encode() + b", " + payload + b"}"


def _called(items: bytes) -> bytes:
    arguments = b'{"timezone": [' + items + b"1]}"
    return (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_current_time", "_meta": '
        + json.dumps(META).encode()
        + b', "arguments": '
        + arguments
        + b"}}"
    )
