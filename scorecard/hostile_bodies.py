"""Bodies that are expensive to parse, validate or refuse, on each interface: far beyond the limits, just within the
limit of bytes, and just within the limit of values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scorecard.mcp_client import ERA, META

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
STREAM = {**JSON, "Accept": "application/json, text/event-stream"}
MODERN = {**STREAM, "MCP-Protocol-Version": ERA, "Mcp-Method": "tools/call", "Mcp-Name": "get_current_time"}
ALLOWED = 256 * 1024
IN_BATCH = 1024 * 1024
IN_FORM = 3 * ALLOWED
FAR_BEYOND = 8 * 1024 * 1024 - 1
"""Bytes far beyond the limits. A server that allows 8 MiB parses them."""
VALUES = 50_000
"""Maximum values and names in a body that is parsed."""


class HostileBody(NamedTuple):
    """A request with an expensive body. Pages need the cookie of a session instead of a token."""

    about: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    exceeds: str = ""
    """What it has too much of, `bytes` or `values`, so that it is refused before it is parsed; nothing if it is
    parsed."""

    @property
    def is_page(self) -> bool:
        return self.headers is FORM


class Shape(NamedTuple):
    """A body that repeats an item as often as its size allows. Each item has this number of values and names."""

    about: str
    path: str
    headers: Mapping[str, str]
    before: bytes
    item: bytes
    after: bytes
    values: int = 0
    far_beyond: bool = False
    """Whether it is sent far beyond the limits as well."""

    def bodies(self) -> Iterator[HostileBody]:
        allowed = IN_FORM if self.headers is FORM else IN_BATCH if self.path == "/v2/batch" else ALLOWED
        if self.far_beyond:
            yield self._body("of 8 MB", self._times(FAR_BEYOND), "bytes")
        times = self._times(allowed)
        many = self.values * times > VALUES
        yield self._body("within the limit", times, "values" if many else "")
        if many:
            values = VALUES - 1000
            yield self._body(f"of {values:,} values", values // self.values)

    def _times(self, size: int) -> int:
        return (size - len(self.before) - len(self.after)) // len(self.item)

    def _body(self, size: str, times: int, exceeds: str = "") -> HostileBody:
        body = self.before + self.item * times + self.after
        return HostileBody(f"{self.about} {size}", self.path, self.headers, body, exceeds)


def hostile_bodies() -> Iterator[HostileBody]:
    yield HostileBody("700,000 unknown fields", "/api/v1/preview", JSON, _fields(700_000), "bytes")
    yield HostileBody("26,000 unknown fields", "/api/v1/preview", JSON, _fields(26_000), "values")
    yield HostileBody("24,000 unknown fields", "/api/v1/preview", JSON, _fields(24_000))
    yield HostileBody("350 unknown fields in 4 kB", "/api/v1/preview", JSON, _fields(350))
    for shape in _shapes():
        yield from shape.bodies()


def _shapes() -> Iterator[Shape]:
    before = b'{"kind": "job", "name": "n", "trigger": {"type": "once", "delay": "300d"}, "payload": '
    before += b'{"task": "noop", "args": ['
    # The task is unknown, so that nothing is stored: what is measured is parsing, not the data that an owner may keep.
    create, number = ("/api/v1/schedules", JSON), b"9" * 4000 + b","
    yield Shape("empty lists", *create, before, b"[],", b"[]]}}", 2, far_beyond=True)
    yield Shape("objects", *create, before, b'{"":1},', b"1]}}", 3, far_beyond=True)
    yield Shape("nested lists", *create, b"", b"[", b"", 1, far_beyond=True)
    yield Shape("nested objects", *create, b"", b'{"a":', b"", 2)
    yield Shape("long numbers", *create, before, number, b"1]}}")
    yield Shape("a text", *create, before + b'"', b"pass ", b'"]}}')
    yield Shape("a text of separators", *create, before + b'"', b',:[{\\"', b'"]}}')
    yield Shape("wrong items", "/api/v1/dead/retry", JSON, b'{"ids": [', b'"",', b"1]}", 1)
    yield Shape("a form", "/new", FORM, b"csrf=", b"%41", b"", far_beyond=True)
    yield Shape("a form of many fields", "/new", FORM, b"csrf=", b"&a=", b"")
    batch = ("/v2/batch", JSON)
    yield Shape("a batch", *batch, b"[", b"{},", b"{}]", 2, far_beyond=True)
    yield Shape("a batch of texts", *batch, b'["', b"\\u1234", b'"]')
    yield Shape("a batch of short texts", *batch, b"[", b'",,",', b'""]', 1)
    yield Shape("a batch of long numbers", *batch, b"[", number, b"1]")
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_current_time", "_meta": '
    call += json.dumps(META).encode() + b', "arguments": {"timezone": '
    yield Shape("a tool's arguments", "/mcp", MODERN, call + b"[", b"1,", b"1]}}}", 1, far_beyond=True)
    yield Shape("a tool's text", "/mcp", MODERN, call + b'"', b"pass ", b'"}}}')
    yield Shape("a message of the older protocol", "/mcp", STREAM, call + b"[", b"1,", b"1]}}}", 1)
    yield Shape("a message that is no call", "/mcp", STREAM, b'{"method": [', b"1,", b"1]}", 1)


def _fields(number: int) -> bytes:
    return b"{" + b",".join(b'"%d":1' % each for each in range(number)) + b"}"
