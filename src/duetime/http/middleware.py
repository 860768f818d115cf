"""Middleware of all routes: checks of Host and Origin, body limits, responses that can be ended, and safe headers.

Host and Origin are checked first: another site can make its name resolve to this machine (DNS rebinding), and its
requests then carry that name as Host. Only configured names are answered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.engine.kind import LOCAL
from duetime.http.bodies import HOOKS, LARGE_BODY_BYTES, most_bytes
from duetime.http.connection_limits import CONNECTION, OWNER, ConnectionLimits
from duetime.http.problems import is_api, refusal
from duetime.service.owner_limits import NOBODY, OwnerLimits, Shares, TooManyRequests

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


class HostGuard:
    """Answers only known hosts and origins, and only HTTP, so that other middleware and routes receive nothing else."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host_name(host) or host.lower() for host in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            words = "This Host is not served here; `hosts` in the settings adds it."
            answer = refusal(scope, 421, "unknown_host", words)
        elif not all(self._is_known_origin(origin, headers) for origin in origins):
            words = "This Origin may not call; `hosts` in the settings adds it."
            answer = refusal(scope, 403, "unknown_origin", words)
        elif "transfer-encoding" in headers and "content-length" in headers:  # a proxy may choose the other one
            words = "A request has Content-Length or Transfer-Encoding, but not both; leave one of them out."
            answer = refusal(scope, 400, "two_lengths", words, headers={"Connection": "close"})
        elif scope["type"] != "http":
            answer = refusal(scope, 400, "only_http", "Only HTTP is served here.")
        else:
            await self._app(scope, receive, send)
            return
        await answer(scope, receive, send)

    def _is_known_origin(self, origin: str, headers: Headers) -> bool:
        """Return whether an Origin is known. Programs send none; browsers always do when it matters. Forms on
        no-referrer pages, such as ours, send `null`; in that case `Sec-Fetch-Site` decides, which no page can set."""
        if origin == "null":
            return headers.getlist("sec-fetch-site") == ["same-origin"]
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and host_name(host) in self._hosts


def host_name(host: str) -> str | None:
    """Return the host without port, brackets and trailing dot, or None if it is not a valid host."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match["six"] or match["name"]).lower().rstrip(".")


# -- limits on size and duration of a body; the application receives it in one piece ---------------------------------

UNAUTHENTICATED: Final = 16 * 1024
"""Maximum bytes of an unauthenticated request."""
IN_MEMORY: Final = 32 * 1024 * 1024
IN_MEMORY_OF_LOCAL: Final = 128 * 1024 * 1024
"""Maximum bytes of one owner's bodies that are received or answered at a time."""
WHOLE: Final = 10
"""A whole body may take this many times the timeout of one piece; an unauthenticated one only once."""
_BODILESS: Final = frozenset({"GET", "HEAD"})


class TooLarge(Exception):
    """The body exceeds the limit."""


class TooManyBytes(Exception):
    """Too many bytes of this owner's requests are in memory; wait for some answers, then send it again."""


class HeldBytes:
    """The bytes of one body that count towards its owner's share of memory, until its request is answered."""

    __slots__ = ("_all", "_held", "_owner")

    def __init__(self, all_held: Counter[str], owner: str) -> None:
        self._all, self._owner, self._held = all_held, owner, 0

    def grow(self, size: int) -> None:
        """Count a body of this size. Raises TooManyBytes. A small body is always accepted."""
        more = size - self._held
        if size <= UNAUTHENTICATED or more <= 0:
            return
        if self._all[self._owner] + more > (IN_MEMORY_OF_LOCAL if self._owner == LOCAL else IN_MEMORY):
            raise TooManyBytes
        self._all[self._owner] += more
        self._held = size

    def release(self) -> None:
        self._all[self._owner] -= self._held
        if not self._all[self._owner]:
            del self._all[self._owner]


