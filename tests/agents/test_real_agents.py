"""Real agents, as their makers ship them, woken as a due prompt wakes them: against a real server, with a model that
plays a script on this machine. `make test-agents` installs them; nothing else does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from mcp import Client

from duetime.engine.model import Left
from duetime.kinds import load_specs
from duetime.kinds.prompts.agent import Access
from duetime.kinds.prompts.agents.gateway_tools import ToolSources
from duetime.kinds.prompts.agents.presets import PRESETS
from duetime.kinds.prompts.agents.transcript import without_prefix
from duetime.kinds.prompts.allowance import Allowance
from duetime.mcp.catalog import catalog_of
from duetime.settings import McpServerSettings
from tests.agents.installed import MADE, add_server, agent_named, available, environment, settings
from tests.support.agents import ERAS, Served, call, over_http, serving, talk
from tests.support.model_server import ModelServer, Request, Script, fail, say, silence
from tests.support.model_server import call as use
from tests.support.node import AGENTS, Node, NoNode, installed
from tests.support.programs import watched_temporary_folder
from tests.support.settings import write_trusted
from tests.support.user_server import TOKEN, user_server
from tests.support.waking import agent_request, failed, over_stdio, replied, succeeded
from tests.support.workers import eventually

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
    with serving(tmp_path_factory.mktemp("serve"), "--no-link") as made:
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
        given = agent_request(Access(served.url, served.token), PROMPT, patience=90.0)
        reply = succeeded(agent_named(name, node, home, model).wake(given))
        first = model.conversation[0]
    assert any(PROMPT in said for said in first.said), "the prompt arrived as it was"
    assert reply.text == "All is scheduled." and reply.denied == [] and reply.exit_code == 0
    assert [each["name"] for each in reply.tool_calls] == ["schedule", "schedule_edit"]
    assert prompts(served, token=served.token) == [*before, "water the roses"]
    assert (reply.spent.input_tokens, reply.spent.output_tokens) == (300, 30)


RESOURCES = ["list_mcp_resource_templates", "list_mcp_resources", "read_mcp_resource"]
"""Duetime's own, for it is the only server that these may read."""
FURTHER: dict[str, tuple[list[str], list[str]]] = {
    "claude": ([], ["Read"]),
    "codex": (RESOURCES, ["exec_command", *RESOURCES, "write_stdin"]),
    "gemini": ([], ["glob", "grep_search", "list_directory", "read_file"]),
    "goose": ([], []),
    "opencode": ([], sorted(["glob", "grep", "read", *RESOURCES])),
}
"""What each offers its model besides Duetime's tools: without a folder to work in, and with one."""
WEB = {
    "claude": {"WebFetch", "WebSearch"},
    "codex": {"web_search"},
    "gemini": {"google_web_search", "web_fetch"},
    "opencode": {"webfetch"},
}
"""What those offer it that have web tools of their own, where it may use them."""
ONE_TOOL = Allowance(tools=("builds.latest",))


@pytest.mark.parametrize("has_folder", [False, True], ids=["without-a-folder", "with-one"])
@pytest.mark.parametrize("name", MADE)
def test_it_offers_no_other_tools(
    name: str, has_folder: bool, node: Node, home: Path, runs: Path, served: Served, tmp_path: Path
) -> None:
    """To the letter: a version that brings a tool of its own has to be looked at."""
    (tmp_path / "work").mkdir()
    folder = str(tmp_path / "work") if has_folder else ""
    with ModelServer([say("Nothing to do.")]) as model:
        given = agent_request(Access(served.url, served.token), patience=90.0)
        succeeded(agent_named(name, node, home, model, folder=folder).wake(given))
        offered = every_tool(model.conversation[0])
    own = {each.name for each in catalog_of(load_specs().values()).tools}
    assert own == {without_prefix(each) for each in offered} & own
    assert sorted(each for each in offered if without_prefix(each) not in own) == FURTHER[name][has_folder]


