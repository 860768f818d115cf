"""Authentication by bearer token or session cookie, which is checked again while a response streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.engine.actor import PERSON, RUN, TOKEN, Actor
from duetime.engine.errors import StoreUnavailable, StoreUnusable
from duetime.engine.kind import Caller
from duetime.http.browser_sessions import SESSION, Browsers, is_page, is_without_token, takes_sessions
from duetime.http.connection_limits import mark_authenticated
from duetime.http.middleware import ENDING
from duetime.http.problems import refusal
from duetime.http.sessions import SUBJECT
from duetime.http.threads import RequestThreads
from duetime.security.claims import Grant, InvalidToken
from duetime.security.tokens import BROWSER, Tokens
from duetime.service.errors import STORE_MESSAGE
from duetime.service.services import Call, Services

log = logging.getLogger("duetime.http")

_STORE_AWAY = (StoreUnavailable, StoreUnusable)
RECHECK_SECONDS = 1.0
"""Seconds between two checks of the token during a response, so that a stream ends when its token is revoked."""


class ClientCommands(NamedTuple):
    """Commands on this machine that pages name, such as those in the configuration of an agent's client."""

    stdio: Sequence[str] = ()
    """Starts the MCP server over stdio."""
    header: Sequence[str] = ()
    """Prints the header with this machine's token."""
    store: Sequence[str] = ()
    """The options with which other commands reach this store."""


class WebContext(NamedTuple):
    """The parts of the application that the API and the pages need."""

    services: Services
    identify: Callable[[str], Call]
    """Returns the caller of the current request; the argument names the interface."""
    trusting: bool = False
    """Whether there is no authentication, so that every caller counts as the user who runs the server."""
    commands: ClientCommands = ClientCommands()

    def may_operate(self, call: Call) -> bool:
        return call.caller.operator or self.trusting


