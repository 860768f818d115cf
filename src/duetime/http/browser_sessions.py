"""What is asked of a browser at our own pages and at the API: a session, and for a change that a page of ours sent it.

A cookie comes along with every request that a browser makes, whoever caused it. So it opens the pages and the API
alone, never MCP or `/v2`, and it changes nothing without a proof that only our own pages know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.engine.kind import LOCAL
from duetime.http.connection_limits import mark_authenticated
from duetime.http.problems import is_api, refusal
from duetime.http.sessions import NOBODY, Proofs, Sessions
from duetime.security.claims import Grant, InvalidToken

PAGES: Final = frozenset({"", "timeline", "schedules", "runs", "new", "inbox", "dead-letters", "sign-out"})
"""First parts of the paths that belong to pages: a new one is closed to sessions until it is named here."""
PROOF: Final = "x-csrf-token"
"""The header with which a script of our pages shows that a change was meant; a form has a field instead."""
SESSION: Final = "duetime.session"
"""Where a request keeps the id of its session."""

OPEN: Final = ("/healthz", "/readyz", "/.well-known/", "/calendar/")
"""Paths without a token. Clients look below `/.well-known/` for ways to sign in; there are none, and they are told.
A calendar feed brings its token in its own address, and checks it itself."""

_PUBLISH: Final = "/v2/publish/"
_PUBLISHED_BY_GET: Final = "Publish with POST, or send a bearer token: any page can make a browser send a plain GET."
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN = "This came from another site, or from a page that is out of date; open Duetime's own page and try again."


SignIn: TypeAlias = Callable[..., Response]
"""The page that asks to sign in, for the scope of a request; perhaps with a problem to tell of, and its status."""


class Visitor(NamedTuple):
    grant: Grant
    token: str


class Browsers:
    def __init__(self, sessions: Sessions | None, proofs: Proofs, sign_in: SignIn) -> None:
        """Without sessions whoever comes is let in; `sign_in` answers a page's visitor who has none."""
        self.sessions, self.proofs, self.sign_in = sessions, proofs, sign_in

    def visitor(self, scope: Scope) -> Visitor | None:
        """Who came with a cookie that is valid. In a thread: the store may be asked; raises StoreUnavailable."""
        token = session_cookie(Headers(scope=scope))
        if self.sessions is None or not token:
            return None
        try:
            return Visitor(self.sessions.verify(token), token)
        except InvalidToken:
            return None

    def objection(self, scope: Scope, session: str) -> Response | None:
        """Why a change is refused. A page checks the proof in its form by itself: the body is not ours to read."""
        if scope["method"] in _SAFE:
            return None
        headers = Headers(scope=scope)
        proven = not is_api(scope["path"]) or self.proofs.fits(session, headers.get(PROOF, ""))
        if proven and is_own(headers):
            return None
        return refusal(scope, 403, "foreign", _FOREIGN)


class Unasked:
    """Before the routes where nobody is asked for a token. A program may change what it likes. A browser is answered
    only when no page of another site or of another port made it ask, and it must prove that a change was meant."""

    def __init__(self, app: ASGIApp, browsers: Browsers) -> None:
        self._app, self._browsers = app, browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        objection = self._objection(scope)
        if objection is None and not is_without_token(scope["path"]):
            mark_authenticated(scope, LOCAL)
        await (objection or self._app)(scope, receive, send)

    def _objection(self, scope: Scope) -> Response | None:
        path, headers = scope["path"], Headers(scope=scope)
        if is_foreign(headers):
            return refusal(scope, 403, "foreign", _FOREIGN)
        if scope["method"] in _SAFE and path.startswith(_PUBLISH) and not _names_a_token(headers):
            return refusal(scope, 403, "foreign", _PUBLISHED_BY_GET)
        if not takes_sessions(path):
            return None
        scope[SESSION] = NOBODY
        is_program = is_api(path) and not comes_from_browser(headers)
        return None if is_program else self._browsers.objection(scope, NOBODY)


def is_open(path: str) -> bool:
    """What a browser needs before it has a session."""
    return path == "/login" or path.startswith("/static/")


def is_without_token(path: str) -> bool:
    return path.startswith(OPEN) or is_open(path)


def is_foreign(headers: Headers) -> bool:
    """Whether a page of another site, or of another port of this machine, made a browser send this. Programs send
    neither header, and an address that was typed comes from no page."""
    site = headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        return True
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    is_anonymous = origin == "null" and site == "same-origin"  # a form of a page that sends no referrer, such as ours
    return origin is not None and not is_anonymous and origin.partition("://")[2].lower() != host


def _names_a_token(headers: Headers) -> bool:
    """An image or a link of another page cannot send this header."""
    return headers.get("authorization", "").lower().startswith("bearer ")


def is_page(path: str) -> bool:
    return path.startswith("/") and path.split("/", 2)[1] in PAGES


def takes_sessions(path: str) -> bool:
    return is_page(path) or path.startswith("/api/v1/")


def comes_from_browser(headers: Headers) -> bool:
    """Browsers say where a change comes from; programs do not."""
    return "origin" in headers or "sec-fetch-site" in headers


def is_own(headers: Headers) -> bool:
    """From a page of this very origin. `Sec-Fetch-Site` is the browser's own word, which no page can change; where it
    is not sent (plain HTTP to another machine), Origin must be this host."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()


def cookie_name(headers: Headers) -> str:
    """Cookies know no ports: two servers on one machine must not sign each other's visitors out."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"duetime_session_{port}" if port.isascii() and port.isdigit() else "duetime_session"


def session_cookie(headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")
