"""Headers that every answer has: it is stored nowhere, taken for nothing else, and embedded in no other site."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FOR_PROGRAMS: Final = ("/api", "/v2", "/mcp", "/metrics")
"""Paths whose answers hold what belongs to an owner, so that no cache keeps them whatever the application says."""


class SafeHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        private = any(path == each or path.startswith(f"{each}/") for each in _FOR_PROGRAMS)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
                if private:
                    headers["Cache-Control"] = "no-store"
                else:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, sent)