class Bearer:
    """Requires a token on every path except those of `is_without_token`, so that a new route is protected by
    default."""

    def __init__(self, app: ASGIApp, tokens: Tokens, browsers: Browsers) -> None:
        self._open = app
        self._app = AuthContextMiddleware(app)
        self._tokens, self._browsers = tokens, browsers
        # Separate threads, so that authentication does not wait, however busy the others are.
        self._verifying, self._watching = RequestThreads(8), anyio.CapacityLimiter(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_without_token(scope["path"]):
            await self._open(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if "authorization" not in headers and takes_sessions(scope["path"]):
            await self._authenticate_browser(scope, receive, send)
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            await _token_required(scope)(scope, receive, send)
            return
        try:
            grant = self._tokens.verify_at_once(token)
            if grant is None:  # in a thread: checking for revocation may query the store, which may be slow
                grant = await self._verifying.run(partial(self._tokens.verify, token))
        except InvalidToken as problem:
            await _refusal(scope, problem)(scope, receive, send)
            return
        except _STORE_AWAY:
            await _away(scope)(scope, receive, send)
            return
        await self._forward(scope, receive, send, grant, partial(self._tokens.verify, token))

    async def _authenticate_browser(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a browser by its session cookie instead of a token."""
        sessions = self._browsers.sessions
        try:
            visitor = await self._verifying.run(partial(self._browsers.visitor, scope))
        except _STORE_AWAY:
            page = is_page(scope["path"])
            away = self._browsers.sign_in(scope, STORE_MESSAGE, 503) if page else _away(scope)
            await away(scope, receive, send)
            return
        if sessions is None or visitor is None:
            refused = self._browsers.sign_in(scope) if is_page(scope["path"]) else _token_required(scope)
            await refused(scope, receive, send)
            return
        objection = self._browsers.objection(scope, visitor.grant.id)
        if objection is not None:
            await objection(scope, receive, send)
            return
        scope[SESSION] = visitor.grant.id
        grant = visitor.grant._replace(purpose=BROWSER)
        await self._forward(scope, receive, send, grant, partial(sessions.verify, visitor.token))

    async def _forward(
        self, scope: Scope, receive: Receive, send: Send, grant: Grant, verify: Callable[[], Grant]
    ) -> None:
        scope["user"] = _user(grant)
        mark_authenticated(scope, grant.owner)
        watch = _Watch(verify, scope[ENDING], self._watching)
        try:
            await self._app(scope, receive, send)
        finally:
            watch.end()


class _Watch:
    """Verifies a token again every RECHECK_SECONDS until the response ends, and ends the response if the token is no
    longer valid. This is a timer and not a task, because nearly every response ends before the first check."""

    def __init__(self, verify: Callable[[], Grant], answer: anyio.CancelScope, limiter: anyio.CapacityLimiter) -> None:
        self._verify, self._answer, self._limiter = verify, answer, limiter
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(RECHECK_SECONDS, self._begin)
        self._check: asyncio.Task[None] | None = None
        self._ended = False

    def end(self) -> None:
        """Stop watching. A check in progress ends by itself, because its thread cannot be interrupted."""
        self._ended = True
        self._timer.cancel()

    def _begin(self) -> None:
        self._check = self._loop.create_task(self._look())

    async def _look(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._verify, limiter=self._limiter)
        except _STORE_AWAY:
            pass  # revocation cannot be checked, but any data sent meanwhile needs the store as well
        except Exception as problem:
            if not self._ended:
                level = logging.INFO if isinstance(problem, InvalidToken) else logging.ERROR
                log.log(level, "a stream was closed: %s", problem)
                self._answer.cancel()
            return
        if not self._ended:
            self._timer = self._loop.call_later(RECHECK_SECONDS, self._begin)


@lru_cache(maxsize=1024)
def _user(grant: Grant) -> AuthenticatedUser:
    """Convert a grant for the SDK, which binds a session to client, issuer and subject. The client is the token's id,
    so that a session belongs to one token. The token itself is not needed, and what is not kept cannot leak."""
    who = AccessToken(token="", client_id=grant.id, scopes=list(grant.scopes), expires_at=grant.expires)
    return AuthenticatedUser(who.model_copy(update={"subject": grant.subject, "claims": {"grant": grant}}))


def by_token(services: Services, interface: str) -> Call:
    """Return the caller of the current request. `Bearer` guarantees one; without it, raise PermissionError."""
    access = get_access_token()
    if access is None or access.claims is None:
        raise PermissionError("a request came through without a token")
    return call_of(services, access.claims["grant"], interface)


def call_of(services: Services, grant: Grant, interface: str) -> Call:
    """Return the caller for a grant, whether or not its token came with the current request."""
    return Call(services, caller_of(grant, interface), grant.zone or services.zone)


@lru_cache(maxsize=1024)
def caller_of(grant: Grant, interface: str) -> Caller:
    actor = Actor(PERSON if grant.purpose == BROWSER else TOKEN, grant.subject, interface)
    if grant.run or grant.depth:
        actor = Actor(RUN, str(grant.run or grant.subject), interface)
    elif grant.purpose == BROWSER and grant.subject == SUBJECT:  # a link opened the session
        actor = actor._replace(name=grant.owner)
    return Caller(grant.owner, grant.operator, grant.depth, grant.id, grant.allowed, actor, grant.limits)


def _token_required(scope: Scope) -> Response:
    words = "A bearer token is needed: `duetime token issue` makes one, `duetime token header` shows this machine's."
    return _answer(scope, "token_required", words, 'Bearer realm="duetime"')


def _refusal(scope: Scope, problem: InvalidToken) -> Response:
    words = f"{problem.message[:1].upper()}{problem.message[1:]}."
    quotable = "".join(each if each.isascii() and each.isprintable() and each not in '"\\' else "'" for each in words)
    challenge = f'Bearer realm="duetime", error="invalid_token", error_description="{quotable}"'
    return _answer(scope, "invalid_token", words, challenge)


def _away(scope: Scope) -> Response:
    return refusal(scope, 503, "store_unavailable", STORE_MESSAGE, headers={"Retry-After": "1"})


def _answer(scope: Scope, code: str, words: str, challenge: str) -> Response:
    headers = {"WWW-Authenticate": challenge}
    return refusal(scope, 401, code, words, headers=headers, error=code, error_description=words)
