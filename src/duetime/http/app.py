"""The web application: MCP at `/mcp`, a liveness check at `/healthz`, further routes, and the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from duetime.http.auth import Bearer
from duetime.http.browser_sessions import Browsers, Unasked
from duetime.http.mcp_sessions import OwnedSessions
from duetime.http.middleware import Answers, BodyLimit, Guard, NoPage, OpenAnswers, SafeHeaders, Strays
from duetime.http.owner_share import OwnerShare
from duetime.mcp.server import McpFace
from duetime.mcp.subscriptions import Watcher
from duetime.security.tokens import Tokens
from duetime.service.owner_limits import OwnerLimits

LARGEST = 8 * 1024 * 1024
"""Maximum bytes of a request, large enough that an argument too long for a tool gets the tool's own error."""


def http_app(
    face: McpFace,
    watcher: Watcher,
    tokens: Tokens | None,
    browsers: Browsers,
    no_page: NoPage,
    hosts: Sequence[str] = (),
    more: Sequence[BaseRoute] = (),
    limits: OwnerLimits | None = None,
) -> Starlette:
    """Build the application. Without `tokens` there is no authentication; the command line allows that only on a
    loopback address. `no_page` answers a browser at an unknown path, `more` are routes besides MCP's."""
    # The guard below checks Host and Origin for every route; the SDK would check only its own.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp = face.server.streamable_http_app(transport_security=unchecked, max_request_body_size=LARGEST)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with face.server.session_manager.run(), watcher.running():
            yield

    answers, limits = OpenAnswers(), limits or OwnerLimits()
    doorkeepers = [Middleware(SafeHeaders), Middleware(Guard, hosts=tuple(hosts))]
    doorkeepers.append(Middleware(Answers, open_answers=answers))
    doorkeepers.append(Middleware(Strays, no_page=no_page))
    if tokens is None:
        doorkeepers.append(Middleware(Unasked, browsers=browsers))
    else:
        doorkeepers.append(Middleware(Bearer, tokens=tokens, browsers=browsers))
    doorkeepers.append(Middleware(BodyLimit, most=LARGEST))
    doorkeepers.append(Middleware(OwnerShare, limits=limits))
    # Mounted at the root and last, so that `/mcp` is answered without a redirect.
    routes = [Route("/healthz", _alive), *more, Mount("/", app=OwnedSessions(mcp, limits.shares))]
    app = Starlette(routes=routes, middleware=doorkeepers, lifespan=lifespan)
    app.state.end_answers = answers.end
    return app


async def _alive(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
