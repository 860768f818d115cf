"""Known programs: how they are started, that no argument holds a secret, and how what they really say is understood.

The events are what the programs said here, with the parts left out that nobody reads.
"""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from duetime.kinds.prompts.agent import Access, AgentReply, Spent
from duetime.kinds.prompts.agents.presets import PRESETS, Invocation, PresetInput
from duetime.kinds.prompts.agents.transcript import EventReader, Transcript, read_answer, to_reply
from duetime.security.redaction import Secrets
from tests.support.programs import QUICK, command_agent, executable, with_environment
from tests.support.waking import agent_request, failed, succeeded

HTTP = Access("http://127.0.0.1:8765/mcp", "the-token-of-this-run")
STDIO = Access(None, "", ("/opt/duetime", "mcp", "--db", "my db"), {"DUETIME_RUN": "the-token-of-this-run"})
BEARER = {"Authorization": "Bearer the-token-of-this-run"}
PROMPT = '--help {{ it }} {% raw %} {# no #} "$(touch x)" \\ é {\n: "" }}'


def prepared(name: str, folder: Path, access: Access = HTTP, **more: Any) -> Invocation:
    usual: dict[str, Any] = {"model": "", "has_folder": False, "env": {}}
    return PRESETS[name].prepare(PresetInput(PROMPT, {"duetime": access}, folder, **{**usual, **more}))


def read_file(folder: Path, name: str) -> Any:
    path = folder / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return json.loads(path.read_text())


# -- how they are started -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", [HTTP, STDIO], ids=["http", "stdio"])
@pytest.mark.parametrize("name", PRESETS)
def test_no_argument_holds_a_token_or_the_prompt(name: str, access: Access, tmp_path: Path) -> None:
    invocation = prepared(name, tmp_path, access, model="small")
    arguments = " ".join(invocation.flags)
    assert "the-token" not in arguments and "touch" not in arguments and "small" in arguments
    assert invocation.stdin in (PROMPT, "")


def test_claude_with_a_key_of_its_own(tmp_path: Path) -> None:
    invocation = prepared("claude", tmp_path, env={"ANTHROPIC_API_KEY": "k"})
    assert {"--print", "--bare", "--setting-sources=", "--tools=", "--strict-mcp-config"} <= set(invocation.flags)
    assert {"--allowedTools=mcp__duetime__*", "--permission-mode=dontAsk", "--no-session-persistence"} <= set(
        invocation.flags
    )
    assert f"--mcp-config={tmp_path}/mcp.json" in invocation.flags and invocation.env["CLAUDE_CONFIG_DIR"].startswith(
        str(tmp_path)
    )
    server = {"type": "http", "url": HTTP.url, "headers": BEARER}
    assert read_file(tmp_path, "mcp.json") == {"mcpServers": {"duetime": server}}


def test_claude_with_the_operators_login_and_a_folder(tmp_path: Path) -> None:
    invocation = prepared("claude", tmp_path, has_folder=True)
    assert "--bare" not in invocation.flags and "CLAUDE_CONFIG_DIR" not in invocation.env
    assert "--tools=Read,Glob,Grep" in invocation.flags


@pytest.mark.parametrize(("dollars", "told"), [(None, []), (0.25, ["0.250000"]), (0.000001, ["0.000001"])])
def test_claude_is_told_what_it_may_cost(dollars: float | None, told: list[str], tmp_path: Path) -> None:
    flags = prepared("claude", tmp_path, dollars=dollars).flags
    assert [flag for flag in flags if "budget" in flag] == [f"--max-budget-usd={each}" for each in told]


def codex_server(invocation: Invocation) -> Any:
    return codex_settings(invocation)["mcp_servers"]["duetime"]


def codex_settings(invocation: Invocation) -> Any:
    given = [flag.removeprefix("--config=") for flag in invocation.flags if flag.startswith("--config=")]
    return tomllib.loads("\n".join(given))


