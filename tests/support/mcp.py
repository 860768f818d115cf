"""Real clients of real servers, in both protocol versions and over both transports, for synchronous tests."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp import Client
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from duetime.engine.clock import SECOND, SystemClock
from duetime.kinds import load_specs
from duetime.mcp.catalog import catalog_of
from duetime.security.private_files import load_secret
from tests.support.agents import ERAS, Served, over_http, over_stdio, serving
from tests.support.tokens import MemoryRevocations, tokens_with

OLDER, NEWER = ERAS
ROUTES = [f"{transport}-{era}" for transport in ("http", "stdio") for era in ("2025-11-25", "2026-07-28")]
SAMPLES = "duetime.cli.serve.demo_tasks"
PATIENCE = 30.0
_LIFE = 3600 * SECOND
LATENCIES: list[float] = []
"""Seconds from each change until the client was notified, over the whole run."""


def mode_of(era: str) -> str:
    """Return the mode of the SDK's client for a protocol version."""
    return OLDER if era == "2025-11-25" else era


class Answer(NamedTuple):
    """A tool's answer, as it arrived."""

    text: str
    data: Any
    is_error: bool


class Agent:
    """One connected client. Every call has a timeout."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal, self.client = portal, client
        self._schemas: dict[str, Draft202012Validator] = {}

    def do(self, ask: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def bounded() -> Any:
            with anyio.fail_after(PATIENCE):
                return await ask(*arguments, **named)

        return self.portal.call(bounded)

    # -- tools ----------------------------------------------------------------------------------------------------

    def tools(self) -> list[types.Tool]:
        listed: types.ListToolsResult = self.do(self.client.list_tools)
        return listed.tools

    def call(self, tool: str, given: Mapping[str, Any] | None = None, /, **more: Any) -> Answer:
        """Call a tool. `given` is for arguments that Python cannot name. The answer has to match the tool's schema."""
        arguments = {**(given or {}), **more}
        result: types.CallToolResult = self.do(self.client.call_tool, tool, arguments)
        [content] = result.content
        assert isinstance(content, types.TextContent)
        if not result.is_error:
            self._validator(tool).validate(result.structured_content)
        return Answer(content.text, result.structured_content, bool(result.is_error))

    def _validator(self, tool: str) -> Draft202012Validator:
        """Return a stricter validator than what is listed: a field that the definition of the tool does not name is an
        error too."""
        if not self._schemas:
            defined = {each.name: each.output for each in catalog_of(load_specs().values()).tools}
            for each in self.tools():
                assert each.output_schema is not None, each.name
                Draft202012Validator.check_schema(each.output_schema)
                closed = {**defined.get(each.name, each.output_schema), "additionalProperties": False}
                self._schemas[each.name] = Draft202012Validator({"allOf": [each.output_schema, closed]})
        return self._schemas[tool]

    def knows(self, tool: str, given: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
        """Return the structured content of a normal result."""
        answer = self.call(tool, given, **more)
        assert not answer.is_error, answer.text
        assert isinstance(answer.data, dict)
        return answer.data

    def refused(self, tool: str, given: Mapping[str, Any] | None = None, /, **more: Any) -> str:
        """Return the text of a tool error."""
        answer = self.call(tool, given, **more)
        assert answer.is_error, answer
        return answer.text

    # -- resources ------------------------------------------------------------------------------------------------

    def uris(self) -> list[str]:
        """Return the listed resources; those with a placeholder as templates."""
        fixed: types.ListResourcesResult = self.do(self.client.list_resources)
        holed: types.ListResourceTemplatesResult = self.do(self.client.list_resource_templates)
        return [str(each.uri) for each in fixed.resources] + [each.uri_template for each in holed.resource_templates]

    def read(self, uri: str) -> str:
        """Return the content or the error in one form, to be compared byte by byte."""
        try:
            result: types.ReadResourceResult = self.do(self.client.read_resource, uri)
        except MCPError as error:
            return f"error {error.error.code}: {error.error.message} {json.dumps(error.error.data)}"
        [content] = result.contents
        assert isinstance(content, types.TextResourceContents)
        return content.text

    def content(self, uri: str) -> Any:
        return json.loads(self.read(uri))

    def until(self, ask: Callable[[], bool], seconds: float, what: str) -> None:
        """Ask again until another process has done it."""
        clock = SystemClock()
        deadline = clock.monotonic() + seconds
        while not ask():
            assert clock.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            self.do(anyio.sleep, 0.02)


# -- listening ----------------------------------------------------------------------------------------------------


class Ear:
    """The notifications that a subscribed client receives, in either protocol version."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self.heard: list[str] = []
        self._news = anyio.Event()

    def hear(self, uri: str) -> None:
        self.heard.append(uri)
        self._news.set()

    def handler(self, era: str) -> MessageHandlerFnT | None:
        """Return the handler. In the newer version, messages on a listen stream reach it too, and would count twice."""
        return self._on_message if era == "2025-11-25" else None

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.hear(str(message.params.uri))

    def wait(self, uri: str, count: int = 1, seconds: float = PATIENCE) -> float:
        """Return the seconds until a resource was reported this many times in total."""
        return float(self._portal.call(self._wait, uri, count, seconds))

    async def _wait(self, uri: str, count: int, seconds: float) -> float:
        began = anyio.current_time()
        with anyio.move_on_after(seconds):
            while self.heard.count(uri) < count:
                self._news = anyio.Event()
                await self._news.wait()
        assert self.heard.count(uri) >= count, f"{uri}: heard {self.heard} within {seconds:g} s, not {count} times"
        return anyio.current_time() - began


class Listening(NamedTuple):
    agent: Agent
    ear: Ear


# -- where they connect to ----------------------------------------------------------------------------------------


class World:
    """A running `duetime serve`, the tokens it accepts, and a thread in which clients run."""

    def __init__(self, served: Served, portal: BlockingPortal) -> None:
        self.served, self.portal = served, portal
        folder = served.folder / "data" / "duetime" / "auth"
        self.tokens = tokens_with(MemoryRevocations(), folder, SystemClock(), load_secret(folder, {}))

    @property
    def db(self) -> str:
        return str(self.served.folder / "my.db")

    def token(self, owner: str, *scopes: str, timezone: str | None = "Europe/Berlin") -> str:
        return self.tokens.issue(f"{owner}@example.org", _LIFE, owner=owner, timezone=timezone, scopes=scopes)

    @contextmanager
    def agent(
        self, owner: str | None = None, *scopes: str, era: str = "2026-07-28", token: str | None = None
    ) -> Iterator[Agent]:
        """Return an agent with an owner that nobody else has, unless one is named."""
        bearer = token or self.token(owner or unique("owner"), *scopes)
        with connected(self.portal, over_http(self.served.url, bearer, mode_of(era))) as agent:
            yield agent

    @contextmanager
    def listening(
        self, owner: str, *uris: str, era: str = "2026-07-28", token: str | None = None
    ) -> Iterator[Listening]:
        bearer = token or self.token(owner)
        ear = Ear(self.portal)
        connection = _http_listener(self.served.url, bearer, era, ear)
        with connected(self.portal, connection) as agent, subscribed(agent, ear, era, *uris):
            yield Listening(agent, ear)

    def raw(self, token: str, body: bytes, **headers: str) -> httpx2.Response:
        """Send a request that no client would send."""
        sent = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return httpx2.post(self.served.url, content=body, headers=sent, timeout=PATIENCE)


def unique(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


@contextmanager
def connected(portal: BlockingPortal, connection: AbstractAsyncContextManager[Client]) -> Iterator[Agent]:
    """Connect a client. Errors of the test stay outside the client, which would wrap them in groups."""
    manager = portal.wrap_async_context_manager(connection)
    client = manager.__enter__()
    try:
        yield Agent(portal, client)
    finally:
        manager.__exit__(None, None, None)


@asynccontextmanager
async def _http_listener(url: str, token: str, era: str, ear: Ear) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode_of(era),
            read_timeout_seconds=PATIENCE,
            message_handler=ear.handler(era),
        ) as client,
    ):
        yield client


def stdio_listener(parameters: StdioServerParameters, era: str, ear: Ear) -> AbstractAsyncContextManager[Client]:
    return Client(parameters, mode=mode_of(era), read_timeout_seconds=PATIENCE, message_handler=ear.handler(era))


@contextmanager
def subscribed(agent: Agent, ear: Ear, era: str, *uris: str) -> Iterator[None]:
    """Subscribe as each version does: one request per URI, or one stream for all."""
    if era == "2025-11-25":
        for uri in uris:
            asked = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            agent.do(agent.client.session.send_request, asked, types.EmptyResult)
        yield
        return

    async def listen(*, task_status: TaskStatus[None]) -> None:
        async with agent.client.listen(resource_subscriptions=list(uris)) as events:
            task_status.started()
            async for event in events:
                if isinstance(event, ResourceUpdated):
                    ear.hear(str(event.uri))

    stream, _ = agent.portal.start_task(listen)
    try:
        yield
    finally:
        stream.cancel()


@contextmanager
def world(folder: Path, *more: str, env: Mapping[str, str] | None = None) -> Iterator[World]:
    """Start a server with the sample tasks, one of which fails and one of which is slow."""
    with serving(folder, "--no-link", "--tasks", SAMPLES, *more, env=env) as served, start_blocking_portal() as portal:
        yield World(served, portal)
        assert served.process.poll() is None, "the server has died"


@contextmanager
def route_to(name: str, there: World, folder: Path) -> Iterator[Agent]:
    """Return an agent for one of ROUTES: over HTTP it has its own owner, over stdio its own store."""
    transport, _, era = name.partition("-")
    with ExitStack() as stack:
        if transport == "http":
            yield stack.enter_context(there.agent(era=era))
        else:
            zone = {"DUETIME_TIMEZONE": "Europe/Berlin"}
            yield stack.enter_context(
                connected(there.portal, over_stdio(folder, mode_of(era), "--tasks", SAMPLES, **zone))
            )


# -- comparing ----------------------------------------------------------------------------------------------------

_LEAKS = (
    re.compile(r"Traceback|File \"|\.py\b|line \d+, in |site-packages"),
    re.compile(r"(?<![\w:/.])/(?:home|root|tmp|usr|var|work|opt|etc)/"),
    re.compile(r"\beyJ[\w-]{10,}\.[\w-]+\.[\w-]+"),
    re.compile(r"\b(?:apsw|sqlite3|psycopg|anyio|duetime\.)\w*", re.IGNORECASE),
)


def leaks(text: str) -> list[str]:
    """Return what an answer must never contain: locations of code and files, and credentials."""
    return [found[0] for pattern in _LEAKS if (found := pattern.search(text))]
