"""Who calls: the bearer token of a request, looked at again as long as its answer goes on."""

from __future__ import annotations

import logging
from functools import partial

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.core.kind import Caller
from duetime.faces.desk import Desk
from duetime.faces.http.tokens import Grant, InvalidToken, Tokens
from duetime.faces.mcp.tool import Call

log = logging.getLogger("duetime.http")

LOOK = 1.0
"""Seconds between two looks at the token of an answer that streams: a revoked one hears nothing more."""

OPEN = ("/healthz", "/.well-known/")
"""Paths without a token. Clients look below `/.well-known/` for ways to sign in; there are none, and they are told."""


class Bearer:
    """Everything needs a token unless it is named in OPEN, so that a new route is closed by itself."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._open = app
        self._app = AuthContextMiddleware(app)
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(OPEN):
            await self._open(scope, receive, send)
            return
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            await _unknown()(scope, receive, send)
            return
        try:
            grant = self._tokens.verify(token)
        except InvalidToken as problem:
            await _refused(problem)(scope, receive, send)
            return
        scope["user"] = AuthenticatedUser(_access(grant))
        async with anyio.create_task_group() as group:
            group.start_soon(partial(self._watch, token, group.cancel_scope))
            await self._app(scope, receive, send)
            group.cancel_scope.cancel()

    async def _watch(self, token: str, answer: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(LOOK)
            try:
                self._tokens.verify(token)
            except InvalidToken as problem:
                log.info("a stream was closed: %s", problem)
                answer.cancel()


def _access(grant: Grant) -> AccessToken:
    """The SDK ties a session to client, issuer and subject. The token's id as client ties it to this very token."""
    return AccessToken(
        token="",  # nobody behind this door needs it, and what is not kept cannot be told
        client_id=grant.id,
        scopes=list(grant.scopes),
        expires_at=grant.expires,
        subject=grant.subject,
        claims={"owner": grant.owner, "zone": grant.zone, "depth": grant.depth, "operator": grant.operator},
    )


def by_token(desk: Desk) -> Call:
    """The caller of the request at hand. There always is one behind `Bearer`; without it, nothing is done."""
    access = get_access_token()
    if access is None or access.claims is None:
        raise PermissionError("a request came through without a token")
    said = access.claims
    caller = Caller(said["owner"], said["operator"], said["depth"], holder=access.client_id)
    return Call(desk, caller, said["zone"] or desk.zone)


def _unknown() -> Response:
    words = "A bearer token is needed: `duetime token issue` makes one, `duetime serve` prints the local one."
    return _answer("token_required", words, 'Bearer realm="duetime"')


def _refused(problem: InvalidToken) -> Response:
    words = f"{problem.message[:1].upper()}{problem.message[1:]}."
    challenge = f'Bearer realm="duetime", error="invalid_token", error_description="{_quotable(words)}"'
    return _answer("invalid_token", words, challenge)


def _answer(code: str, words: str, challenge: str) -> Response:
    return JSONResponse({"error": code, "error_description": words}, 401, {"WWW-Authenticate": challenge})


def _quotable(words: str) -> str:
    return "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\' else "'" for letter in words
    )
