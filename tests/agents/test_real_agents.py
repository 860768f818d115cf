"""Real agents, as their makers ship them, woken as a due prompt wakes them: against a real server, with a model that
plays a script on this machine. `make test-agents` installs them; nothing else does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from duetime.core.waking import Access
from tests.agents.installed import MADE, agent_named, environment, settings
from tests.support.agents import ERAS, Served, call, over_http, serving, talk
from tests.support.model_server import ModelServer, Script, fail, say, silence
from tests.support.model_server import call as use
from tests.support.node import AGENTS, Node, NoNode, installed
from tests.support.programs import wait_until, watched_temporary_folder
from tests.support.waking import errand, failed, over_stdio, succeeded

pytestmark = pytest.mark.skipif(
    not os.environ.get("DUETIME_TEST_AGENTS"), reason="`make test-agents` installs five agents from npm and runs them"
)
PROMPT = "--help {{ it }} {% raw %} $(touch x) \"quoted\" 'too' \\ é\nand @file on a second line"
SCRIPT: Script = [
    use("schedule", prompt="water the plants", at="2031-02-10 3:00 PM"),
    use("schedule_edit", lambda seen: {"id": seen.number("schedule"), "prompt": "water the roses"}),
    say("All is scheduled."),
]


@pytest.fixture(scope="module")
def node() -> Node:
    try:
        return installed(AGENTS)
    except NoNode as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("serve"), "--quiet") as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """Where private folders are made; empty again when all is over."""
    folder = tmp_path / "runs"
    folder.mkdir()
    with watched_temporary_folder(folder):
        yield folder
    assert list(folder.iterdir()) == []
    assert _mentioning(str(folder)) == []


def _mentioning(folder: str) -> list[str]:
    """Processes that were given a place in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if folder.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # gone by now, or somebody else's
    return found


def prompts(served: Served, status: str = "pending", token: str | None = None) -> list[str]:
    """What is scheduled on the server, as any client sees it."""
    seen: list[str] = []

    async def ask(client: Client) -> None:
        listed = await call(client, "schedule_list", status=status)
        seen.extend(task["prompt"] for task in listed["tasks"])

    talk(over_http(served.url, token, ERAS[0]), ask)
    return sorted(seen)


@pytest.mark.parametrize("name", MADE)
def test_it_uses_the_tools_and_answers(name: str, node: Node, home: Path, runs: Path, served: Served) -> None:
    before = prompts(served, token=served.token)
    with ModelServer(SCRIPT) as model:
        given = errand(Access(served.url, served.token), PROMPT, patience=90.0)
        reply = succeeded(agent_named(name, node, home, model).wake(given))
        first = model.conversation[0]
    assert any(PROMPT in said for said in first.said), "the prompt arrived as it was"
    assert reply.text == "All is scheduled." and reply.denied == [] and reply.exit_code == 0
    assert [each["name"] for each in reply.tool_calls] == ["schedule", "schedule_edit"]
    assert prompts(served, token=served.token) == [*before, "water the roses"]
    assert (reply.spent.input_tokens, reply.spent.output_tokens) == (300, 30)
    assert not {"Bash", "Write", "bash", "write", "exec_command", "run_shell_command", "write_file"} & set(first.tools)


@pytest.mark.parametrize("name", MADE)
def test_it_uses_a_server_over_stdio(name: str, node: Node, home: Path, runs: Path, tmp_path: Path) -> None:
    with ModelServer(SCRIPT) as model:
        given = errand(over_stdio(tmp_path), PROMPT, patience=90.0)
        reply = succeeded(agent_named(name, node, home, model, folder=str(tmp_path)).wake(given))
    assert [each["name"] for each in reply.tool_calls] == ["schedule", "schedule_edit"]
    assert reply.text == "All is scheduled." and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", MADE)
def test_a_model_that_refuses_is_a_failure(name: str, node: Node, home: Path, runs: Path, served: Served) -> None:
    with ModelServer([fail(400, "this model is retired")]) as model:
        reply = agent_named(name, node, home, model).wake(errand(Access(served.url, served.token), patience=60.0))
    assert "this model is retired" in failed(reply)


@pytest.mark.parametrize("name", MADE)
def test_one_that_hangs_is_ended_with_all_it_started(
    name: str, node: Node, home: Path, runs: Path, tmp_path: Path
) -> None:
    """Its server over stdio as well: the fixture looks for what is left."""
    with ModelServer([silence()]) as model:
        reply = agent_named(name, node, home, model).wake(errand(over_stdio(tmp_path), patience=8.0))
    assert reply.error == "timed out after 8 s"


def test_a_tool_that_is_not_allowed_is_no_success(
    node: Node, home: Path, runs: Path, served: Served, tmp_path: Path
) -> None:
    outside: dict[str, Any] = {"file_path": "/etc/hostname"}
    (tmp_path / "work").mkdir()
    with ModelServer([use("Read", outside), say("I could not read it.")]) as model:
        woken = agent_named("claude", node, home, model, folder=str(tmp_path / "work"))
        reply = woken.wake(errand(Access(served.url, served.token), patience=60.0))
    assert reply.denied == ["Read"] and "not allowed to use Read" in failed(reply)


@pytest.mark.parametrize("auth", [[], ["--no-auth"]], ids=["over-http", "over-stdio"])
def test_scheduled_prompts_wake_them_all(
    auth: list[str], node: Node, home: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: a tool call makes the schedule, a worker finds it due and wakes the agent, which uses the tools
    with the token of its run, answers, and is recorded."""
    with ModelServer(SCRIPT) as model:
        (tmp_path / "duetime.toml").write_text(settings(node, home, model))
        for name, value in {**environment(node, home, model), "TMPDIR": str(runs)}.items():
            monkeypatch.setenv(name, value)
        with serving(tmp_path, "--quiet", *auth) as served:
            token = None if auth else served.token
            talk(over_http(served.url, token, ERAS[0]), _schedule_for_all)
            wait_until(lambda: len(prompts(served, "completed", token)) == len(MADE), "every agent has answered", 100)
            assert prompts(served, "failed", token) == []
            assert prompts(served, "pending", token) == ["water the roses"] * len(MADE)
    asked = {request.api for request in model.conversation}
    assert asked == {"anthropic", "openai-responses", "openai-chat", "gemini"}


async def _schedule_for_all(client: Client) -> None:
    for name in MADE:
        await call(client, "schedule", prompt=f"for {name}", at="in 1 second", agent=name)