class BodyLimit:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held: Counter[str] = Counter()
        self._large = OwnerLimits(Shares(requests=2))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = HeldBytes(self._held, scope.get(OWNER, NOBODY))
        try:
            await self._answer(scope, receive, send, held)
        finally:
            held.release()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, held: HeldBytes) -> None:
        is_known = OWNER in scope or scope["path"].startswith(HOOKS)  # a signature is over the whole body
        most = most_bytes(scope["path"]) if is_known else UNAUTHENTICATED
        if OWNER not in scope and scope["method"] in _BODILESS and _has_body(scope):
            words = f"A {scope['method']} of this address takes no body; leave it out."
            return await refusal(scope, 400, "no_body_here", words)(scope, receive, send)
        try:
            messages = await self._read_body(scope, receive, most, held)
            is_large = len(messages[0].get("body", b"")) > LARGE_BODY_BYTES
            slot = self._large.slot(scope.get(OWNER, NOBODY)) if is_large else nullcontext()
        except TooLarge:
            words = f"A request may have {most} bytes; store the data elsewhere and send a reference to it."
            # Not closed at once: a client that is still sending would see a reset instead of this response.
            return await refusal(scope, 413, "too_large", words)(scope, receive, send)
        except (TooManyBytes, TooManyRequests) as error:
            answer = refusal(scope, 429, "too_many_requests", str(error.__doc__), headers={"Retry-After": "1"})
            return await answer(scope, receive, send)
        except TimeoutError:
            words = "The body of the request did not arrive in time; send it again, in one piece."
            answer = refusal(scope, 408, "too_slow", words, headers={"Connection": "close"})
            return await answer(scope, receive, send)
        if messages[0]["type"] != "http.request":
            return None  # the client has disconnected

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        async with slot:
            return await self._app(scope, replay, send)

    async def _read_body(self, scope: Scope, receive: Receive, most: int, held: HeldBytes) -> list[Message]:
        """Return the whole body as one message, or the disconnect message if the client left meanwhile."""
        length, connection = Headers(scope=scope).get("content-length", ""), scope.get(CONNECTION)
        if length.isascii() and length.isdigit():
            if len(length) > 15 or int(length) > most:
                raise TooLarge
            held.grow(int(length))  # before anything of it is read
        limits: ConnectionLimits = ConnectionLimits() if connection is None else connection.limits
        if connection is not None and connection.is_answering:  # all of it has arrived, so there is nothing to wait for
            message = await receive()
            if message["type"] == "http.request":
                if len(message.get("body", b"")) > most:
                    raise TooLarge
                held.grow(len(message.get("body", b"")))
            return [message]
        body, patience = bytearray(), limits.body_seconds
        with anyio.fail_after(patience * (WHOLE if OWNER in scope else 1)):
            while True:
                with anyio.fail_after(patience):
                    message = await receive()
                if message["type"] != "http.request":
                    return [message]
                body += message.get("body", b"")
                if len(body) > most:
                    raise TooLarge
                held.grow(len(body))
                if not message.get("more_body", False):
                    return [{"type": "http.request", "body": bytes(body), "more_body": False}]


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


# -- streams end only when their client leaves; here the server can end them, with a valid end of the response -------


ENDING: Final = "duetime.ending"
"""Key of the ASGI scope that holds the cancel scope of the response."""


class OpenAnswers(set[anyio.CancelScope]):
    """Responses in progress."""

    def end(self) -> None:
        """End all responses. Call it in the thread of the server's event loop."""
        for scope in list(self):
            scope.cancel()


class Answers:
    """Completes a response that inner code cut off (a shutdown, a revoked token)."""

    def __init__(self, app: ASGIApp, open_answers: OpenAnswers) -> None:
        self._app, self._open = app, open_answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = whole = False

        async def sent(message: Message) -> None:
            nonlocal begun, whole
            begun, whole = True, message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with anyio.CancelScope() as cancelling:
            scope[ENDING] = cancelling
            self._open.add(cancelling)
            try:
                await self._app(scope, receive, sent)
            finally:
                self._open.discard(cancelling)
        if not begun:
            words = "The server is stopping; try again in a moment."
            await refusal(scope, 503, "stopping", words)(scope, receive, send)
        elif not whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


# -- error pages for browsers at paths that are not pages; programs get JSON -----------------------------------------

NoPage = Callable[[Scope, int], Response]
_ERRORS: Final = frozenset({401, 404, 405})


class ErrorPages:
    """Turns error responses into pages for browsers. It comes before authentication, so that it also covers refusals by
    it. The status and the WWW-Authenticate header stay the same."""

    def __init__(self, app: ASGIApp, no_page: NoPage) -> None:
        self._app, self._no_page = app, no_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_browser(scope):
            await self._app(scope, receive, send)
            return
        replaced = False

        async def sent(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_plain_error(message):
                replaced = True
                answer = self._no_page(scope, message["status"])
                challenge = Headers(raw=message["headers"]).get("www-authenticate")
                if challenge is not None:
                    answer.headers["WWW-Authenticate"] = challenge
                await answer(scope, receive, send)
            elif not replaced:
                await send(message)

        await self._app(scope, receive, sent)


def _is_browser(scope: Scope) -> bool:
    """Return whether the client is a browser: browsers ask for HTML explicitly, unlike programs that accept
    anything."""
    is_page_request = scope["method"] == "GET" and not is_api(scope["path"])
    return is_page_request and "text/html" in Headers(scope=scope).get("accept", "")


def _is_plain_error(message: Message) -> bool:
    """Return whether this is an error that is not already a page."""
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] in _ERRORS and not kind.startswith("text/html")


# -- headers of every response: no caching, no content sniffing, no embedding in other sites -------------------------

_FOR_PROGRAMS: Final = ("/api", "/v2", "/mcp", "/metrics")
"""Paths whose responses contain an owner's data: they are never cached, whatever the application says."""


class SafeHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
