"""Host and Origin are checked before anything else, on every route: a page in a browser must not reach in here.

A page of some other site can have its name resolve to this machine (DNS rebinding); its requests then carry that name
as Host. Only names that were told to us are answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.http.connection_limits import CONNECTION, OWNER, ConnectionLimits
from duetime.http.problems import is_api, refusal

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


class Guard:
    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host_name(host) or host.lower() for host in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._hosts_known(headers):
            words = "This Host is not served here; `hosts` in the settings adds it."
            answer = refusal(scope, 421, "unknown_host", words)
        elif not self._origins_known(headers):
            words = "This Origin may not call; `hosts` in the settings adds it."
            answer = refusal(scope, 403, "unknown_origin", words)
        elif scope["type"] != "http":
            answer = refusal(scope, 400, "only_http", "Only HTTP is served here.")
        else:
            await self._app(scope, receive, send)
            return
        await answer(scope, receive, send)

    def _hosts_known(self, headers: Headers) -> bool:
        given = headers.getlist("host")
        return len(given) == 1 and self._known(given[0])

    def _origins_known(self, headers: Headers) -> bool:
        """A program sends none; a browser always does when it matters."""
        return all(self._origin_known(origin, headers) for origin in headers.getlist("origin"))

    def _origin_known(self, origin: str, headers: Headers) -> bool:
        """Forms of pages that send no referrer, such as ours, come from `null`; whose page it was, the browser says
        besides, in a header that no page can set."""
        if origin == "null":
            return headers.getlist("sec-fetch-site") == ["same-origin"]
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and self._known(host)

    def _known(self, host: str) -> bool:
        return host_name(host) in self._hosts


def host_name(host: str) -> str | None:
    """Without port, brackets and the dot that may end a name; None for what is no host."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match["six"] or match["name"]).lower().rstrip(".")


# How much a request may bring along, and how long it may take; the application is handed the whole body at once.

UNAUTHENTICATED: Final = 16 * 1024
"""Bytes of a request that no token came with."""
WHOLE: Final = 10
"""A body as a whole may take this many times the patience for one piece; without a token it may take it once."""
_BODILESS: Final = frozenset({"GET", "HEAD"})


class TooLarge(Exception):
    """More came than may come."""


class BodyLimit:
    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most if OWNER in scope else UNAUTHENTICATED
        if OWNER not in scope and scope["method"] in _BODILESS and _has_body(scope):
            words = f"A {scope['method']} of this address takes no body; leave it out."
            await refusal(scope, 400, "no_body_here", words)(scope, receive, send)
            return
        try:
            messages = await self._received(scope, receive, most)
        except TooLarge:
            words = f"A request may have {most} bytes; store the data elsewhere and send a reference to it."
            # Not closed at once: a client that is still sending would see a reset in place of this answer.
            await refusal(scope, 413, "too_large", words)(scope, receive, send)
            return
        except TimeoutError:
            words = "The body of the request did not arrive in time; send it again, in one piece."
            await refusal(scope, 408, "too_slow", words, headers={"Connection": "close"})(scope, receive, send)
            return
        if messages[0]["type"] != "http.request":
            return  # the client left; there is nothing to do and nobody to tell

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, replay, send)

    async def _received(self, scope: Scope, receive: Receive, most: int) -> list[Message]:
        """All that comes, as one piece, or the end of a client that left meanwhile."""
        if _announces_more_than(scope, most):
            raise TooLarge
        body, patience = bytearray(), _patience(scope)
        with anyio.fail_after(patience * (WHOLE if OWNER in scope else 1)):
            while True:
                with anyio.fail_after(patience):
                    message = await receive()
                if message["type"] != "http.request":
                    return [message]
                body += message.get("body", b"")
                if len(body) > most:
                    raise TooLarge
                if not message.get("more_body", False):
                    return [{"type": "http.request", "body": bytes(body), "more_body": False}]


def _patience(scope: Scope) -> float:
    connection = scope.get(CONNECTION)
    limits: ConnectionLimits = ConnectionLimits() if connection is None else connection.limits
    return limits.body_seconds


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _announces_more_than(scope: Scope, most: int) -> bool:
    length = Headers(scope=scope).get("content-length", "")
    return length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > most)


# Answers that stream end by themselves only when their client leaves. Here they can be ended, and end as HTTP says.


class OpenAnswers:
    """What is being answered just now."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    def add(self, scope: anyio.CancelScope) -> None:
        self._scopes.add(scope)

    def discard(self, scope: anyio.CancelScope) -> None:
        self._scopes.discard(scope)

    def end(self) -> None:
        """To be called in the thread of the server's loop."""
        for scope in list(self._scopes):
            scope.cancel()


class Answers:
    """Whatever cut an answer off further in (a stop, a token that was revoked), its end is sent."""

    def __init__(self, app: ASGIApp, open_answers: OpenAnswers) -> None:
        self._app, self._open = app, open_answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        with anyio.CancelScope() as cancelling:
            self._open.add(cancelling)
            try:
                await self._app(scope, receive, answer.send)
            finally:
                self._open.discard(cancelling)
        if not answer.begun:
            words = "The server is stopping; try again in a moment."
            await refusal(scope, 503, "stopping", words)(scope, receive, send)
        elif not answer.whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Answer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = self.whole = False

    async def send(self, message: Message) -> None:
        self.begun = True
        self.whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


# Somebody in a browser, at an address that is none of the pages: told so by a page, where a program reads JSON.

NoPage = Callable[[Scope, int], Response]
_STRAYED: Final = frozenset({401, 404, 405})


class Strays:
    """Before the other doorkeepers, whose refusals it puts into a page as well. What is said stays the same for all
    else: the status, and how to ask with a token."""

    def __init__(self, app: ASGIApp, no_page: NoPage) -> None:
        self._app, self._no_page = app, no_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _reads_pages(scope):
            await self._app(scope, receive, send)
            return
        strayed = False

        async def sent(message: Message) -> None:
            nonlocal strayed
            if message["type"] == "http.response.start" and _is_none_of_ours(message):
                strayed = True
                answer = self._no_page(scope, message["status"])
                challenge = Headers(raw=message["headers"]).get("www-authenticate")
                if challenge is not None:
                    answer.headers["WWW-Authenticate"] = challenge
                await answer(scope, receive, send)
            elif not strayed:
                await send(message)

        await self._app(scope, receive, sent)


def _reads_pages(scope: Scope) -> bool:
    """Browsers ask for HTML by its name; programs that take anything do not."""
    asked = scope["method"] == "GET" and not is_api(scope["path"])
    return asked and "text/html" in Headers(scope=scope).get("accept", "")


def _is_none_of_ours(message: Message) -> bool:
    """A page that refuses is a page already."""
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] in _STRAYED and not kind.startswith("text/html")


# Headers that every answer has: it is stored nowhere, taken for nothing else, and embedded in no other site.

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
