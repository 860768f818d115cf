"""`duetime connect`: the entry in each client's file, and what happens to everything else in it."""

from __future__ import annotations

import json
import random
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from duetime.cli.setup import json_edit, toml_edit
from duetime.cli.setup.json_edit import UnreadableFile
from duetime.service.client_configs import CLIENTS, Machine
from duetime.settings.own_commands import this_program
from tests.support.cli import Cli

FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
}
ENTRY = {"command": "/x", "args": ["a", "b"]}
OTHERS = """\
{
  // servers of mine
  "mcpServers": {
    "other": { "command": "o" }, // keep
    /* and
       this */
  },
  "theme": "dark",
}
"""
TOML = 'model = "m" # mine\n\n[mcp_servers.other]\ncommand = "o"\n\n# last words\n[tui]\nx = 1\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCODE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield folder


def entry_in(name: str, text: str) -> Any:
    document = tomllib.loads(text) if CLIENTS[name].toml else json.loads(text)
    return document.get(CLIENTS[name].table, {}).get("duetime")


@pytest.mark.parametrize("name", CLIENTS)
def test_each_client_gets_an_absolute_program_and_settings_file(cli: Cli, home: Path, name: str) -> None:
    path = home / FILES[name]
    answer = cli("connect", name, "--yes", "--json")
    assert answer.document == {
        "client": name, "file": str(path), "connected": True, "changed": True, "backup": None, "warnings": []
    }  # fmt: skip
    entry = entry_in(name, path.read_text())
    command = entry["command"] if name == "opencode" else [entry["command"], *entry["args"]]
    settings = home / ".config" / "duetime" / "duetime.toml"
    assert command[:5] == [sys.executable, "-P", "-m", "duetime", "mcp"]
    assert command[command.index("--config") + 1] == str(settings) and settings.exists()
    store = Path(command[command.index("--db") + 1])
    assert store.is_absolute() and store.parent.is_dir()
    written = path.read_bytes()
    assert "is connected already" in cli("connect", name).out
    assert path.read_bytes() == written
    assert entry_in(name, cli("connect", name, "--print").out) == entry
    removed = cli("connect", name, "--remove", "--yes")
    assert "is no longer connected" in removed.out and entry_in(name, path.read_text()) is None
    assert path.with_name(f"{path.name}.duetime-backup").read_bytes() == written
    assert "is not connected" in cli("connect", name, "--remove").out


def test_the_change_is_shown_first_and_made_only_after_a_yes(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n    "other": {"env": {"TOKEN": "x"}}\n  }\n}\n')
    before = path.read_bytes()
    refused = cli("connect", "cursor")
    assert refused.code == 2 and "--yes" in refused.err
    assert '+    "duetime": {' in refused.out and path.read_bytes() == before
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda words: "n")
    assert "Nothing was changed." in cli("connect", "cursor").out and path.read_bytes() == before
    monkeypatch.setattr("builtins.input", lambda words: "y")
    assert cli("connect", "cursor").code == 0 and path.read_bytes() != before
    assert cli("connect", "cursor", "--json").code == 2
    assert not list(home.glob(".config/duetime/*.new"))


@pytest.mark.parametrize("name", ["zed", "codex"])
def test_comments_other_servers_links_and_modes_stay(cli: Cli, home: Path, name: str) -> None:
    before = (TOML if name == "codex" else OTHERS.replace("mcpServers", "context_servers")).replace("\n", "\r\n")
    real, path = home / "dotfiles", home / FILES[name]
    real.write_bytes(before.encode())
    real.chmod(0o640)
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    assert cli("connect", name, "--yes").code == 0
    after = real.read_bytes().decode()
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    kept = iter(after.splitlines())
    assert all(line in kept for line in before.splitlines()), "every line is there, in its order"
    assert cli("connect", name, "--remove", "--yes").code == 0
    assert real.read_bytes() == before.encode()


def test_a_file_that_cannot_be_changed_stays_and_the_error_says_what_to_do(cli: Cli, home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    for content, said in (
        (b'{"mcpServers": {', "line 1, column 17: expecting property name"),
        (b'{\n  "a": 1\n  "b": 2}', "line 3, column 3: expecting ',' delimiter"),
        (b'{"a": [,]}', "line 1, column 8: expecting value"),
        (b'{"mcpServers": []}', "mcpServers is not an object"),
        (b'{"mcpServers": {}, "mcpServers": {}}', "it has 'mcpServers' twice"),
        ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
    ):
        path.write_bytes(content)
        answer = cli("connect", "cursor", "--yes")
        assert answer.code == 2 and said in answer.err and str(path) in answer.err
        assert path.read_bytes() == content and [each.name for each in path.parent.iterdir()] == ["mcp.json"]
    assert {each["client"]: each["state"] for each in cli("connect", "--json").document}["cursor"] == "cannot be read"
    path.write_text("{}")
    path.chmod(0o400)
    answer = cli("connect", "cursor", "--yes")
    assert answer.code == 2 and "is read-only" in answer.err and path.read_text() == "{}"
    assert not (home / ".config" / "duetime").exists()


def test_a_password_and_variables_of_this_shell_are_not_forgotten(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = cli("connect", "cursor", "--yes", "--db", "postgresql://me:canary@127.0.0.1:1/db")
    assert answer.code == 2 and "config set db" in answer.err and "canary" not in answer.out + answer.err
    assert not (home / ".cursor").exists()
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")
    answer = cli("connect", "cursor", "--yes", "--file", "here.json")
    assert "DUETIME_TIMEZONE" in answer.err and Path("here.json").exists()
    assert "Unknown client 'emacs'" in cli("connect", "emacs").err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "s": {"d": {"command": "/x", "args": ["a", "b"]}}}'),
        ('{"s": {"d": {"url": "u", "env": {}}}}', '{"s": {"d": { "env": {}, "command": "/x", "args": ["a", "b"]}}}'),
        ('{"s": {"d": {"command": "/x", "args": ["a", "b"], "off": true}}}', None),
        ('// only this\n', '// only this\n{\n  "s": {\n    "d": {'),
        ('{\n\t"s": {\n\t\t"d": {\n\t\t\t"command": "old", // why\n\t\t}\n\t}\n}',
         '{\n\t"s": {\n\t\t"d": {\n\t\t\t"command": "/x", // why\n\t\t\t"args": ['),
    ],
)  # fmt: skip
def test_json_is_changed_as_text(before: str, after: str | None) -> None:
    made = json_edit.with_entry(before, ("s", "d"), ENTRY, ("url",))
    assert made.startswith(after if after is not None else before)
    assert json_edit.with_entry(made, ("s", "d"), ENTRY, ("url",)) == made
    node = json_edit.parse(json_edit.without_entry(made, ("s", "d")))
    assert node is not None and node.value["s"] == {}


