"""What an agent may use besides Duetime's tools: the user's own MCP servers, commands, skills and the web."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from duetime.engine.clock import SystemClock
from duetime.kinds.prompts.agents.builtin import BuiltinAgent
from duetime.kinds.prompts.agents.gateway import NOT_ALLOWED, ToolGateway
from duetime.kinds.prompts.agents.gateway_tools import ToolSources, gateway_for
from duetime.kinds.prompts.agents.models import EXAMPLE
from duetime.kinds.prompts.agents.user_servers import ServerUnreachable
from duetime.kinds.prompts.allowance import Allowance
from duetime.settings import McpServerSettings
from tests.support.agents import ERAS
from tests.support.model_server import ModelServer, call, say
from tests.support.programs import command_agent, lives
from tests.support.user_server import CALLS, TOKEN, UserServer, user_server
from tests.support.waking import agent_request, failed, over_stdio, replied, succeeded

ONE = Allowance(tools=("builds.latest",))
ENVIRONMENT = {**os.environ, "TOKEN_OF_BUILDS": TOKEN}
TOOL_AGENT = str(Path(__file__).parents[2] / "support" / "tool_agent.py")


@pytest.fixture(scope="module")
def builds() -> Iterator[UserServer]:
    with user_server() as made:
        yield made


def over_http(builds: UserServer) -> McpServerSettings:
    return McpServerSettings(url=builds.url, headers={"Authorization": "Bearer ${TOKEN_OF_BUILDS}"})


def as_program() -> McpServerSettings:
    command = (sys.executable, "-m", "tests.support.user_server")
    return McpServerSettings(command=command, env={"BUILDS_TOKEN": "${TOKEN_OF_BUILDS}", "PYTHONPATH": str(Path.cwd())})


def gateway(allowance: Allowance, server: McpServerSettings | None = None, **more: Any) -> ToolGateway:
    sources = ToolSources({} if server is None else {"builds": server}, **more)
    made = gateway_for(agent_request(), allowance, sources, ENVIRONMENT, web=True)
    assert made is not None
    return made


def used(made: ToolGateway, *calls: tuple[str, Mapping[str, Any]], era: Any = ERAS[0]) -> list[tuple[bool, str]]:
    """Whether each call failed, and what was answered; the tools come first."""

    async def use() -> list[tuple[bool, str]]:
        async with made:
            headers = {"Authorization": f"Bearer {made.access.token}"}
            assert made.access.url is not None
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30) as http,
                Client(streamable_http_client(made.access.url, http_client=http), mode=era) as client,
            ):
                listed = {each.name: each.description or "" for each in (await client.list_tools()).tools}
                answers = [await client.call_tool(name, dict(given)) for name, given in calls]
        texts = [(bool(each.is_error), str(getattr(each.content[0], "text", ""))) for each in answers]
        return [(False, json.dumps(listed)), *texts]

    return asyncio.run(use())


# -- the user's own servers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_an_allowed_tool_is_forwarded_and_another_refused(builds: UserServer, era: Any) -> None:
    made = gateway(ONE, over_http(builds))
    main = {"branch": "main"}
    (_, listed), latest, deleted, unknown = used(
        made, ("builds_latest", main), ("builds_delete", main), ("builds_no", {}), era=era
    )
    assert json.loads(listed) == {
        "builds_latest": "Return the latest build of a branch.",
        "builds_delete": NOT_ALLOWED,
        "builds_about": NOT_ALLOWED,
    }
    assert latest == (False, "build 7 of main is green")
    assert deleted[0] and deleted[1].startswith("Not allowed: builds.delete.") and builds.deleted == []
    assert unknown[0] and made.denied == ["builds.delete"]


@pytest.mark.later
def test_a_server_over_stdio(builds: UserServer) -> None:
    made = gateway(ONE, as_program())
    assert used(made, ("builds_latest", {"branch": "main"}))[1:] == [(False, "build 7 of main is green")]


@pytest.mark.parametrize("server", ["http", "stdio"])
def test_its_credentials_are_not_passed_on(server: str, builds: UserServer) -> None:
    given = over_http(builds) if server == "http" else as_program()
    [(_, listed), (_, said)] = used(gateway(Allowance(tools=("builds.*",)), given), ("builds_about", {}))
    assert said == "my token is ***" and TOKEN not in listed and TOKEN not in repr(given)


def test_nobody_else_uses_the_gateway(builds: UserServer) -> None:
    made = gateway(ONE, over_http(builds))

    async def ask() -> int:
        async with made, httpx2.AsyncClient(timeout=30) as http:
            assert made.access.url is not None
            return (await http.post(made.access.url, json={}, headers={"Authorization": "Bearer guess"})).status_code

    assert asyncio.run(ask()) == 401


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServerSettings(url="http://127.0.0.1:9/mcp"), "the MCP server builds cannot be used ("),
        (McpServerSettings(command=("no-such-program",)), "the MCP server builds cannot be used (no such file"),
        (McpServerSettings(url="http://127.0.0.1:9/${NO_SUCH}"), "needs the environment variable NO_SUCH"),
    ],
)
def test_a_server_that_cannot_be_reached(server: McpServerSettings, words: str) -> None:
    with pytest.raises(ServerUnreachable, match="builds") as raised:
        used(gateway(ONE, server))
    assert words in raised.value.message and "127.0.0.1" not in raised.value.message
    sources = ToolSources({"builds": server})
    woken = command_agent("test", command=[sys.executable], sources=sources)
    reply = woken.wake(agent_request(allowance=ONE))
    assert words in failed(reply) and not reply.permanent, "it may be there again at the next attempt"


# -- commands, skills, the web ----------------------------------------------------------------------------------------


def test_allowed_commands_run_in_the_folder_and_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text("all is well")
    made = gateway(Allowance(commands=("cat *", "false"), folder=str(tmp_path)))
    calls = [("run_command", {"command": text}) for text in ("cat report.txt", "rm report.txt", "false", "cat '")]
    (_, listed), read, removed, failing, unreadable = used(made, *calls)
    assert "Allowed: cat *, false" in listed
    assert read == (False, "all is well")
    assert removed[0] and made.denied == ["the command rm report.txt"] and (tmp_path / "report.txt").exists()
    assert failing == (True, "\n[exit code 1]") and "cannot be read" in unreadable[1]


def test_a_command_is_no_shell_and_sees_only_the_named_variables(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HIDDEN_KEY", "a-secret-of-the-operator")
    made = gateway(Allowance(commands=("echo *", "env")))
    [_, (_, said), (_, env)] = used(
        made, ("run_command", {"command": "echo $HOME; touch x"}), ("run_command", {"command": "env"})
    )
    assert said == "$HOME; touch x\n" and "HIDDEN_KEY" not in env and "TOKEN_OF_BUILDS" not in env


def test_a_command_ends_with_its_run(tmp_path: Path) -> None:
    made = gateway(Allowance(commands=("sh -c *",), folder=str(tmp_path)))
    started = tmp_path / "started"
    os.mkfifo(started)

    async def call() -> None:
        assert made.access.url is not None
        headers = {"Authorization": f"Bearer {made.access.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60.0) as http,
            Client(streamable_http_client(made.access.url, http_client=http)) as client,
        ):
            await client.call_tool("run_command", {"command": "sh -c 'echo $$ > started; exec sleep 20'"})

    async def leave() -> None:
        async with made:
            calling = asyncio.create_task(call())
            process = int(await asyncio.to_thread(started.read_text))
        assert not lives(process)
        calling.cancel()
        await asyncio.wait({calling})

    asyncio.run(leave())


def test_skills_are_read_by_name_and_nothing_outside_of_them(tmp_path: Path) -> None:
    skill = tmp_path / "deploying"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: deploying\ndescription: How we deploy.\n---\nPush on Fridays.")
    (skill / "more.md").write_text("Never on Fridays.")
    (tmp_path / "secret.txt").write_text("a secret")
    made = gateway(Allowance(skills=("deploying",)), skills=[str(skill), str(tmp_path / "other")])
    (_, listed), text, more, outside, other = used(
        made,
        ("read_skill", {"skill": "deploying"}),
        ("read_skill", {"skill": "deploying", "file": "more.md"}),
        ("read_skill", {"skill": "deploying", "file": "../secret.txt"}),
        ("read_skill", {"skill": "other"}),
    )
    assert "deploying: How we deploy." in listed and "other" not in listed
    assert "Push on Fridays." in text[1] and "Never on Fridays." in more[1]
    assert outside == (True, "the skill has no such file") and other[0]


def test_the_web_is_guarded() -> None:
    [_, (refused, words)] = used(gateway(Allowance(web=True)), ("fetch_page", {"url": "http://127.0.0.1:9/"}))
    assert refused and "127.0.0.1" in words


def test_without_anything_allowed_there_is_no_gateway() -> None:
    allowance = Allowance(folder="/", env=("PATH",))
    assert gateway_for(agent_request(), allowance, ToolSources(), {}, web=True) is None
    assert gateway_for(agent_request(), Allowance(web=True), ToolSources(), {}, web=False) is None


# -- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.later
def test_a_command_agent_uses_them_and_tells_what_it_was_denied(builds: UserServer) -> None:
    sources = ToolSources({"builds": over_http(builds)})
    woken = command_agent("test", command=[sys.executable, "-P", TOOL_AGENT], sources=sources, environment=ENVIRONMENT)
    reply = replied(woken.wake(agent_request(text=CALLS, allowance=ONE)))
    assert reply.text.startswith("build 7 of main is green\nNot allowed: builds.delete.")
    assert reply.denied == ["builds.delete"] and reply.outcome == {"servers": ["duetime", "tools"]}
    alone = succeeded(woken.wake(agent_request(text=CALLS, allowance=Allowance())))
    assert alone.text == "no further tools" and not alone.denied


@pytest.mark.later
def test_a_built_in_agent_uses_them_and_tells_what_it_was_denied(
    builds: UserServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_BUILDS", TOKEN)
    script = [call("builds_latest", branch="main"), call("builds_delete", branch="main"), say("I may not delete it.")]
    with ModelServer(script) as model:
        for name, value in model.environment.items():
            monkeypatch.setenv(name, value)
        sources = ToolSources({"builds": over_http(builds)})
        woken = BuiltinAgent(EXAMPLE, SystemClock(), "UTC", allowance=ONE, sources=sources)
        reply = succeeded(woken.wake(agent_request(over_stdio(tmp_path))))
    assert [each["name"] for each in reply.tool_calls] == ["builds_latest", "builds_delete"]
    assert "build 7 of main is green" in reply.tool_calls[0]["result"] and reply.tool_calls[1]["failed"]
    assert reply.denied == ["builds.delete"] and builds.deleted == []
