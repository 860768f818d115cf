"""How much a request may bring along; whatever is behind this door has the whole body in hand at once."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.faces.http.problems import refusal


class BodyLimit:
    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        messages = None if self._announced_too_large(scope) else await self._received(receive)
        if messages is None:
            words = f"A request may have {self._most} bytes; store the data elsewhere and send a reference to it."
            await refusal(scope, 413, "too_large", words)(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, replay, send)

    def _announced_too_large(self, scope: Scope) -> bool:
        length = Headers(scope=scope).get("content-length", "")
        return length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > self._most)

    async def _received(self, receive: Receive) -> list[Message] | None:
        """All that comes, as one piece, and the end of a client that left meanwhile; None when it is too much."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return [message]
            body += message.get("body", b"")
            if len(body) > self._most:
                return None
            if not message.get("more_body", False):
                return [{"type": "http.request", "body": bytes(body), "more_body": False}]