def test_comments_anywhere_stay_or_the_change_is_refused() -> None:
    entries: list[Any] = [
        {},
        {"d": {"url": "u", "env": {"A": "b"}}},
        {"o": {"x": 1}, "d": {"args": []}, "z": 2},
        {"d": 1},
    ]
    for seed in range(400):
        chosen = random.Random(seed)
        document = {"a": [1, {}], "s": chosen.choice(entries), "b": "// no"}
        if chosen.random() < 0.2:
            del document["s"]
        plain = json.dumps(document, indent=chosen.choice([None, 2, "\t"]))
        notes = [f" // {number} }},{{\n" if number % 2 else f"/* {number} */" for number in range(4)]
        parts = re.split(r"((?<=[{}\[\],])(?=[\s}\]]))", plain)
        text = "".join(part or chosen.choice([*notes, *[""] * 8]) for part in parts)
        try:
            made = json_edit.with_entry(text, ("s", "d"), ENTRY, ("url",))
        except UnreadableFile as error:
            assert "comments inside" in str(error)
            continue
        kept = [note.strip() for note in notes if note in text]
        assert all(note in made for note in kept) and json_edit.with_entry(made, ("s", "d"), ENTRY) == made
        node = json_edit.parse(json_edit.without_entry(made, ("s", "d")))
        others = {name: value for name, value in document.get("s", {}).items() if name != "d"}
        assert node is not None and node.value == {**document, "s": others}


def test_what_would_lose_a_comment_is_refused() -> None:
    with pytest.raises(UnreadableFile, match="comments inside"):
        json_edit.with_entry('{"s": {"d": {"args": ["a" // mine\n]}}}', ("s", "d"), ENTRY)
    for text in ('[s.d]\nargs = [\n  "a", # mine\n]\n', "s = {}\n", "s = 1\n", "[s\n"):
        with pytest.raises(UnreadableFile):
            toml_edit.with_entry(text, ("s", "d"), ENTRY)
    hidden = 'x = """\n[s.d]\n"""\n\n[s.d]\ncommand = "o"\n'
    with pytest.raises(UnreadableFile):
        toml_edit.without_entry(hidden, ("s", "d"))
    nested = '[s.d]\nurl = "u"\nenv = {A = "b"}\n\n[s.d.x]\na = 1\n\n# next\n[s.e]\ncommand = "q"\n'
    made = toml_edit.with_entry(nested, ("s", "d"), ENTRY, ("url",))
    assert tomllib.loads(made)["s"]["d"] == {**ENTRY, "env": {"A": "b"}, "x": {"a": 1}}
    assert toml_edit.without_entry(made, ("s", "d")) == '\n# next\n[s.e]\ncommand = "q"\n'


def test_each_platform_has_its_own_places() -> None:
    mac = Machine(PurePosixPath("/Users/ada"), "darwin", {})
    windows = Machine(PureWindowsPath("C:/Users/ada"), "win32", {"APPDATA": "C:\\Users\\ada\\AppData\\Roaming"})
    linux = Machine(PurePosixPath("/home/ada"), "linux", {"CODEX_HOME": "/srv/codex", "XDG_CONFIG_HOME": "/cfg"})
    assert str(CLIENTS["claude-desktop"].files(mac)[0]).startswith("/Users/ada/Library/Application Support/Claude/")
    assert str(CLIENTS["vscode"].files(windows)[0]) == "C:\\Users\\ada\\AppData\\Roaming\\Code\\User\\mcp.json"
    assert str(CLIENTS["zed"].files(windows)[0]) == "C:\\Users\\ada\\AppData\\Roaming\\Zed\\settings.json"
    assert str(CLIENTS["codex"].files(linux)[0]) == "/srv/codex/config.toml"
    assert str(CLIENTS["opencode"].files(linux)[0]) == "/cfg/opencode/opencode.json"


def test_uvx_is_named_by_its_package_because_its_environment_does_not_last() -> None:
    started = this_program("/c/bin/python", {"UV": "/opt/uv"}, "/home/ada/.cache/uv/archive-v0/x")
    assert started[:4] == ["/opt/uv", "tool", "run", "--from"] and started[-1] == "duetime"
    assert started[4].startswith("duetime[")
    assert this_program("/v/bin/python", {"UV": "/opt/uv"}, "/v")[:2] == ["/v/bin/python", "-P"]
