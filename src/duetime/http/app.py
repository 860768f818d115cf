"""The web application: MCP at `/mcp`, a sign of life at `/healthz`, and the doorkeepers before both."""

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
"""Bytes of a request: what is too long for a tool should still reach it, to be answered in its own words."""


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
    """Without `tokens` nobody is asked who they are; the command line allows that on a loopback address alone.
    `no_page` answers a browser that strayed, `more` are the routes besides MCP's."""
    # The guard below checks Host and Origin for every route; the SDK would check its own alone.
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
    # Mounted at the root and last, so that `/mcp` is answered as it stands, without a redirect.
    routes = [Route("/healthz", _alive), *more, Mount("/", app=OwnedSessions(mcp, limits.shares))]
    app = Starlette(routes=routes, middleware=doorkeepers, lifespan=lifespan)
    app.state.end_answers = answers.end
    return app


async def _alive(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
