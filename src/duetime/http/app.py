"""The web application: a liveness check at `/healthz`, the routes of the interfaces, and the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from duetime.http.auth import Bearer
from duetime.http.browser_sessions import Browsers, Unasked
from duetime.http.middleware import Answers, BodyLimit, Guard, NoPage, OpenAnswers, SafeHeaders, Strays
from duetime.http.owner_share import OwnerShare
from duetime.security.tokens import Tokens
from duetime.service.owner_limits import OwnerLimits

MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""Large enough that an argument too long for an MCP tool gets the tool's own error."""


def http_app(
    tokens: Tokens | None,
    browsers: Browsers,
    no_page: NoPage,
    routes: Sequence[BaseRoute],
    running: Callable[[], AbstractAsyncContextManager[None]],
    hosts: Sequence[str] = (),
    limits: OwnerLimits | None = None,
) -> Starlette:
    """Build the application. Without `tokens` there is no authentication; the command line allows that only on a
    loopback address. `no_page` answers a browser at an unknown path; `running` is entered while the server runs."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with running():
            yield

    answers = OpenAnswers()
    authentication = (
        Middleware(Unasked, browsers=browsers)
        if tokens is None
        else Middleware(Bearer, tokens=tokens, browsers=browsers)
    )
    middleware = [
        Middleware(SafeHeaders),
        Middleware(Guard, hosts=tuple(hosts)),
        Middleware(Answers, open_answers=answers),
        Middleware(Strays, no_page=no_page),
        authentication,
        Middleware(BodyLimit, most=MAX_REQUEST_BYTES),
        Middleware(OwnerShare, limits=limits or OwnerLimits()),
    ]
    app = Starlette(routes=[Route("/healthz", _alive), *routes], middleware=middleware, lifespan=lifespan)
    app.state.end_answers = answers.end
    return app


async def _alive(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
