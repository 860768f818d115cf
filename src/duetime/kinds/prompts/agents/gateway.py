"""The gateway: an MCP server for one run, through which an agent uses whatever it is allowed besides Duetime's tools.

It forwards calls to the user's own MCP servers and offers commands, web pages and skills. It listens on the loopback
interface while the run lasts, with a token of its own. So every agent gets the same tools with the same checks, and no
agent sees the addresses or credentials of the user's servers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import anyio

from duetime.engine.redaction import without_secrets, without_values
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.agents.environment import TOOLS
from duetime.kinds.prompts.agents.user_servers import UserServer, tools_of
from duetime.kinds.prompts.allowance import Allowance
from duetime.processes.child import TICK, StopRequest
from duetime.settings import McpServerSettings

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client
    from starlette.types import ASGIApp, Receive, Scope, Send

NOT_ALLOWED = "Not allowed in this run: a call is refused. Say so if it is needed."
"""Description of a tool that the run may not use, so that the agent knows that it exists but is not allowed."""
_MOST_DENIED = 20
_END = 2.0
"""Seconds for the server to end."""
_KEEP_ALIVE = 75
"""Seconds until an idle connection is closed: later than its client stops using it."""

Answer = Callable[[dict[str, Any]], Awaitable["types.CallToolResult"]]


class GatewayTool(NamedTuple):
    """A tool of the gateway."""

    definition: types.Tool
    answer: Answer
    """Calls the tool. Raises NotAllowed."""


class NotAllowed(Exception):
    """A tool was called that is not allowed, or for something that is not; the message names it."""


class ToolGateway:
    """An asynchronous context manager: `access` is valid inside of it."""

    def __init__(
        self,
        allowance: Allowance,
        servers: Mapping[str, McpServerSettings],
        own: Sequence[GatewayTool],
        environment: Mapping[str, str],
        end: Callable[[], None],
    ) -> None:
        """`own`: tools that the gateway implements itself. `end` stops their calls in progress, and waits for them."""
        self._allowance, self._servers, self._environment = allowance, servers, environment
        self._tools = {each.definition.name: each for each in own}
        self._open, self._end = AsyncExitStack(), end
        self.access = Access(None, "")
        self.denied: list[str] = []
        """Tools that the agent called and was not allowed to use."""

    async def __aenter__(self) -> Self:
        from mcp.server.lowlevel.server import Server

        async with AsyncExitStack() as opening:
            for name in self._allowance.servers:
                server = UserServer(name, self._servers[name], self._environment)
                client = await opening.enter_async_context(server)
                for tool in await tools_of(name, client):
                    self._add(name, tool, client, server.credentials)
            listening = opening.enter_context(socket.create_server(("127.0.0.1", 0)))
            sdk = Server("duetime-tools", on_list_tools=self._list, on_call_tool=self._call)
            token = secrets.token_urlsafe(32)
            app = _guarded(sdk.streamable_http_app(), token)
            await opening.enter_async_context(sdk.session_manager.run())
            await opening.enter_async_context(_serving(app, listening))
            self.access = Access(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", token)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            with anyio.CancelScope(shield=True):  # a stopped run also waits for what it started
                await asyncio.to_thread(self._end)  # first, while the server can still answer the calls
        finally:
            await self._open.aclose()

    def _add(self, server: str, tool: types.Tool, client: Client, credentials: Sequence[str]) -> None:
        full_name, name = f"{server}.{tool.name}", f"{server}_{tool.name}"
        if not self._allowance.allows_tool(server, tool.name):
            stub = type(tool)(name=name, description=NOT_ALLOWED, input_schema={"type": "object"})

            async def refuse(arguments: dict[str, Any]) -> types.CallToolResult:
                raise NotAllowed(full_name)

            self._tools[name] = GatewayTool(stub, refuse)
            return

        async def forward(arguments: dict[str, Any]) -> types.CallToolResult:
            try:
                return _redacted(await client.call_tool(tool.name, arguments), credentials)
            except Exception as error:
                reason = without_secrets(without_values(str(error), credentials))
                return problem(f"{full_name} failed: {reason or type(error).__name__}")

        self._tools[name] = GatewayTool(tool.model_copy(update={"name": name}), forward)

    async def _list(self, ctx: object, params: object) -> types.ListToolsResult:
        import mcp_types as types

        return types.ListToolsResult(tools=[each.definition for each in self._tools.values()])

    async def _call(self, ctx: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            return problem(f"There is no tool {params.name[:100]}; tools/list shows what there is.")
        try:
            return await tool.answer(dict(params.arguments or {}))
        except NotAllowed as refused:
            return self._refuse(str(refused))

    def _refuse(self, name: str) -> types.CallToolResult:
        """Refuse a call and record it, so that the run reports what it was denied."""
        if name not in self.denied and len(self.denied) < _MOST_DENIED:
            self.denied.append(name)
        return problem(f"Not allowed: {name}. The operator's settings, or the schedule, do not allow it in this run.")


class OpeningStopped(Exception):
    """The run was stopped before its gateway was open; the message says why."""


@contextmanager
def opened(gateway: ToolGateway | None, stop_request: Callable[[], StopRequest | None]) -> Iterator[dict[str, Access]]:
    """Open a gateway, if there is one, from a thread without an event loop; yield the server by its name. A stop
    request also ends the opening, which then raises OpeningStopped, and the closing."""
    if gateway is None:
        yield {}
        return
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        close = asyncio.Event()
        held = portal.start_task_soon(_hold, gateway, ready, close)
        if (stopped := _wait({held, ready}, stop_request)) is not None:
            raise OpeningStopped(stopped.reason)  # the portal cancels the task and waits for it
        if not ready.done():
            held.result()
        yield {TOOLS: gateway.access}
        portal.call(close.set)
        if _wait({held}, stop_request) is not None:
            held.cancel()


async def _hold(gateway: ToolGateway, ready: concurrent.futures.Future[None], close: asyncio.Event) -> None:
    """Hold the gateway open in one task, because connections must be closed by the task that opened them."""
    async with gateway:
        ready.set_result(None)
        await close.wait()


def _wait(
    futures: set[concurrent.futures.Future[None]], stop_request: Callable[[], StopRequest | None]
) -> StopRequest | None:
    """Wait until one of the futures is done; return the stop request if that comes first."""
    while not concurrent.futures.wait(futures, TICK, concurrent.futures.FIRST_COMPLETED).done:
        if (stopped := stop_request()) is not None:
            return stopped
    return None


def _redacted(result: types.CallToolResult, credentials: Sequence[str]) -> types.CallToolResult:
    """Return a server's answer without the credentials that the server was given."""
    text = result.model_dump_json(by_alias=True)
    clean = without_values(text, credentials)
    return result if clean == text else type(result).model_validate_json(clean)


def problem(text: str) -> types.CallToolResult:
    return reply(text, is_error=True)


def reply(text: str, *, is_error: bool = False) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


# -- listening --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a socket, in the running event loop."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are for the worker

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=_KEEP_ALIVE)
    server = Server(config)
    task = asyncio.get_running_loop().create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task}, timeout=_END)
            task.cancel()
            await asyncio.wait({task})


def _guarded(app: ASGIApp, token: str) -> ASGIApp:
    """Return an application that answers only requests with the token."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(authorization, expected):
                await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})
                return
        await app(scope, receive, send)

    return guarded