def test_codex(tmp_path: Path) -> None:
    invocation = prepared("codex", tmp_path)
    assert invocation.flags[0] == "exec" and invocation.flags[-1] == "-" and "--disable=shell_tool" in invocation.flags
    assert codex_server(invocation) == {
        "url": HTTP.url,
        "bearer_token_env_var": "DUETIME_TOKEN",
        "default_tools_approval_mode": "approve",
        "required": True,
    }
    assert invocation.env == {"DUETIME_TOKEN": "the-token-of-this-run"} and list(tmp_path.iterdir()) == []
    local = prepared("codex", tmp_path, STDIO, has_folder=True)
    assert codex_server(local)["command"] == "/opt/duetime"
    assert codex_server(local)["args"] == ["mcp", "--db", "my db"]
    assert codex_server(local)["env_vars"] == ["DUETIME_RUN"] and local.env == STDIO.env
    assert "--disable=shell_tool" not in local.flags and "--sandbox=read-only" in local.flags


@pytest.mark.parametrize("has_folder", [False, True])
def test_codex_has_neither_the_web_nor_other_agents_nor_what_its_user_has_elsewhere(
    has_folder: bool, tmp_path: Path
) -> None:
    settings = codex_settings(prepared("codex", tmp_path, has_folder=has_folder))
    assert settings["web_search"] == "disabled"
    assert settings["tools"] == {"experimental_request_user_input": {"enabled": False}}
    assert {"multi_agent", "apps", "plugins", "view_image", "computer_use"} <= set(settings["features"])
    assert not any(settings["features"].values())


def test_gemini(tmp_path: Path) -> None:
    invocation = prepared("gemini", tmp_path, env={"GEMINI_API_KEY": "k"})
    assert "--yolo" not in invocation.flags and invocation.env == {"GEMINI_CLI_HOME": f"{tmp_path}/gemini"}
    settings = read_file(tmp_path, "gemini/.gemini/settings.json")
    assert settings["mcpServers"] == {"duetime": {"httpUrl": HTTP.url, "headers": BEARER, "trust": True}}
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert settings["tools"] == {"core": ["mcp_duetime_*"]}


def test_gemini_reads_where_it_was_given_a_folder(tmp_path: Path) -> None:
    prepared("gemini", tmp_path, has_folder=True)
    allowed = read_file(tmp_path, "gemini/.gemini/settings.json")["tools"]["core"]
    assert sorted(allowed) == ["glob", "grep_search", "list_directory", "mcp_duetime_*", "read_file"]


def test_gemini_over_stdio(tmp_path: Path) -> None:
    prepared("gemini", tmp_path, STDIO)
    settings = read_file(tmp_path, "gemini/.gemini/settings.json")
    server = {"command": "/opt/duetime", "args": ["mcp", "--db", "my db"], "env": dict(STDIO.env), "trust": True}
    assert settings["mcpServers"] == {"duetime": server}
    assert settings["security"]["auth"]["selectedType"] == "vertex-ai"


@pytest.mark.parametrize(
    ("access", "server"),
    [
        (HTTP, {"type": "remote", "url": HTTP.url, "headers": BEARER, "oauth": False}),
        (STDIO, {"type": "local", "command": list(STDIO.command), "environment": dict(STDIO.env)}),
    ],
    ids=["http", "stdio"],
)
def test_opencode(tmp_path: Path, access: Access, server: dict[str, Any]) -> None:
    settings = json.loads(prepared("opencode", tmp_path, access).env["OPENCODE_CONFIG_CONTENT"])
    assert settings["mcp"] == {"duetime": server}
    assert settings["permission"] == {"*": "deny", "duetime_*": "allow"}
    wider = json.loads(prepared("opencode", tmp_path, access, has_folder=True).env["OPENCODE_CONFIG_CONTENT"])
    assert wider["permission"]["read"] == {"*": "allow", "mcp:*": "deny", "mcp:duetime:*": "allow"}
    assert next(iter(wider["permission"])) == "*", "what comes later counts"
    assert not {"bash", "edit", "webfetch"} & set(wider["permission"])


