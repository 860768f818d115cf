"""The HTTP server on a real socket of this machine, in a thread, and requests to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

from duetime.app import App, build, web
from duetime.engine.clock import Clock
from duetime.http.connection_limits import connection_limits
from duetime.http.server import HttpServer, listen
from duetime.security.tokens import Tokens
from duetime.settings import Settings
from tests.support.settings import for_all
from tests.support.tokens import tokens_with

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODERN = {"MCP-Protocol-Version": "2026-07-28"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> Any:
        """The JSON-RPC message of an answer, which may be a stream of one event."""
        lines = self.body.decode().splitlines()
        data = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
        return json.loads(data[-1] if data else self.body)


class Site:
    def __init__(self, app: Starlette, room: App, tokens: Tokens | None, port: int) -> None:
        self.app, self.room, self.port = app, room, port
        self._tokens = tokens

    @property
    def tokens(self) -> Tokens:
        assert self._tokens is not None
        return self._tokens

    def bearer(self, subject: str = "ada", **more: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens.issue(subject, 3600 * 1_000_000, **more)}"}

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, message: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return self.ask("POST", "/mcp", {**ACCEPT, **(headers or {})}, json.dumps(message).encode())


@contextmanager
def site(
    folder: Path, clock: Clock | None = None, *, auth: bool = True, db: str = "", **settings: Any
) -> Iterator[Site]:
    room = build(Settings(db=db or str(folder / "my.db"), **{"timezone": "UTC", **for_all(settings)}), tasks=False)
    tokens = tokens_with(room.store, folder / "auth", clock or room.clock)
    app = web(room, tokens if auth else None)
    bound = listen("127.0.0.1", 0, only_loopback=not auth)
    server = HttpServer(app, bound, connection_limits(room.settings))
    server.start()
    try:
        yield Site(app, room, tokens if auth else None, bound.getsockname()[1])
    finally:
        server.stop()
        bound.close()
        room.close()


def paths(routes: list[BaseRoute], prefix: str = "") -> list[str]:
    """Yield every served path, from the application's own routes."""
    found: list[str] = []
    for route in routes:
        if isinstance(route, Route):
            found.append(prefix + route.path)
        elif isinstance(route, Mount):
            found += paths(list(route.routes), prefix + route.path)
        else:
            raise AssertionError(f"a kind of route that this test does not know: {route}")
    return found