def every_tool(request: Request) -> list[str]:
    """Also those that the maker of the model carries out, such as a search of the web: they have a type, or a key of
    their own, and no name."""
    known = ("name", "function", "functionDeclarations", "tools")
    others = [each for each in request.body["tools"] if not any(name in each for name in known)]
    return [*request.tools, *(str(each.get("type") or sorted(each)) for each in others)]


@pytest.mark.parametrize("name", MADE)
def test_it_uses_a_tool_of_the_users_own_server_and_another_is_refused(
    name: str, node: Node, home: Path, runs: Path, served: Served
) -> None:
    """The run says what it was denied. What else the program offers its model is as without these tools."""
    script = [use("builds_latest", branch="main"), use("builds_delete", branch="main"), say("I may not delete it.")]
    with user_server() as builds, ModelServer(script) as model:
        sources = ToolSources(
            {"builds": McpServerSettings(url=builds.url, headers={"Authorization": f"Bearer {TOKEN}"})}
        )
        given = agent_request(Access(served.url, served.token), patience=90.0, allowance=ONE_TOOL)
        reply = replied(agent_named(name, node, home, model, sources=sources).wake(given))
        offered = every_tool(model.conversation[0])
    assert [each["name"] for each in reply.tool_calls] == ["builds_latest", "builds_delete"]
    assert "build 7 of main is green" in reply.tool_calls[0]["result"]
    assert reply.text == "I may not delete it." and reply.denied == ["builds.delete"] and builds.deleted == []
    own = {each.name for each in catalog_of(load_specs().values()).tools}
    further = {without_prefix(each) for each in offered} - own - set(FURTHER[name][0])
    assert further == {"builds_latest", "builds_delete", "builds_about"}


@pytest.mark.parametrize("name", [name for name in MADE if PRESETS[name].has_web])
def test_it_is_offered_the_web_where_it_may_use_it(
    name: str, node: Node, home: Path, runs: Path, served: Served
) -> None:
    with ModelServer([say("Nothing to do.")]) as model:
        given = agent_request(Access(served.url, served.token), patience=90.0, allowance=Allowance(web=True))
        succeeded(agent_named(name, node, home, model).wake(given))
        offered = every_tool(model.conversation[0])
    own = {each.name for each in catalog_of(load_specs().values()).tools}
    assert own <= {without_prefix(each) for each in offered}
    assert {without_prefix(each) for each in offered} - own - set(FURTHER[name][0]) == WEB[name]


@pytest.mark.parametrize("name", MADE)
def test_it_uses_a_server_over_stdio(name: str, node: Node, home: Path, runs: Path, tmp_path: Path) -> None:
    with ModelServer(SCRIPT) as model:
        given = agent_request(over_stdio(tmp_path), PROMPT, patience=90.0)
        reply = succeeded(agent_named(name, node, home, model, folder=str(tmp_path)).wake(given))
    assert [each["name"] for each in reply.tool_calls] == ["schedule", "schedule_edit"]
    assert reply.text == "All is scheduled." and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", MADE)
def test_a_model_that_refuses_is_a_failure(name: str, node: Node, home: Path, runs: Path, served: Served) -> None:
    with ModelServer([fail(400, "this model is retired")]) as model:
        reply = agent_named(name, node, home, model).wake(
            agent_request(Access(served.url, served.token), patience=60.0)
        )
    assert "this model is retired" in failed(reply)


def test_claude_ends_with_what_is_left_of_the_day(node: Node, home: Path, runs: Path, served: Served) -> None:
    with ModelServer(SCRIPT, usage=(1000, 100)) as model:
        given = agent_request(Access(served.url, served.token), patience=60.0, left=Left(micros=100))
        reply = replied(agent_named("claude", node, home, model).wake(given))
    assert "maximum budget" in failed(reply) and len(reply.tool_calls) == 1 and reply.spent.dollars > 0


