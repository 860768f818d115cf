"""Somebody in a browser, at an address that is none of the pages: told so by a page, where a program reads JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.faces.http.problems import is_api

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
