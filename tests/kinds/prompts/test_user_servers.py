"""The user's own MCP servers that hang, answer without end, or repeat what they were given: a run ends all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp import Client

from duetime.engine.kind import StopReason
from duetime.kinds.prompts.agents import user_servers
from duetime.kinds.prompts.agents.gateway import ToolGateway, opened
from duetime.kinds.prompts.agents.gateway_tools import ToolSources
from duetime.kinds.prompts.agents.user_servers import ServerUnreachable, UserServer, tools_of
from duetime.kinds.prompts.allowance import Allowance
from duetime.processes.child import StopRequest
from duetime.settings import McpServerSettings
from tests.support.programs import Background, agent, program, timed_from
from tests.support.waking import agent_request, failed
from tests.support.workers import eventually

MUTE = """
    import json, pathlib, sys
    for line in sys.stdin:
        pathlib.Path({begun!r}).touch()
        asked = json.loads(line)
        if asked["method"] == "initialize":
            result = {{"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}},
                "serverInfo": {{"name": "mute", "version": "1"}}}}
            print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
        elif "id" in asked and asked["method"] != "tools/list":
            error = {{"code": -32601, "message": "no"}}
            print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}), flush=True)
"""
"""A server over stdio that never lists its tools. It says that it has begun when it was asked something: until then,
asyncio may still be connecting its pipes, and leaves them open if that is cancelled."""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "timed out"),
        (StopReason.CANCELLED, "stopped on"),
        (StopReason.SHUTDOWN, "the worker stopped"),
    ],
)
def test_a_run_ends_in_time_although_its_server_hangs(reason: StopReason | None, words: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    server = McpServerSettings(command=tuple(program(tmp_path, MUTE.format(begun=str(begun)))))
    woken = timed_from(begun, agent(["cat"], sources=ToolSources({"mute": server})))
    run = Background(woken, agent_request(allowance=Allowance(tools=("mute.*",)), patience=60.0 if reason else 1.0))
    if reason:
        eventually(begun.exists, 30, "the server has begun")
        run.stop(reason)
    assert words in failed(run.reply())


def test_the_closing_of_a_gateway_ends_when_the_run_is_stopped() -> None:
    closing = threading.Event()

    class Endless:
        access = None

        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *error: object) -> None:
            closing.set()
            await asyncio.Event().wait()

    requests: list[StopRequest] = []
    with opened(cast(ToolGateway, Endless()), lambda: requests[0] if requests else None):
        requests.append(StopRequest("stopped"))
    assert closing.is_set()


def listing(page: Callable[[], Any]) -> Client:
    """A client of a server that answers each request for tools in this way."""

    async def list_tools(cursor: str | None) -> Any:
        return await page()

    return cast(Client, SimpleNamespace(list_tools=list_tools))


@pytest.mark.parametrize("tools", [0, 500])
def test_a_list_of_tools_without_end_is_refused(tools: int) -> None:
    async def page() -> Any:
        return SimpleNamespace(tools=[None] * tools, next_cursor="more")

    with pytest.raises(ServerUnreachable, match="lists more than 2000 tools on 50 pages"):
        asyncio.run(tools_of("builds", listing(page)))


def test_a_list_of_tools_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_servers, "CONNECT", 0.05)
    with pytest.raises(ServerUnreachable, match=r"did not list its tools in 0\.05 s"):
        asyncio.run(tools_of("builds", listing(asyncio.Event().wait)))


def test_the_closing_of_a_connection_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a server that does not answer when its session is to end."""
    monkeypatch.setattr(user_servers, "_CLOSE", 0.05)
    server = UserServer("builds", McpServerSettings(url="http://127.0.0.1:9"), {})

    async def close() -> set[bool]:
        server._open.push_async_callback(asyncio.Event().wait)
        closing = asyncio.create_task(server.__aexit__())
        done, _ = await asyncio.wait({closing}, timeout=30)
        return {each.cancelled() for each in done}

    assert asyncio.run(close()) == {False}


def test_what_its_address_contains_is_a_credential() -> None:
    url = "http://${USER_OF_BUILDS}@127.0.0.1:9/${TOKEN_OF_BUILDS}/mcp?api_key=of-the-query"
    environment = {"TOKEN_OF_BUILDS": "token-in-the-path", "USER_OF_BUILDS": "name:password-of-it"}
    server = UserServer("builds", McpServerSettings(url=url), environment)

    async def connect() -> None:
        async with server:
            pass

    with pytest.raises(ServerUnreachable):
        asyncio.run(connect())
    assert {"token-in-the-path", "password-of-it", "of-the-query"} <= set(server.credentials)
    assert not any("127.0.0.1" in each for each in server.credentials)
