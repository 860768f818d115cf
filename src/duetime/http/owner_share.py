"""Middleware that makes a request wait for a slot of its owner. A stream holds none, but each of its polls does."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.http.connection_limits import OWNER
from duetime.http.problems import refusal
from duetime.service.owner_limits import NOBODY, OwnerLimits, TooManyRequests

_BY_THEMSELVES: Final = re.compile(r"/healthz|/mcp|/api/v1/events|/api/v1/runs/[^/]+/finish|/static/.*", re.DOTALL)
"""Paths that need no thread, or that take slots themselves when they use one."""


class OwnerShare:
    def __init__(self, app: ASGIApp, limits: OwnerLimits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _BY_THEMSELVES.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        slot = self._limits.slot(scope.get(OWNER, NOBODY))
        try:
            await slot.__aenter__()
        except TooManyRequests as error:
            headers = {"Retry-After": "1"}
            await refusal(scope, 429, "too_many_requests", str(error), headers=headers)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            await slot.__aexit__(None, None, None)
