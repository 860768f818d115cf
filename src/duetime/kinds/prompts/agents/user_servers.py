"""Connections to the user's own MCP servers, which the worker opens for one run. Errors are reported without addresses
and credentials."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from duetime.engine.errors import DuetimeError
from duetime.security.redaction import AGENT_SECRET, long_enough, secrets_in_address
from duetime.settings import McpServerSettings

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

CONNECT = 30.0
"""Seconds to connect to a server: over stdio a program has to start."""
ANSWER = 300.0
"""Seconds for the answer to one call."""
_CLOSE = 8.0
"""Seconds to close a connection; a program is killed sooner, so only a server that does not answer takes this long."""
_MOST_PAGES, _MOST_TOOLS = 50, 2_000
"""The longest list of tools that is read from one server."""
VARIABLE = re.compile(r"\$\{(\w+)\}")
"""A reference to an environment variable in the settings of a server."""


class ServerUnreachable(DuetimeError):
    """An MCP server cannot be reached."""

    code = "tools_unreachable"
    permanent = False


class UserServer:
    """An asynchronous context manager: the client of a connected server. Raises ServerUnreachable."""

    def __init__(self, name: str, settings: McpServerSettings, environment: Mapping[str, str]) -> None:
        self._name, self._given, self._environment = name, settings, environment
        self._open = AsyncExitStack()
        self.credentials: list[str] = []
        """Values of its headers and variables that are secret by their names or come from the environment, and long
        parts of its address."""

    async def __aenter__(self) -> Client:
        from mcp import Client

        try:
            async with AsyncExitStack() as opening, asyncio.timeout(CONNECT):
                transport = self._http(opening) if self._given.url else self._stdio(opening)
                client = await opening.enter_async_context(Client(transport))
                self._open = opening.pop_all()
                return client
        except TimeoutError:
            raise ServerUnreachable(f"the MCP server {self._name} did not answer in {CONNECT:g} s") from None
        except ServerUnreachable:
            raise
        except Exception as error:
            raise ServerUnreachable(f"the MCP server {self._name} cannot be used ({_cause(error)})") from error

    async def __aexit__(self, *error: object) -> None:
        with suppress(Exception):  # errors while it closes are of no use to anybody
            async with asyncio.timeout(_CLOSE):
                await self._open.aclose()

    def _http(self, opening: AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = self._filled_all(self._given.headers)
        timeout = httpx2.Timeout(CONNECT, read=ANSWER)
        http = httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False)
        opening.push_async_callback(http.aclose)
        url = self._filled(self._given.url)
        values = [self._environment[name] for name in VARIABLE.findall(self._given.url)]
        self.credentials += long_enough((*values, *secrets_in_address(url)))
        return streamable_http_client(url, http_client=http)

    def _stdio(self, opening: AsyncExitStack) -> Any:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        program, *arguments = self._given.command
        env = self._filled_all(self._given.env)
        folder = self._given.folder or None
        quiet = opening.enter_context(open(os.devnull, "w"))  # noqa: PTH123, SIM115 - closed by the stack
        return stdio_client(StdioServerParameters(command=program, args=arguments, env=env, cwd=folder), quiet)

    def _filled_all(self, texts: Mapping[str, str]) -> dict[str, str]:
        filled = {name: self._filled(value) for name, value in texts.items()}
        secret = [filled[name] for name, value in texts.items() if AGENT_SECRET.search(name) or VARIABLE.search(value)]
        self.credentials += long_enough(part for value in secret for part in (value, *value.split()))
        return filled

    def _filled(self, text: str) -> str:
        """Fill in environment variables."""

        def value(variable: re.Match[str]) -> str:
            if variable[1] not in self._environment:
                raise ServerUnreachable(f"the MCP server {self._name} needs the environment variable {variable[1]}")
            return self._environment[variable[1]]

        return VARIABLE.sub(value, text)


async def tools_of(name: str, client: Client) -> list[types.Tool]:
    """Return all tools of a server. Raises ServerUnreachable, also if the list is too long or takes too long."""
    tools: list[types.Tool] = []
    cursor = None
    try:
        async with asyncio.timeout(CONNECT):
            for _ in range(_MOST_PAGES):
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None or len(tools) > _MOST_TOOLS:
                    break
    except TimeoutError:
        raise ServerUnreachable(f"the MCP server {name} did not list its tools in {CONNECT:g} s") from None
    except Exception as error:
        raise ServerUnreachable(f"the MCP server {name} lists no tools ({_cause(error)})") from error
    if cursor is not None or len(tools) > _MOST_TOOLS:
        most = f"{_MOST_TOOLS} tools on {_MOST_PAGES} pages"
        raise ServerUnreachable(f"the MCP server {name} lists more than {most}; let it offer fewer")
    return tools


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
