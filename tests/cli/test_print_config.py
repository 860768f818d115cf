"""What `duetime serve` prints for each client."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from duetime.service.client_configs import CLIENTS, Reach, instructions
from tests.support.cli import Cli, environment

URL = "http://127.0.0.1:8765/mcp"
HEADER = ["/opt/my python/bin/python", "-m", "duetime", "token", "header"]
REACH = Reach(URL, "a.b.c", ["/opt/my python/bin/python", "-m", "duetime", "mcp"], HEADER)
JSON = ("claude-desktop", "cursor", "vscode", "gemini", "opencode", "windsurf", "zed")


def entry(document: Any) -> Any:
    (servers,) = document.values()
    return servers["duetime"]


@pytest.mark.parametrize("name", CLIENTS)
def test_one_configuration_alone_can_be_printed(cli: Cli, name: str, tmp_path: Path) -> None:
    answer = cli("serve", "--print-config", name)
    assert answer.code == 0
    token = (tmp_path / "data" / "duetime" / "auth" / "local.token").read_text().strip()
    assert (f"Bearer {token}" in answer.out) == (name != "claude-code"), "a command line stays in the shell's history"
    assert URL in answer.out
    if name in JSON:
        entry(answer.document)


@pytest.mark.parametrize("name", ["cursor", "vscode", "gemini", "opencode", "windsurf", "zed"])
def test_http_carries_the_token_in_a_header(name: str) -> None:
    found = entry(json.loads(CLIENTS[name].http(REACH)))
    assert found["headers"] == {"Authorization": "Bearer a.b.c"}
    assert URL in (found.get("url"), found.get("httpUrl"), found.get("serverUrl"))


def test_claude_code_takes_a_command() -> None:
    *words, document = shlex.split(CLIENTS["claude-code"].http(REACH))
    assert words == ["claude", "mcp", "add-json", "duetime"]
    assert json.loads(document) == {"type": "http", "url": URL, "headersHelper": shlex.join(HEADER)}
    assert shlex.split(CLIENTS["claude-code"].stdio(REACH))[-5:] == ["--", *REACH.command]


def test_claude_desktop_keeps_the_blank_out_of_the_arguments() -> None:
    found = entry(json.loads(CLIENTS["claude-desktop"].http(REACH)))
    assert found["env"] == {"DUETIME_AUTHORIZATION": "Bearer a.b.c"}
    assert not any(" " in argument for argument in found["args"])


def test_claude_desktop_fetches_one_version_of_what_is_handed_the_token() -> None:
    found = entry(json.loads(CLIENTS["claude-desktop"].http(REACH)))
    [package] = [argument for argument in found["args"] if argument.startswith("mcp-remote")]
    assert re.fullmatch(r"mcp-remote@\d+\.\d+\.\d+", package)


@pytest.mark.process
def test_what_claude_code_asks_for_the_header_answers_from_any_folder(cli: Cli, tmp_path: Path) -> None:
    answer = cli("serve", "--print-config", "claude-code")
    token = (tmp_path / "data" / "duetime" / "auth" / "local.token").read_text().strip()
    helper = json.loads(shlex.split(answer.out)[-1])["headersHelper"]
    asked = ["/bin/sh", "-c", helper]
    done = subprocess.run(asked, cwd="/", env=environment(), capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == {"Authorization": f"Bearer {token}"}, done.stderr
    (tmp_path / "data" / "duetime" / "auth" / "local.token").chmod(0o644)
    assert cli("token", "header", "--file", str(tmp_path / "data/duetime/auth/local.token")).code == 1
    assert cli("token", "header", "--file", str(tmp_path / "none")).code == 2


def test_no_command_line_that_is_printed_holds_a_token_or_a_password(cli: Cli, tmp_path: Path) -> None:
    answer = cli("serve", "--print-config", "all", "--db", "postgresql://me:canary@127.0.0.1:1/db")
    assert "canary" not in answer.out
    commands = [line for line in answer.out.splitlines() if line.strip().startswith(("claude ", "codex "))]
    assert commands and not any("Bearer" in line for line in commands)


def test_codex_reads_toml() -> None:
    found = tomllib.loads(CLIENTS["codex"].http(REACH))["mcp_servers"]["duetime"]
    assert found == {"url": URL, "http_headers": {"Authorization": "Bearer a.b.c"}}


@pytest.mark.parametrize("name", CLIENTS)
def test_stdio_takes_one_line(name: str) -> None:
    line = CLIENTS[name].stdio(REACH)
    assert "\n" not in line
    assert "a.b.c" not in line
    if name in JSON:
        found = entry(json.loads(line))
        started = found["command"] if name == "opencode" else [found["command"], *found["args"]]
        assert started == REACH.command


@pytest.mark.parametrize("name", CLIENTS)
def test_without_tokens_none_is_shown(cli: Cli, name: str, tmp_path: Path) -> None:
    answer = cli("serve", "--no-auth", "--print-config", name)
    assert "uthorization" not in answer.out
    assert not (tmp_path / "data").exists()


def test_all_of_them_together() -> None:
    text = instructions(REACH)
    assert all(f"{client.title}: " in text for client in CLIENTS.values())
    assert text.count("a.b.c") == len(CLIENTS) - 1


def test_stdio_works_from_any_folder(cli: Cli, tmp_path: Path) -> None:
    from duetime.settings import Settings
    from duetime.settings.own_commands import stdio_command

    command = stdio_command(Settings(db="my.db", tasks=("mine.py", "package.tasks"), tools=("jobs",)))
    assert command == [
        sys.executable, "-P", "-m", "duetime", "mcp", "--db", str(tmp_path / "my.db"),
        "--tasks", str(tmp_path / "mine.py"), "--tasks", "package.tasks", "--tools", "jobs",
    ]  # fmt: skip
    assert "secret" not in " ".join(stdio_command(Settings(db="postgresql://me:secret@host/db")))
    assert stdio_command(Settings(db=":memory:"))[-2:] == ["--db", ":memory:"], "which is no file"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--print-config", "emacs"), "Unknown client 'emacs'"),
        (("--print-config", "codex", "--port", "0"), "--port"),
    ],
)
def test_what_cannot_be_printed_is_said(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    answer = cli("serve", *arguments)
    assert answer.code == 2
    assert words in answer.err


@pytest.mark.process
def test_the_printed_command_finds_settings_and_task_modules_from_any_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "duetime"
    own.mkdir(parents=True)
    (own / "my_tasks.py").write_text("from duetime.kinds.jobs.registry import task\n@task\ndef mine(): ...\n")
    (own / "duetime.toml").write_text('timezone = "Asia/Tokyo"\ntasks = ["my_tasks"]\n')
    line = next(
        each for each in cli("serve", "--print-config", "all").out.splitlines() if "claude mcp add duetime" in each
    )
    command = shlex.split(line)[shlex.split(line).index("--") + 1 :]
    assert command[command.index("--config") + 1] == str(own / "duetime.toml")
    asked = [
        {"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}},
        {"method": "tools/call", "params": {"name": "list_tasks", "arguments": {}}},
        {"method": "tools/call", "params": {"name": "get_current_time", "arguments": {}}},
    ]
    asked[0]["params"]["clientInfo"] = {"name": "t", "version": "1"}  # type: ignore[index]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **each}) + "\n" for number, each in enumerate(asked)]
    elsewhere = environment() | {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": "/nowhere"}
    with subprocess.Popen(
        command, cwd="/", env=elsewhere, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.writelines(lines)
        process.stdin.flush()
        said = "".join(process.stdout.readline() for _ in lines)
        process.stdin.close()
    assert '"mine"' in said and "Asia/Tokyo" in said
