"""Browser sessions: one-time sign-in links, session cookies, CSRF tokens, and their checks on pages and the API.

A cookie contains a token with its own audience. It ends when it expires, on sign-out, by `duetime token revoke`, and
together with the token that it was made from. A browser sends it with every request, whichever site caused it. So it is
accepted only for the pages and the API, never for MCP or `/v2`, and a change also needs a CSRF token that only our own
pages know.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.engine.clock import DAY, MINUTE, SECOND, Clock
from duetime.engine.kind import LOCAL
from duetime.http.connection_limits import mark_authenticated
from duetime.http.problems import is_api, refusal
from duetime.security.claims import OPERATOR, Grant, InvalidToken
from duetime.security.tokens import Tokens

LINK_LIFE = 10 * MINUTE
SESSION_LIFE = 14 * DAY
SUBJECT = "browser"
"""Name in `duetime token list` of a session opened by a link."""
NOBODY = "nobody"
"""Session id on a server without authentication."""

_LINK = re.compile(r"(?P<expires>[0-9a-f]{8,10})\.(?P<nonce>[0-9a-f]{16})\.(?P<proof>[0-9a-f]{32})")


class Sessions:
    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens, self._clock = tokens, clock
        self._own = tokens.of_browsers()

    # -- sign-in --------------------------------------------------------------------------------------------------

    def link(self) -> str:
        """Return the code of a sign-in link, for an operator: only someone with this machine's secret can make one."""
        words = f"{(self._clock.now() + LINK_LIFE) // SECOND:x}.{secrets.token_hex(8)}"
        return f"{words}.{self._proof(words)}"

    def by_link(self, given: str) -> str:
        """Return a session token and use the link up, on every node and across restarts."""
        match = _LINK.fullmatch(given)
        words = "" if match is None else f"{match['expires']}.{match['nonce']}"
        if match is None or not hmac.compare_digest(match["proof"], self._proof(words)):
            raise InvalidToken("this is no link of this server")
        if int(match["expires"], 16) * SECOND <= self._clock.now():
            raise InvalidToken("the link is older than 10 minutes")
        if not self._tokens.revoke(f"link_{match['nonce']}", LINK_LIFE):  # of concurrent uses, only one succeeds
            raise InvalidToken("the link was used before")
        return self._own.issue(SUBJECT, SESSION_LIFE, owner=LOCAL, scopes=[OPERATOR])

    def by_token(self, given: str) -> str:
        """Return a session token with the rights of a bearer token, valid at most as long as that token."""
        grant = self._tokens.verify(given)
        if grant.run:
            raise InvalidToken("the token of an agent's run opens no session")
        left = grant.expires * SECOND - self._clock.now()
        return self._own.issue(
            grant.subject,
            min(SESSION_LIFE, max(left, SECOND)),
            owner=grant.owner,
            timezone=grant.zone,
            scopes=grant.scopes,
            depth=grant.depth,
            parent=grant.id,
        )

    def _proof(self, words: str) -> str:
        return self._tokens.proof("link", words)[:32]

    # -- active sessions ------------------------------------------------------------------------------------------

    def verify(self, token: str) -> Grant:
        return self._own.verify(token)

    def end(self, session: str) -> None:
        self._own.revoke(session, SESSION_LIFE)


class Proofs:
    """CSRF tokens that our own pages send with forms and requests, bound to the session: no other site knows them."""

    def __init__(self, tokens: Tokens | None) -> None:
        """Derive the key. Without `tokens` there is no secret, and a random key that ends with the process suffices."""
        self._key = secrets.token_bytes(32) if tokens is None else tokens.proof("change", "").encode()

    def of(self, session: str) -> str:
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: str, given: str) -> bool:
        return hmac.compare_digest(self.of(session).encode(), given.encode("utf-8", "replace"))


# -- checks of requests ----------------------------------------------------------------------------------------------

PROOF: Final = "x-csrf-token"
"""The CSRF header that scripts of our pages send with a change; forms have a field instead."""
SESSION: Final = "duetime.session"
"""Key of the ASGI scope that holds the id of the session."""

OPEN: Final = ("/healthz", "/readyz", "/.well-known/", "/calendar/")
"""Paths without a token. Clients look below `/.well-known/` for ways to sign in and must learn that there are none.
A calendar feed has its token in its URL and checks it itself."""

_pages: Final = {"", "timeline", "schedules", "runs", "new", "dead-letters", "sign-out"}
"""First path segments of the pages: a new page does not accept sessions until it is listed here, or added."""
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
        """Return who sent a valid cookie. Call it in a thread: it may query the store and raise StoreUnavailable."""
        token = session_cookie(Headers(scope=scope))
        if self.sessions is None or not token:
            return None
        try:
            return Visitor(self.sessions.verify(token), token)
        except InvalidToken:
            return None

    def objection(self, scope: Scope, session: str) -> Response | None:
        """Return why a change is refused, if it is. Pages check the token in their form: the body is not read here."""
        if scope["method"] in _SAFE:
            return None
        headers = Headers(scope=scope)
        proven = not is_api(scope["path"]) or self.proofs.fits(session, headers.get(PROOF, ""))
        if proven and is_own(headers):
            return None
        return refusal(scope, 403, "foreign", _FOREIGN)


class Unasked:
    """Middleware for a server without tokens. Programs may change anything. A browser is answered only if no page of
    another site or port caused the request, and it needs a CSRF token for a change."""

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
    """Return whether no token is needed: for the OPEN paths, and for what a browser needs before it has a session."""
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
    """Return whether a browser sent this: browsers name the origin of a change, programs do not."""
    return "origin" in headers or "sec-fetch-site" in headers


def is_own(headers: Headers) -> bool:
    """Return whether a page of this origin sent this. The browser sets `Sec-Fetch-Site`, and no page can change it;
    where it is not sent (plain HTTP to another machine), Origin must be this host."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()


def cookie_name(headers: Headers) -> str:
    """Return the cookie name with the port: cookies ignore ports, and servers on one machine must not share them."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"duetime_session_{port}" if port.isascii() and port.isdigit() else "duetime_session"


def session_cookie(headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")