@pytest.mark.parametrize("name", MADE)
def test_one_that_hangs_is_ended_with_all_it_started(
    name: str, node: Node, home: Path, runs: Path, tmp_path: Path
) -> None:
    """Its server over stdio as well: the fixture looks for what is left."""
    with ModelServer([silence()]) as model:
        reply = agent_named(name, node, home, model).wake(agent_request(over_stdio(tmp_path), patience=8.0))
    assert reply.error == "timed out after 8 s"


@pytest.mark.parametrize(
    ("name", "tool", "place"),
    [
        ("claude", "Read", "file_path"),
        ("gemini", "read_file", "file_path"),
        ("gemini", "list_directory", "dir_path"),
        ("opencode", "read", "filePath"),
    ],
)
def test_a_tool_that_is_not_allowed_is_no_success(
    name: str, tool: str, place: str, node: Node, home: Path, runs: Path, served: Served, tmp_path: Path
) -> None:
    """To read outside of the folder: the others have no tool that could be refused."""
    (tmp_path / "work").mkdir()
    with ModelServer([use(tool, {place: "/etc"}), say("I could not read it.")]) as model:
        woken = agent_named(name, node, home, model, folder=str(tmp_path / "work"))
        reply = woken.wake(agent_request(Access(served.url, served.token), patience=60.0))
    assert reply.denied == [tool] and f"not allowed to use {tool}" in failed(reply)


def test_opencode_reads_nothing_that_other_servers_of_its_user_offer(
    node: Node, home: Path, runs: Path, served: Served, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    script = [
        use("read_mcp_resource", server="duetime", uri="cron://examples"),
        use("read_mcp_resource", server="mine", uri="cron://examples"),
        say("I could not read it."),
    ]
    with ModelServer(script) as model:
        woken = agent_named("opencode", node, home, model, folder=str(tmp_path / "work"))
        add_server(home, "mine", over_stdio(tmp_path))
        reply = woken.wake(agent_request(Access(served.url, served.token), patience=60.0))
        offered = model.conversation[0].tools
    assert not any(each.startswith("mine_") for each in offered)
    first, second = reply.tool_calls
    assert "every minute" in first["result"] and second["failed"] and "every minute" not in second["result"]
    assert reply.denied == ["read_mcp_resource"]


APIS = {
    "claude": "anthropic",
    "codex": "openai-responses",
    "gemini": "gemini",
    "goose": "openai-chat",
    "opencode": "openai-chat",
}
"""How each asks its model."""


@pytest.mark.parametrize("auth", [[], ["--no-auth"]], ids=["over-http", "over-stdio"])
def test_scheduled_prompts_wake_them_all(
    auth: list[str], node: Node, home: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: a tool call makes the schedule, a worker finds it due and wakes the agent, which uses the tools
    with the token of its run, answers, and is recorded. Those that npm could not install are left out."""
    names = available(node)
    assert names, "npm installed none of the agents"
    with ModelServer(SCRIPT) as model:
        write_trusted(tmp_path, settings(node, home, model))
        for name, value in {**environment(node, home, model), "TMPDIR": str(runs)}.items():
            monkeypatch.setenv(name, value)
        with serving(tmp_path, "--no-link", *auth) as served:
            token = None if auth else served.token
            talk(over_http(served.url, token, ERAS[0]), partial(_schedule_for, names))
            eventually(lambda: len(prompts(served, "completed", token)) == len(names), 100, "every agent has answered")
            assert prompts(served, "failed", token) == []
            assert prompts(served, "pending", token) == ["water the roses"] * len(names)
    asked = {request.api for request in model.conversation}
    assert asked == {APIS[name] for name in names}


async def _schedule_for(names: list[str], client: Client) -> None:
    for name in names:
        await call(client, "schedule", prompt=f"for {name}", at="in 1 second", agent=name)
