"""Host and Origin are checked before anything else, on every route: a page in a browser must not reach in here.

A page of some other site can have its name resolve to this machine (DNS rebinding); its requests then carry that name
as Host. Only names that were told to us are answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.faces.http.problems import refusal

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
