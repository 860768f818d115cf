"""MCP over HTTP, with a limit on sessions (older protocol) per owner: a new session ends the least recently used one.

The SDK has only a common limit, with which one owner could prevent all others from opening a session. It also parses
messages in the event loop. So a large one is parsed here in a thread, and the SDK gets it without the arguments of the
tool, which `server` takes from the request.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from traceback import clear_frames
from typing import Any, Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send

from duetime.engine.errors import Refused
from duetime.engine.kind import LOCAL
from duetime.http.bodies import IN_LOOP, MOST_BYTES, parse_json
from duetime.http.connection_limits import OWNER
from duetime.http.problems import refusal, rpc_error
from duetime.mcp.server import ARGUMENTS, McpServer
from duetime.service.errors import refuse
from duetime.service.owner_limits import OwnerLimits, TooManyRequests, counted

SESSION_ID: Final = "mcp-session-id"
MOST_OF_LOCAL: Final = 5000
MOST_STREAMS_OF_LOCAL: Final = 250
_REMEMBERED: Final = 1000
_ENDED: Final = (
    "This session was ended, because its owner opened more than {most} and others were used more recently; "
    "initialize a new one, and end sessions with DELETE when they are done."
)
_TOO_MANY_STREAMS: Final = "So many streams of this owner are open that no further one is; close some first."
_MOST_BESIDES: Final = 16 * 1024
_TOO_LARGE: Final = f"Besides the arguments of a tool, a message may have {_MOST_BESIDES} bytes; send less."


def mcp_route(server: McpServer, limits: OwnerLimits) -> Mount:
    """Return the route of `/mcp`. It comes last: it is mounted at the root, so that `/mcp` needs no redirect."""
    # The server's own middleware checks Host and Origin for every route; the SDK would check only its own.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.sdk.streamable_http_app(transport_security=unchecked, max_request_body_size=MOST_BYTES)
    return Mount("/", app=OwnedSessions(app, limits))


@asynccontextmanager
async def running(server: McpServer) -> AsyncIterator[None]:
    """Keep the sessions and subscriptions of a server active while the HTTP application runs."""
    async with server.sdk.session_manager.run(), server.watcher.running():
        yield


class OwnedSessions:
    """Wraps the SDK's application. Use it only from the thread of the server's event loop."""

    def __init__(self, app: Starlette, limits: OwnerLimits) -> None:
        self._app, self._limits, self._shares = app, limits, limits.shares
        self.routes = app.routes
        self._sessions: dict[str, OrderedDict[str, Any]] = {}
        self._ended: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._streams: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive() if scope["method"] == "POST" else {}
        body: bytes = message.get("body", b"")
        if len(body) > IN_LOOP:
            try:
                small, scope[ARGUMENTS] = await self._limits.run(scope.get(OWNER, ""), partial(_parted, body))
            except (Refused, TooManyRequests) as error:
                clear_frames(error.__traceback__)  # they refer to the message and to each other
                is_large = isinstance(error, Refused)
                await _refusal(scope, 413 if is_large else 429, str(error))(scope, receive, send)
                return
            message = {**message, "body": small}
        unread = [message] if message else []

        async def received() -> Message:
            return unread.pop() if unread else await receive()

        await self._answer(scope, received, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner, session = scope.get(OWNER, ""), Headers(scope=scope).get(SESSION_ID)
        if session is not None and (owner, session) in self._ended:
            error = rpc_error(-32600, _ENDED.format(most=self._limit(owner)))
            await JSONResponse(error, 404)(scope, receive, send)
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
            await _refusal(scope, 429, _TOO_MANY_STREAMS)(scope, receive, send)
            return
        with counted(self._streams, owner):
            await self._app(scope, receive, send)


def _parted(body: bytes) -> tuple[bytes, Any]:
    """Return a large message without the arguments of a tool, and these arguments. Of what is no message, return as
    much as the SDK needs to refuse it. Raise Refused if the rest is too large."""
    try:
        message = parse_json(body)
    except ValueError:
        return b"{", None
    if not isinstance(message, dict):
        return b"[]", None
    params, arguments = message.get("params"), None
    if message.get("method") == "tools/call" and isinstance(params, dict) and isinstance(params.get("arguments"), dict):
        arguments, params["arguments"] = params["arguments"], {}
        body = json.dumps(message).encode()
    if len(body) > _MOST_BESIDES:
        raise refuse("too_large", _TOO_LARGE)
    return body, arguments


def _refusal(scope: Scope, status: int, words: str) -> Response:
    return refusal(scope, status, "refused", words, headers={"Retry-After": "1"} if status == 429 else None)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_message: Message) -> None:
    """Discard the response, since no client waits for it."""
