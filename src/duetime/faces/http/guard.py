"""Host and Origin are checked before anything else, on every route: a page in a browser must not reach in here.

A page of some other site can have its name resolve to this machine (DNS rebinding); its requests then carry that name
as Host. Only names that were told to us are answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


class Guard:
    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(_name(host) or host.lower() for host in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._hosts_known(headers):
            refusal = JSONResponse({"error": "This Host is not served here; `hosts` in the settings adds it."}, 421)
        elif not self._origins_known(headers):
            refusal = JSONResponse({"error": "This Origin may not call; `hosts` in the settings adds it."}, 403)
        elif scope["type"] != "http":
            refusal = JSONResponse({"error": "Only HTTP is served here."}, 400)
        else:
            await self._app(scope, receive, send)
            return
        await refusal(scope, receive, send)

    def _hosts_known(self, headers: Headers) -> bool:
        given = headers.getlist("host")
        return len(given) == 1 and self._known(given[0])

    def _origins_known(self, headers: Headers) -> bool:
        """A program sends none; a browser always does when it matters."""
        return all(self._origin_known(origin) for origin in headers.getlist("origin"))

    def _origin_known(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and self._known(host)

    def _known(self, host: str) -> bool:
        return _name(host) in self._hosts


def _name(host: str) -> str | None:
    """Without port, brackets and the dot that may end a name; None for what is no host."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match["six"] or match["name"]).lower().rstrip(".")
