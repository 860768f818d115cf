"""Compression of complete text responses. Streams are passed on unchanged, because an event must not wait in a buffer.

The length of a compressed page tells anyone who observes the connection how well a guess matches a secret in the page
(BREACH). The only lasting secret in our pages is the CSRF token, which is therefore masked differently in every
response. An access token is in one response only, with no-store, so nobody can compare guesses: the next response has
another token.
"""

from __future__ import annotations

import zlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_COMPRESSED_BYTES: Final = 1_000
"""Smaller bodies fit in one packet anyway."""
_LEVEL: Final = 5
_GZIP: Final = 16 + zlib.MAX_WBITS
_TYPES: Final = frozenset(
    {"text/html", "text/css", "text/javascript", "image/svg+xml", "text/calendar"}
    | {"application/json", "application/problem+json"}
)


class Compression:
    """Compresses the body of a response that is sent in one piece, if the client accepts gzip and the body is text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not accepts_gzip(Headers(scope=scope).get("accept-encoding", "")):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def sent(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_text(message):
                start = message  # sent with the body, because it contains the length of the body
                return
            if start is not None:
                begun, start = start, None
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    message = _compress(begun, message)
                await send(begun)
            await send(message)

        await self._app(scope, receive, sent)
        if start is not None:  # the body was never sent; the client still gets the start of the response
            await send(start)


def accepts_gzip(header: str) -> bool:
    """Return whether `Accept-Encoding` names gzip with a weight above 0."""
    for part in header.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "x-gzip"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_text(message: Message) -> bool:
    headers = Headers(raw=message["headers"])
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in _TYPES and "content-encoding" not in headers


def _compress(start: Message, message: Message) -> Message:
    """Return the compressed body, and set the headers accordingly; return a small body unchanged."""
    headers, body = MutableHeaders(scope=start), message.get("body", b"")
    headers.add_vary_header("Accept-Encoding")
    if len(body) < MIN_COMPRESSED_BYTES:
        return message
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    body = packer.compress(body) + packer.flush()
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(body))
    return {**message, "body": body}
