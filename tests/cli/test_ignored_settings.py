"""Where a folder's settings are not trusted, what reads goes on without them, and what writes stops."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main

from duetime.api import Duetime
from duetime.cli.main import main
from duetime.cli.root import command
from duetime.engine.errors import DuetimeError
from duetime.settings.locations import TrustedFiles
from tests.support.cli import Answer, Cli, Output, environment, start
from tests.support.settings import write_trusted
from tests.support.terminal import on_terminal

ADD = ("notify", "add", "probe", "--at", "2031-02-10 09:00", "--topic", "inbox")
NEVER = "duetime.toml is not trusted, so nothing was done; look at it, then run `duetime trust` in its folder to use it"
CHANGED = NEVER.replace("is not trusted", "has changed since it was trusted")
NAMED = "or name what you mean with --config FILE or --db URL"
READERS = {
    "hook list",
    "attention list",
    "completion", "config get", "config path", "config show", "db status", "dead list", "dead show", "doctor",
    "explain", "help", "inbox (action=list)", "history", "job tasks", "list", "logs", "mcp", "next", "open",
    "runs list", "runs show", "service status", "show", "status", "tail", "token header", "token list", "token show",
    "top (once=True)", "upcoming",
    *(f"{kind} {name}" for kind in ("job", "prompt", "notify", "request") for name in ("history", "list", "show")),
}  # fmt: skip
Bare = Callable[..., Answer]


@pytest.fixture
def bare(cli: Cli, capsys: pytest.CaptureFixture[str]) -> Bare:
    """The command line without a store that is named."""

    def call(*arguments: str) -> Answer:
        code = main(arguments)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "duetime.toml").write_text('db = "shop.db"\n')
    return tmp_path


def personal(folder: Path) -> Path:
    return folder / "data" / "duetime" / "duetime.db"


def change(folder: Path) -> None:
    """Change a file that was trusted."""
    write_trusted(folder, 'db = "shop.db"\n')
    (folder / "duetime.toml").write_text('db = "shop.db"\nthreads = 3\n')


# -- without a terminal ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ADD,
        ("job", "add", "x", "--task", "echo", "--every", "1h"),
        ("change", "pause", "--all"),
        ("inbox", "read", "--all"),
        ("db", "migrate"),
        ("backup", "copy.db"),
        ("token", "issue", "--email", "ada@example.org"),
        ("config", "set", "threads", "4"),
        ("connect", "claude-code", "--print"),
        ("service", "install", "--dry-run"),
        ("import", "jsonl", "/dev/null", "--yes"),
        ("worker",),
        ("serve", "--port", "0"),
    ],
)
def test_what_writes_stops_and_says_what_to_do(bare: Bare, folder: Path, arguments: tuple[str, ...]) -> None:
    for sentence in (NEVER, CHANGED):
        answer = bare(*arguments)
        assert (answer.code, answer.out) == (4, ""), answer
        assert f"{folder}/{sentence}, {NAMED}" in answer.err
        change(folder)
    assert not personal(folder).exists() and not (folder / "shop.db").exists()


def test_a_program_reads_why(bare: Bare, folder: Path) -> None:
    answer = bare(*ADD, "--json")
    assert answer.code == 4 and NEVER in answer.document["error"]["message"]


@pytest.mark.parametrize("arguments", [("list",), ("status",), ("inbox",), ("notify", "list"), ("config", "show")])
def test_what_reads_goes_on_without_it(bare: Bare, folder: Path, arguments: tuple[str, ...]) -> None:
    answer = bare(*arguments)
    assert answer.code == 0 and "is not trusted, so it is ignored" in answer.err
    change(folder)
    answer = bare(*arguments)
    assert answer.code == 0 and CHANGED.partition(", so")[0] in answer.err


def test_whoever_names_a_store_or_a_file_means_it(bare: Bare, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare(*ADD, "--db", "other.db").code == 0
    assert bare(*ADD, "--config", "duetime.toml").code == 0
    monkeypatch.setenv("DUETIME_DB", "third.db")
    assert bare(*ADD).code == 0
    assert all((folder / name).exists() for name in ("other.db", "shop.db", "third.db"))
    assert not personal(folder).exists()


def test_a_file_that_cannot_be_trusted_stops_writers_too(bare: Bare, folder: Path) -> None:
    (folder / "duetime.toml").chmod(0o666)
    answer = bare(*ADD)
    assert answer.code == 4
    expected = "can be changed by every user of this machine, so nothing was done; name what you mean with --config"
    assert expected in answer.err


def test_a_python_program_does_not_write_into_another_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.chdir(folder)
    with pytest.raises(DuetimeError, match="is not trusted, so nothing was done"):
        Duetime()
    assert not personal(folder).exists()
    Duetime("own.db").close()


def test_a_command_writes_unless_it_says_that_it_reads() -> None:
    found = set(_readers(command(), ""))
    assert found == READERS


def _readers(group: Any, path: str) -> Iterator[str]:
    context = typer.Context(group)
    for name in dict.fromkeys([*group.list_commands(context), *group.commands]):
        each = group.get_command(context, name)
        if hasattr(each, "list_commands"):
            yield from _readers(each, f"{path}{name} ")
        elif (reads_if := each.declared.reads_if) is not None:
            values = ", ".join(f"{key}={value}" for key, value in reads_if.items())
            yield f"{path}{name}" + (f" ({values})" if values else "")


# -- on a terminal --------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_person_sees_what_has_changed_and_is_asked(folder: Path) -> None:
    change(folder)
    with on_terminal(*ADD, folder=folder, columns=200) as terminal:
        terminal.until("has changed since you trusted it:")
        shown = terminal.until("Trust it as it is now? [y/N]")
        assert ' db = "shop.db"\n+threads = 3\n' in shown
        terminal.type("n\n")
        assert CHANGED in " ".join(terminal.rest().split()) and terminal.process.returncode == 4
    with on_terminal(*ADD, folder=folder, columns=200) as terminal:
        terminal.until("Trust it as it is now? [y/N]")
        terminal.type("y\n")
        assert "Added n1" in terminal.rest() and terminal.process.returncode == 0
    assert (folder / "shop.db").exists() and not personal(folder).exists()
    with on_terminal("list", folder=folder, columns=200) as terminal:
        assert "probe" in terminal.rest() and "trust" not in terminal.text


@pytest.mark.process
def test_a_file_that_was_never_trusted_is_not_asked_about(folder: Path) -> None:
    with on_terminal(*ADD, folder=folder, columns=200) as terminal:
        assert NEVER in " ".join(terminal.rest().split()) and terminal.process.returncode == 4


def test_trust_shows_the_content_and_later_the_difference(bare: Bare, folder: Path) -> None:
    answer = bare("trust")
    assert answer.out.startswith('db = "shop.db"\n\n') and "is now trusted." in answer.out
    (folder / "duetime.toml").write_text('db = "shop.db"\ntasks = ["x\x1b[2K.py"]\n')
    (folder / "duetime.toml").write_text('db = "shop.db"\n# \u202ehidden\ntasks = ["x.py"]\n')
    answer = bare("trust")
    assert '+tasks = ["x.py"]\n' in answer.out and "\u202e" not in answer.out
    assert bare("trust").out.startswith("Nothing in it has changed.\n")
    [record] = (folder / "data" / "duetime" / "trusted").iterdir()
    assert record.stat().st_mode & 0o077 == 0, "the copy may hold secrets"


def test_a_record_of_an_earlier_version_shows_the_whole_file(bare: Bare, folder: Path) -> None:
    assert bare("trust").code == 0
    [record] = (folder / "data" / "duetime" / "trusted").iterdir()
    kept = json.loads(record.read_text())
    record.write_text(json.dumps({name: kept[name] for name in ("path", "sha256")}))
    assert bare("list").err == "", "it is still trusted"
    assert bare("trust").out.startswith('db = "shop.db"\n')
    [trusted] = TrustedFiles(folder / "data" / "duetime").all()
    assert trusted.text == 'db = "shop.db"\n'


# -- servers --------------------------------------------------------------------------------------------------------


class Session:
    """An editor's connection to `duetime mcp`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._output, self._number = process, Output(process), 0
        client = {"name": "editor", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        number = self._number
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        )
        self._process.stdin.flush()
        return json.loads(self._output.until(lambda line: json.loads(line).get("id") == number))["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})


@contextmanager
def editing(folder: Path) -> Iterator[Session]:
    with subprocess.Popen(
        [sys.executable, "-m", "duetime", "mcp"],
        cwd=folder, env=environment() | {"XDG_DATA_HOME": str(folder / "data")}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Session(process)
        finally:
            process.kill()


@pytest.mark.later
@pytest.mark.process
def test_an_editors_server_ignores_a_file_that_was_planted(folder: Path) -> None:
    with editing(folder) as session:
        answer = session.call("schedule", prompt="Look.", at="2031-02-10 9:00 AM")
        assert "fire_at" in answer["structuredContent"], answer
    assert personal(folder).exists() and not (folder / "shop.db").exists()


@pytest.mark.later
@pytest.mark.process
def test_an_editors_server_only_reads_where_the_file_has_changed(folder: Path) -> None:
    change(folder)
    with editing(folder) as session:
        tools = session.ask("tools/list", {})["tools"]
        writing = [tool["name"] for tool in tools if not tool["annotations"].get("readOnlyHint")]
        assert {"schedule", "schedule_job", "edit_schedule", "take_prompt", "run_now"} <= set(writing)
        for name in writing:
            answer = session.call(name)
            assert answer["isError"] and CHANGED in answer["content"][0]["text"], answer
        assert session.call("list_upcoming")["structuredContent"]["upcoming"] == []


@pytest.mark.process
@pytest.mark.parametrize("arguments", [("worker",), ("serve", "--port", "0")])
def test_a_server_does_not_start(folder: Path, arguments: tuple[str, ...]) -> None:
    with start(*arguments, folder=folder) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 4 and NEVER in err