@pytest.mark.parametrize(
    ("access", "extension"),
    [
        (HTTP, {"type": "streamable_http", "uri": HTTP.url, "headers": BEARER}),
        (STDIO, {"type": "stdio", "cmd": "/opt/duetime", "args": ["mcp", "--db", "my db"], "envs": dict(STDIO.env)}),
    ],
    ids=["http", "stdio"],
)
def test_goose_reads_a_recipe_in_which_the_prompt_is_no_template(
    tmp_path: Path, access: Access, extension: dict[str, Any]
) -> None:
    invocation = prepared("goose", tmp_path, access)
    assert invocation.flags[:2] == ("run", f"--recipe={tmp_path}/recipe.json")
    recipe = read_file(tmp_path, "recipe.json")
    assert recipe["extensions"] == [{**extension, "name": "duetime", "description": "Duetime", "timeout": 300}]
    braces = recipe["prompt"].replace("{{ '{' }}", "")
    assert "{" not in braces and recipe["prompt"].replace("{{ '{' }}", "{") == PROMPT


# -- the gateway, and the web -------------------------------------------------------------------------------------

GATEWAY = Access("http://127.0.0.1:9876/mcp", "the-token-of-the-gateway")


def with_tools(name: str, folder: Path) -> Invocation:
    servers = {"duetime": HTTP, "tools": GATEWAY}
    return PRESETS[name].prepare(PresetInput(PROMPT, servers, folder, "", False, {}, True))


@pytest.mark.parametrize("name", PRESETS)
def test_no_argument_holds_the_gateways_token(name: str, tmp_path: Path) -> None:
    assert "the-token" not in " ".join(with_tools(name, tmp_path).flags)


def test_claude_with_tools(tmp_path: Path) -> None:
    flags = with_tools("claude", tmp_path).flags
    assert "--tools=WebFetch,WebSearch" in flags
    assert "--allowedTools=mcp__duetime__*,mcp__tools__*,WebFetch,WebSearch" in flags
    servers = read_file(tmp_path, "mcp.json")["mcpServers"]
    assert servers["tools"]["headers"] == {"Authorization": "Bearer the-token-of-the-gateway"}


def test_codex_with_tools(tmp_path: Path) -> None:
    invocation = with_tools("codex", tmp_path)
    settings = codex_settings(invocation)
    assert settings["web_search"] == "live" and settings["mcp_servers"]["tools"]["url"] == GATEWAY.url
    variable = settings["mcp_servers"]["tools"]["bearer_token_env_var"]
    assert invocation.env == {"DUETIME_TOKEN": "the-token-of-this-run", variable: "the-token-of-the-gateway"}


def test_gemini_with_tools(tmp_path: Path) -> None:
    flags = with_tools("gemini", tmp_path).flags
    assert {"--allowed-mcp-server-names=duetime", "--allowed-mcp-server-names=tools"} <= set(flags)
    settings = read_file(tmp_path, "gemini/.gemini/settings.json")
    web = ["google_web_search", "web_fetch"]
    assert settings["tools"] == {"core": ["mcp_duetime_*", "mcp_tools_*", *web], "allowed": web}
    assert settings["mcpServers"]["tools"]["trust"] is True


def test_opencode_with_tools(tmp_path: Path) -> None:
    settings = json.loads(with_tools("opencode", tmp_path).env["OPENCODE_CONFIG_CONTENT"])
    own = {"duetime_*": "allow", "tools_*": "allow"}
    assert settings["permission"] == {"*": "deny", "webfetch": "allow", "websearch": "allow", **own}
    assert set(settings["mcp"]) == {"duetime", "tools"}


def test_goose_with_tools(tmp_path: Path) -> None:
    with_tools("goose", tmp_path)
    assert [each["name"] for each in read_file(tmp_path, "recipe.json")["extensions"]] == ["duetime", "tools"]
    assert not PRESETS["goose"].has_web, "the gateway has a tool for it"


# -- what they say ------------------------------------------------------------------------------------------------

CALL = {"prompt": "water the plants", "at": "2031-02-10 3:00 PM"}
SAID = "Scheduled task #1 for Feb 10, 2031 3:00 PM UTC."
CALLED = {"name": "schedule", "arguments": CALL, "result": SAID}


def claude(content: list[Any], who: str = "assistant") -> dict[str, Any]:
    return {"type": who, "message": {"role": who, "content": content}}


