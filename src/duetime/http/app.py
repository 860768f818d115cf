"""The web application: the middleware, the routes of the interfaces, a liveness check, and the calendar feed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio.to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.store import Store
from duetime.http.auth import Bearer
from duetime.http.browser_sessions import BrowserGuard, Browsers
from duetime.http.compression import Compression
from duetime.http.connection_limits import OWNER
from duetime.http.middleware import Answers, BodyLimit, ErrorPages, HostGuard, NoPage, OpenAnswers, SafeHeaders
from duetime.http.probe import PROOF, SERVICE, proof_of
from duetime.http.problems import is_api, refusal
from duetime.security.claims import InvalidToken
from duetime.security.tokens import Tokens
from duetime.service.calendar import calendar_of
from duetime.service.operations.upcoming import coming
from duetime.service.owner_limits import NOBODY, OwnerLimits, TooManyRequests
from duetime.service.published import read_publication
from duetime.service.services import Call, Services

MAX_FEED_SCHEDULES = 2000
"""Maximum number of schedules in one feed, soonest first: calendar programs download all of it repeatedly."""
CUT = f"The {MAX_FEED_SCHEDULES:,} schedules that fire next. There are more, which this calendar leaves out."
_HEADERS = {"Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
_NONCE: Final = re.compile(r"[0-9a-f]{32}")


def calendar_feed(services: Services, tokens: Tokens | None) -> Route:
    """Return the route of upcoming runs for calendar programs. Without `tokens`, every caller is the local owner. Such
    programs cannot send headers, so the token is in the URL. It is valid only for this feed and can be revoked; the
    server writes no access log, so the URL is never logged."""

    async def feed(request: Request) -> Response:
        token = request.path_params["token"]
        try:
            grant = None if tokens is None else await anyio.to_thread.run_sync(tokens.verify, token)
            caller = Caller(LOCAL) if grant is None else Caller(grant.owner, scopes=grant.limits)
            calendar = await anyio.to_thread.run_sync(_calendar, Call(services, caller, services.zone))
        except InvalidToken:  # the same as a missing feed, so that guessing reveals nothing
            return PlainTextResponse("There is no such calendar.\n", 404, _HEADERS)
        except DuetimeError:
            return PlainTextResponse("The store cannot be reached right now; try again.\n", 503, _HEADERS)
        return Response(calendar, media_type="text/calendar; charset=utf-8", headers=_HEADERS)

    return Route("/calendar/{token}.ics", feed, methods=["GET"])


def _calendar(call: Call) -> bytes:
    schedules = coming(call, MAX_FEED_SCHEDULES + 1)
    about = CUT if len(schedules) > MAX_FEED_SCHEDULES else None
    return calendar_of(schedules[:MAX_FEED_SCHEDULES], call.now, name=f"Duetime: {call.caller.owner}", about=about)


_BY_THEMSELVES: Final = re.compile(
    r"/healthz|/mcp|/api/v1/events|/api/v1/runs/[^/]+/finish|/api/v1/schedules/[^/]+/run|/static/.*|/hooks/.*",
    re.DOTALL,
)
"""Paths that need no thread, or that take slots themselves when they use one."""


class OwnerShare:
    """Makes a request wait for a slot of its owner. A stream holds none, but each of its polls does."""

    def __init__(self, app: ASGIApp, limits: OwnerLimits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _BY_THEMSELVES.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        owner = scope.get(OWNER, NOBODY)

        async def sent(message: Message) -> None:
            self._limits.answered(owner, len(message.get("body", b"")))
            await send(message)

        try:
            async with self._limits.slot(owner):
                await self._app(scope, receive, sent)
        # only refusals by this slot are answered here; the application answers its own
        except TooManyRequests as error:
            headers = {"Retry-After": "1"}
            await refusal(scope, 429, "too_many_requests", str(error), headers=headers)(scope, receive, send)


class _ApiFirst:
    """Passes requests of the API on before the routes of all else: their search costs as much as some requests."""

    def __init__(self, app: ASGIApp, api: Mount) -> None:
        self._app, self._api = app, api.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._api if is_api(scope["path"]) else self._app)(scope, receive, send)


class _Application(Starlette):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle start and stop without the middleware, which is for requests only."""
        handle = self.router.lifespan if scope["type"] == "lifespan" else super().__call__
        await handle(scope, receive, send)


def http_app(
    tokens: Tokens | None,
    browsers: Browsers,
    no_page: NoPage,
    api: Mount,
    routes: Sequence[BaseRoute],
    running: Callable[[], AbstractAsyncContextManager[None]],
    hosts: Sequence[str],
    limits: OwnerLimits,
) -> Starlette:
    """Build the application.

    Without `tokens` there is no authentication; the command line allows that only on a loopback address. `no_page`
    answers a browser at an unknown path, `api` everything below `/api`, and `routes` the rest; `running` is entered
    while the server runs.
    """
    answers = OpenAnswers()
    authentication = (
        Middleware(BrowserGuard, browsers=browsers)
        if tokens is None
        else Middleware(Bearer, tokens=tokens, browsers=browsers)
    )
    middleware = [
        Middleware(SafeHeaders),
        Middleware(Compression),
        Middleware(HostGuard, hosts=hosts),
        Middleware(Answers, open_answers=answers),
        Middleware(ErrorPages, no_page=no_page),
        authentication,
        Middleware(BodyLimit),
        Middleware(OwnerShare, limits=limits),
        Middleware(_ApiFirst, api=api),
    ]
    paths = [Route("/healthz", _alive), api, *routes]
    app = _Application(routes=paths, middleware=middleware, lifespan=lambda _app: running())
    app.state.end_answers = answers.end
    return app


async def _alive(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "service": SERVICE})


def identity(store: Store) -> Route:
    """Return the route at which the server proves that it reads the store: see `probe`. It reveals nothing else."""

    async def answer(request: Request) -> Response:
        nonce = request.query_params.get("nonce", "")
        if not _NONCE.fullmatch(nonce):
            return JSONResponse({"error": "nonce: must be 32 hexadecimal digits"}, 400)
        try:  # read each time, because another server on this store may have published a new key
            publication = read_publication(await anyio.to_thread.run_sync(store.published))
        except DuetimeError:
            return JSONResponse({"error": "The store cannot be reached right now."}, 503)
        if publication is None or not publication.key:
            return JSONResponse({"error": "No server has published its address in this store."}, 404)
        address, port = request.scope["server"]  # of the socket, whatever the client calls them
        return JSONResponse({"service": SERVICE, "proof": proof_of(publication.key, nonce, address, port)})

    return Route(PROOF, answer, methods=["GET"])
