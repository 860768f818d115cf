"""A user's own MCP server: over HTTP on this machine, where it requires a token, or over stdio."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from mcp.server import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "the-token-of-the-builds"
CALLS = 'call builds_latest {"branch": "main"}\ncall builds_delete {"branch": "main"}'
"""What `tests/support/tool_agent.py` reads: one tool that it may call, and one that it may not."""


@dataclass
class UserServer:
    url: str
    deleted: list[str] = field(default_factory=list)
    """What was deleted: nothing, as long as that is not allowed."""


def builds(deleted: list[str]) -> MCPServer:
    server = MCPServer("builds")

    @server.tool()
    def latest(branch: str) -> str:
        """Return the latest build of a branch."""
        return f"build 7 of {branch} is green"

    @server.tool()
    def delete(branch: str) -> str:
        """Delete the builds of a branch."""
        deleted.append(branch)
        return "deleted"

    @server.tool()
    def about() -> str:
        """Return what the server was given, including its credentials."""
        return f"my token is {os.environ.get('BUILDS_TOKEN', TOKEN)}"

    return server


@contextmanager
def user_server() -> Iterator[UserServer]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        made = UserServer(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
        app = _with_token(builds(made.deleted).streamable_http_app())
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield made
        finally:
            server.should_exit = True
            thread.join()


def _with_token(app: ASGIApp) -> ASGIApp:
    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        if scope["type"] == "http" and given != f"Bearer {TOKEN}":
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return checked


if __name__ == "__main__":
    builds([]).run()