def claude_result(**changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 150, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 20, "output_tokens": 20}
    said = {"result": "All is scheduled.", "is_error": False, "num_turns": 2, "permission_denials": []}
    return {"type": "result", "subtype": "success", "usage": usage, "total_cost_usd": 0.0012, **said, **changes}


def codex(type_: str, **item: Any) -> dict[str, Any]:
    return {"type": type_, "item": {"id": "item_1", **item}}


def goose(role: str, **part: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": [part]}}


STREAMS: dict[str, list[dict[str, Any]]] = {
    "claude": [
        {"type": "system", "subtype": "init", "tools": []},
        claude([{"type": "tool_use", "id": "c1", "name": "mcp__duetime__schedule", "input": CALL}]),
        claude([{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": SAID}]}], "user"),
        claude([{"type": "text", "text": "All is scheduled."}]),
        claude_result(),
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "x"},
        codex("item.completed", type="error", message="Model metadata not found. Defaulting to fallback metadata."),
        {"type": "turn.started"},
        {"type": "error", "message": "Reconnecting... 1/5"},
        codex("item.started", type="mcp_tool_call", server="duetime", tool="schedule", arguments=CALL),
        codex(
            "item.completed",
            type="mcp_tool_call",
            tool="schedule",
            result={"content": [{"type": "text", "text": SAID}]},
            status="completed",
        ),
        codex("item.completed", type="agent_message", text="All is scheduled."),
        {"type": "turn.completed", "usage": {"input_tokens": 200, "cached_input_tokens": 50, "output_tokens": 20}},
    ],
    "gemini": [
        {"type": "init", "model": "gemini-2.5-pro"},
        {"type": "message", "role": "user", "content": "--help do it"},
        {"type": "message", "role": "assistant", "content": "Let me see.", "delta": True},
        {"type": "tool_use", "tool_name": "mcp_duetime_schedule", "tool_id": "t1", "parameters": CALL},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": SAID},
        {"type": "message", "role": "assistant", "content": "All ", "delta": True},
        {"type": "message", "role": "assistant", "content": "is scheduled.", "delta": True},
        {"type": "result", "status": "success", "stats": {"input_tokens": 200, "output_tokens": 20, "tool_calls": 1}},
    ],
    "opencode": [
        {"type": "step_start", "part": {"type": "step-start"}},
        {
            "type": "tool_use",
            "part": {
                "tool": "duetime_schedule",
                "callID": "c1",
                "state": {"status": "completed", "input": CALL, "output": SAID},
            },
        },
        {
            "type": "step_finish",
            "part": {
                "reason": "tool-calls",
                "tokens": {"input": 90, "output": 10, "cache": {"read": 10}},
                "cost": 0.25,
            },
        },
        {"type": "step_start", "part": {"type": "step-start"}},
        {"type": "text", "part": {"text": "All is scheduled."}},
        {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 100, "output": 10}, "cost": 0.25}},
    ],
    "goose": [
        goose(
            "assistant",
            type="toolRequest",
            id="c1",
            toolCall={"status": "success", "value": {"name": "duetime__schedule", "arguments": CALL}},
        ),
        goose(
            "user",
            type="toolResponse",
            id="c1",
            toolResult={"status": "success", "value": {"content": [{"type": "text", "text": SAID}], "isError": False}},
        ),
        goose("assistant", type="text", text="All "),
        goose("assistant", type="text", text="is scheduled."),
        {"type": "complete", "input_tokens": 200, "output_tokens": 20, "cost_usd": 0.0007},
    ],
}
DOLLARS = {"claude": 0.0012, "opencode": 0.5, "goose": 0.0007}


def played(name: str, folder: Path, events: list[Any], *, code: int = 0, error: str = "") -> AgentReply:
    """A program of that name that says this."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in events]
    (folder / "lines").write_text("".join(line + "\n" for line in lines))
    told = f"import sys; sys.stdin.read(); print(open({str(folder / 'lines')!r}).read())"
    script = f"{told}; sys.stderr.write({error!r}); sys.exit({code})"
    program = executable(folder, script, name)
    return command_agent(name, preset=name, command=[program], environment=with_environment(), limits=QUICK).wake(
        agent_request()
    )


def test_every_preset_is_understood() -> None:
    assert set(STREAMS) == set(PRESETS)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_becomes_a_reply(name: str, tmp_path: Path) -> None:
    reply = succeeded(played(name, tmp_path, ["some chatter", *STREAMS[name]]))
    assert (reply.text, reply.tool_calls) == ("All is scheduled.", [CALLED])
    assert (reply.denied, reply.exit_code) == ([], 0)
    assert reply.spent == Spent(200, 20, DOLLARS.get(name, 0.0))


@pytest.mark.parametrize("name", STREAMS)
def test_a_program_is_found_by_the_name_of_its_preset(name: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(json.dumps(event) for event in STREAMS[name]))
    executable(tmp_path, f"import sys; sys.stdin.read(); print(open({str(tmp_path / 'lines')!r}).read())", name)
    woken = command_agent(name, preset=name, environment={"PATH": str(tmp_path)}, limits=QUICK)
    assert succeeded(woken.wake(agent_request())).text == "All is scheduled."


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(
    "said", ["", "Usage: agent [options]", '{"type": "unknown"}', '["x"]', '{"type": "res', "[" * 99_999]
)
def test_what_is_no_answer_is_a_failure(name: str, said: str, tmp_path: Path) -> None:
    reply = played(name, tmp_path, [said])
    assert f"{name} did not answer in the form that its preset asks for; try its latest version" in failed(reply)
    assert "Usage" not in said or "Usage: agent" in failed(reply)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_off_is_a_failure_that_tells_what_was_done(name: str, tmp_path: Path) -> None:
    reply = played(name, tmp_path, STREAMS[name][:-1], code=1, error="out of memory\n")
    assert failed(reply) == f"{name} ended with exit code 1: out of memory" and reply.exit_code == 1
    assert reply.tool_calls == [CALLED]


def test_a_denied_tool_is_no_success(tmp_path: Path) -> None:
    denials = [{"tool_name": "Bash", "tool_input": {}}, {"tool_name": "Write"}, {"tool_name": "Bash"}]
    reply = played("claude", tmp_path, [claude_result(permission_denials=denials)])
    assert reply.denied == ["Bash", "Write"]
    assert failed(reply) == "it was not allowed to use Bash, Write; allow it, or word the prompt otherwise"
    declined = [codex("item.started", type="command_execution", command="ls"), *STREAMS["codex"]]
    declined[1:1] = [codex("item.completed", type="command_execution", status="declined", aggregated_output="")]
    assert played("codex", tmp_path, declined).denied == ["shell"]
    state = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    refused = [{"type": "tool_use", "part": {"tool": "bash", "callID": "c0", "state": state}}, *STREAMS["opencode"]]
    assert played("opencode", tmp_path, refused).denied == ["bash"]


OUTSIDE = 'Path not in workspace: Attempted path "/etc/hostname" resolves outside the allowed workspace directories: /w'


@pytest.mark.parametrize(
    ("trouble", "denied"),
    [
        ({"type": "invalid_tool_params", "message": OUTSIDE}, ["read_file"]),
        ({"type": "path_not_in_workspace", "message": "outside"}, ["read_file"]),
        ({"type": "policy_violation", "message": "Tool execution denied by policy."}, ["read_file"]),
        ({"type": "file_not_found", "message": "File not found: Path not in workspace"}, []),
    ],
)
def test_a_place_that_gemini_may_not_see_is_a_denied_tool(
    trouble: dict[str, str], denied: list[str], tmp_path: Path
) -> None:
    asked = {
        "type": "tool_use",
        "tool_name": "read_file",
        "tool_id": "t0",
        "parameters": {"file_path": "/etc/hostname"},
    }
    refused = {"type": "tool_result", "tool_id": "t0", "status": "error", "output": "", "error": trouble}
    reply = played("gemini", tmp_path, [asked, refused, *STREAMS["gemini"]])
    assert reply.denied == denied and (reply.error is None) == (not denied)
    assert reply.tool_calls[0]["failed"] is True


@pytest.mark.parametrize(
    ("name", "event", "words"),
    [
        (
            "claude",
            claude_result(is_error=True, result="API Error: 401 bad key"),
            "claude failed: API Error: 401 bad key",
        ),
        ("claude", claude_result(is_error=True, result=None, subtype="error_max_turns"), "error_max_turns"),
        ("claude", claude_result(is_error=True, result="", errors=["no money"]), "no money"),
        ("codex", {"type": "turn.failed", "error": {"message": "401 bad key"}}, "codex failed: 401 bad key"),
        ("codex", {"type": "error", "message": "401 bad key"}, "codex failed: 401 bad key"),
        ("gemini", {"type": "result", "status": "error", "error": {"message": "401 bad key"}}, "401 bad key"),
        ("opencode", {"type": "error", "error": {"name": "APIError", "data": {"message": "bad key"}}}, "bad key"),
        ("opencode", {"type": "error", "error": {"name": "APIError"}}, "APIError"),
        ("goose", goose("assistant", type="error", kind="authentication", message="bad key"), "goose failed: bad key"),
        ("goose", goose("assistant", type="text", text="Ran into this error: bad key"), "goose failed: bad key"),
        ("goose", {"type": "error", "error": "bad key"}, "goose failed: bad key"),
    ],
)
def test_what_a_program_says_went_wrong(name: str, event: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Some of them end with code 0 all the same."""
    for code in (0, 1):
        assert words in failed(played(name, tmp_path, [event], code=code))


def test_a_model_may_talk_of_errors(tmp_path: Path) -> None:
    """Only where no model was asked are these goose's own words."""
    said = goose("assistant", type="text", text="Ran into this error: none. All is well.")
    said["message"]["metadata"] = {"inference": {"provider": "openai"}}
    assert succeeded(played("goose", tmp_path, [said, STREAMS["goose"][-1]])).text.endswith("All is well.")


def test_a_tool_that_failed_is_marked_and_the_run_goes_on(tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "no such task", "is_error": True}
    stream = [STREAMS["claude"][1], claude([result], "user"), claude_result()]
    [call] = succeeded(played("claude", tmp_path, stream)).tool_calls
    assert (call["result"], call["failed"]) == ("no such task", True)


NONSENSE: list[Any] = [None, 1, "x", [], [None], {}, {"type": None}, {"value": []}, [{"type": "text", "text": 1}]]


@pytest.mark.parametrize("name", STREAMS)
def test_events_of_any_shape_do_no_harm(name: str) -> None:
    """A later version may say the same in another way."""

    def bent(value: Any, instead: Any) -> list[Any]:
        """The value with one of its parts replaced, for each of its parts."""
        if isinstance(value, dict):
            return [{**value, key: other} for key in value for other in [instead, *bent(value[key], instead)]]
        if isinstance(value, list) and value:
            return [[other, *value[1:]] for other in [instead, *bent(value[0], instead)]]
        return []

    for event in STREAMS[name]:
        for instead in NONSENSE:
            for changed in bent(event, instead):
                reader = EventReader(PRESETS[name].read)
                reader.take(json.dumps(changed).encode() + b"\n")
                assert reader.transcript.spent.tokens >= 0


def test_a_long_run_is_kept_in_bounds() -> None:
    reader = EventReader(PRESETS["claude"].read)
    for number in range(300):
        call = {"type": "tool_use", "id": f"c{number}", "name": f"tool_{number}", "input": {"text": "x" * 5000}}
        reader.take(json.dumps(claude([call])).encode() + b"\n")
    reader.take(b"x" * 10_000_000 + b"\n" + json.dumps(claude_result()).encode())
    reader.finish()
    reply = to_reply(reader.transcript, None, Secrets("", {}))
    shown = reply.tool_calls
    assert [shown[0]["name"], shown[-1]["name"]] == ["tool_200", "tool_299"] and reply.earlier_calls == 200
    assert len(shown[-1]["arguments"]) == 1000 and reader.transcript.ended


def test_of_many_calls_in_one_document_the_last_are_kept() -> None:
    transcript = Transcript()
    read_answer(transcript, json.dumps({"text": "Done.", "tool_calls": [{"name": f"tool_{n}"} for n in range(130)]}))
    assert [call["name"] for call in transcript.view()] == [f"tool_{n}" for n in range(30, 130)]
    assert transcript.earlier_calls == 30
