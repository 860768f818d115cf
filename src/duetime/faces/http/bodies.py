"""How much a request may bring along, and how long it may take; the application is handed the whole body at once.

Before anybody is authenticated little is taken: enough for the form that signs in.
"""

from __future__ import annotations

from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.faces.http.connection_limits import CONNECTION, OWNER, ConnectionLimits
from duetime.faces.http.problems import refusal

UNAUTHENTICATED: Final = 16 * 1024
"""Bytes of a request that no token came with."""
WHOLE: Final = 10
"""A body as a whole may take this many times the patience for one piece; without a token it may take it once."""
_BODILESS: Final = frozenset({"GET", "HEAD"})


class TooLarge(Exception):
    """More came than may come."""


class BodyLimit:
    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most if OWNER in scope else UNAUTHENTICATED
        if OWNER not in scope and scope["method"] in _BODILESS and _has_body(scope):
            words = f"A {scope['method']} of this address takes no body; leave it out."
            await refusal(scope, 400, "no_body_here", words)(scope, receive, send)
            return
        try:
            messages = await self._received(scope, receive, most)
        except TooLarge:
            words = f"A request may have {most} bytes; store the data elsewhere and send a reference to it."
            # Not closed at once: a client that is still sending would see a reset in place of this answer.
            await refusal(scope, 413, "too_large", words)(scope, receive, send)
            return
        except TimeoutError:
            words = "The body of the request did not arrive in time; send it again, in one piece."
            await refusal(scope, 408, "too_slow", words, headers={"Connection": "close"})(scope, receive, send)
            return
        if messages[0]["type"] != "http.request":
            return  # the client left; there is nothing to do and nobody to tell

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, replay, send)

    async def _received(self, scope: Scope, receive: Receive, most: int) -> list[Message]:
        """All that comes, as one piece, or the end of a client that left meanwhile."""
        if _announces_more_than(scope, most):
            raise TooLarge
        body, patience = bytearray(), _patience(scope)
        with anyio.fail_after(patience * (WHOLE if OWNER in scope else 1)):
            while True:
                with anyio.fail_after(patience):
                    message = await receive()
                if message["type"] != "http.request":
                    return [message]
                body += message.get("body", b"")
                if len(body) > most:
                    raise TooLarge
                if not message.get("more_body", False):
                    return [{"type": "http.request", "body": bytes(body), "more_body": False}]


def _patience(scope: Scope) -> float:
    connection = scope.get(CONNECTION)
    limits: ConnectionLimits = ConnectionLimits() if connection is None else connection.limits
    return limits.body_seconds


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _announces_more_than(scope: Scope, most: int) -> bool:
    length = Headers(scope=scope).get("content-length", "")
    return length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > most)
