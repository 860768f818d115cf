"""MCP over HTTP, with a limit on sessions (older protocol) per owner: a new session ends the least recently used one.

The SDK has only a common limit, with which one owner could prevent all others from opening a session.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send

from duetime.engine.kind import LOCAL
from duetime.http.app import MAX_REQUEST_BYTES
from duetime.http.connection_limits import OWNER
from duetime.mcp.server import McpServer
from duetime.service.owner_limits import Shares, counted

SESSION_ID: Final = "mcp-session-id"
MOST_OF_LOCAL: Final = 5000
MOST_STREAMS_OF_LOCAL: Final = 250
_REMEMBERED: Final = 1000
_ENDED: Final = (
    "This session was ended, because its owner opened more than {most} and others were used more recently; "
    "initialize a new one, and end sessions with DELETE when they are done."
)
_TOO_MANY_STREAMS: Final = "So many streams of this owner are open that no further one is; close some first."
_NOT_FOUND, _REFUSED = -32600, -32000


def mcp_route(server: McpServer, shares: Shares) -> Mount:
    """Return the route of `/mcp`. It comes last: it is mounted at the root, so that `/mcp` needs no redirect."""
    # The server's own middleware checks Host and Origin for every route; the SDK would check only its own.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.sdk.streamable_http_app(transport_security=unchecked, max_request_body_size=MAX_REQUEST_BYTES)
    return Mount("/", app=OwnedSessions(app, shares))


@asynccontextmanager
async def running(server: McpServer) -> AsyncIterator[None]:
    """Keep the sessions and subscriptions of a server active while the HTTP application runs."""
    async with server.sdk.session_manager.run(), server.watcher.running():
        yield


class OwnedSessions:
    """Wraps the SDK's application. Use it only from the thread of the server's event loop."""

    def __init__(self, app: Starlette, shares: Shares) -> None:
        self._app, self._shares = app, shares
        self.routes = app.routes
        self._sessions: dict[str, OrderedDict[str, Any]] = {}
        self._ended: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._streams: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner, session = scope.get(OWNER, ""), Headers(scope=scope).get(SESSION_ID)
        if session is not None and (owner, session) in self._ended:
            await _error(404, _NOT_FOUND, _ENDED.format(most=self._limit(owner)))(scope, receive, send)
        elif session is None:
            await self._opening(owner, scope, receive, send)
        else:
            self._used(owner, session, scope)
            await (self._streaming if scope["method"] == "GET" else self._app)(scope, receive, send)

    def _limit(self, owner: str) -> int:
        return MOST_OF_LOCAL if owner == LOCAL else self._shares.sessions

    async def _opening(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        opened: list[str] = []

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                session = Headers(raw=message["headers"]).get(SESSION_ID)
                if session is not None:
                    opened.append(session)
            await send(message)

        await self._app(scope, receive, sent)
        for session in opened:
            own = self._sessions.setdefault(owner, OrderedDict())
            own[session] = scope.get("user")
            while len(own) > self._limit(owner):
                await self._end(owner, *own.popitem(last=False), scope)

    def _used(self, owner: str, session: str, scope: Scope) -> None:
        own = self._sessions.get(owner)
        if own is None or session not in own:
            return
        own.move_to_end(session)
        if scope["method"] == "DELETE":
            del own[session]
            if not own:
                del self._sessions[owner]

    async def _end(self, owner: str, session: str, user: Any, scope: Scope) -> None:
        """End a session with a DELETE request, as its own client would, with the credential that opened it."""
        self._ended[owner, session] = None
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        headers = [(SESSION_ID.encode(), session.encode()), (b"accept", b"application/json, text/event-stream")]
        ending = {**scope, "method": "DELETE", "headers": headers, "user": user}
        if user is None:
            del ending["user"]
        await self._app(ending, _nothing, _discard)

    async def _streaming(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner = scope.get(OWNER, "")
        if self._streams[owner] >= (MOST_STREAMS_OF_LOCAL if owner == LOCAL else self._shares.streams):
            await _error(429, _REFUSED, _TOO_MANY_STREAMS)(scope, receive, send)
            return
        with counted(self._streams, owner):
            await self._app(scope, receive, send)


def _error(status: int, code: int, message: str) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(error, status, {"Retry-After": "1"} if status == 429 else None)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_message: Message) -> None:
    """Discard the response, since no client waits for it."""
