"""Session and CSRF checks for browsers on the dashboard's pages and the API.

A browser sends its cookie with every request, whichever site caused the request. So the cookie is accepted only for the
pages and the API, never for MCP or `/v2`, and a change also needs a CSRF token that only our own pages know.
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

PROOF: Final = "x-csrf-token"
"""The CSRF header that scripts of our pages send with a change; forms have a field instead."""
SESSION: Final = "duetime.session"
"""Key of the ASGI scope that holds the id of the session."""

OPEN: Final = ("/healthz", "/readyz", "/.well-known/", "/calendar/", "/hooks/")
"""Paths without a token. Clients search below `/.well-known/` for ways to sign in and must learn that there are none. A
calendar feed has its token in its URL and checks it itself; a hook checks the signature of a delivery."""

_NAMES = (
    "timeline schedules runs new find dead-letters attention waiting settings connect sign-out help preferences undo"
)
_pages: Final = {"", *_NAMES.split()}
"""First path segments of the pages. A new page accepts sessions only if it is listed here or added."""
_PUBLISH: Final = "/v2/publish/"
_PUBLISHED_BY_GET: Final = "Publish with POST, or send a bearer token: any page can make a browser send a plain GET."
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN = "This came from another site, or from a page that is out of date; open Duetime's own page and try again."


SignIn: TypeAlias = Callable[..., Response]
"""Returns the sign-in page for the scope of a request, optionally with an error message and its status."""


class Visitor(NamedTuple):
    grant: Grant
    token: str


class Browsers:
    def __init__(self, sessions: Sessions | None, proofs: Proofs, sign_in: SignIn) -> None:
        """Without `sessions` there is no authentication; `sign_in` answers a page request that has no valid session."""
        self.sessions, self.proofs, self.sign_in = sessions, proofs, sign_in

    def visitor(self, scope: Scope) -> Visitor | None:
        """Return who sent a valid cookie. Call this in a thread, because it may query the store and raise
        StoreUnavailable."""
        token = session_cookie(Headers(scope=scope))
        if self.sessions is None or not token:
            return None
        try:
            return Visitor(self.sessions.verify(token), token)
        except InvalidToken:
            return None

    def objection(self, scope: Scope, session: str) -> Response | None:
        """Return the reason why a change is refused, if it is. Pages check the token in their form, because the body is
        not read here."""
        if scope["method"] in _SAFE:
            return None
        headers = Headers(scope=scope)
        proven = not is_api(scope["path"]) or self.proofs.fits(session, headers.get(PROOF, ""))
        if proven and is_own(headers):
            return None
        return refusal(scope, 403, "foreign", _FOREIGN)


class BrowserGuard:
    """Middleware for a server without tokens. Programs may change anything. A browser is answered only if no page of
    another site or port caused the request, and needs a CSRF token for a change."""

    def __init__(self, app: ASGIApp, browsers: Browsers) -> None:
        self._app, self._browsers = app, browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        objection = self._objection(scope)
        if objection is None and not is_without_token(scope["path"]):
            mark_authenticated(scope, LOCAL)
        await (objection or self._app)(scope, receive, send)

    def _objection(self, scope: Scope) -> Response | None:
        path, headers = scope["path"], Headers(scope=scope)
        if is_foreign(headers):
            return refusal(scope, 403, "foreign", _FOREIGN)
        # An image or a link on another page cannot send this header.
        has_token = headers.get("authorization", "").lower().startswith("bearer ")
        if scope["method"] in _SAFE and path.startswith(_PUBLISH) and not has_token:
            return refusal(scope, 403, "foreign", _PUBLISHED_BY_GET)
        if not takes_sessions(path):
            return None
        scope[SESSION] = NOBODY
        is_program = is_api(path) and not comes_from_browser(headers)
        return None if is_program else self._browsers.objection(scope, NOBODY)


def is_without_token(path: str) -> bool:
    """Return whether no token is needed: for the OPEN paths, and for the paths that a browser needs before it has a
    session."""
    return path == "/login" or path.startswith(("/static/", *OPEN))


def is_foreign(headers: Headers) -> bool:
    """Return whether a page of another site, or of another port of this machine, caused this request. Programs send
    neither header, and a typed address has no originating page."""
    site = headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        return True
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    is_anonymous = origin == "null" and site == "same-origin"  # a form on a no-referrer page, such as ours
    return origin is not None and not is_anonymous and origin.partition("://")[2].lower() != host


def is_page(path: str) -> bool:
    return path.startswith("/") and path.split("/", 2)[1] in _pages


def add_page(path: str) -> None:
    """Let a page accept sessions."""
    _pages.add(path.split("/", 2)[1])


def takes_sessions(path: str) -> bool:
    return is_page(path) or path.startswith("/api/v1/")


def comes_from_browser(headers: Headers) -> bool:
    """Return whether a browser sent the request: browsers name the origin of a change, programs do not."""
    return "origin" in headers or "sec-fetch-site" in headers


def is_own(headers: Headers) -> bool:
    """Return whether a page of this origin sent the request. The browser sets `Sec-Fetch-Site`, and no page can change
    it; where it is not sent (plain HTTP to another machine), Origin must be this host."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()


def cookie_name(headers: Headers) -> str:
    """Return the cookie name with the port, because cookies ignore ports and servers on one machine must not share
    them."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"duetime_session_{port}" if port.isascii() and port.isdigit() else "duetime_session"


def session_cookie(headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")
