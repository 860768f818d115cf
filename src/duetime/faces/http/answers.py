"""Answers that stream end by themselves only when their client leaves. Here they can be ended, and end as HTTP says."""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duetime.faces.http.problems import refusal


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
