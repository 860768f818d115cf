"""Compression of responses. Streams of events are passed on unchanged, because an event must not wait in a buffer.

The length of a compressed page tells anyone who observes the connection how well a guess matches a secret in the page
(BREACH). The only lasting secret in our pages is the CSRF token, which is therefore masked differently in every
response. An access token is in one response only, with no-store, so nobody can compare guesses: the next response has
another token.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

MIN_COMPRESSED_BYTES: Final = 1_000
"""Smaller bodies fit in one packet anyway."""
_LEVEL: Final = 5


class Compression(GZipMiddleware):
    """Compresses responses other than streams of events, if the client accepts gzip."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, MIN_COMPRESSED_BYTES, _LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of clients that refuse gzip by its weight, which Starlette does not read."""
        compresses = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
        await (super().__call__ if compresses else self.app)(scope, receive, send)


def accepts_gzip(header: str) -> bool:
    """Return whether `Accept-Encoding` names gzip with a weight above 0."""
    for part in header.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "x-gzip"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
