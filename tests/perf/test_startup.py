"""Commands and the MCP server start quickly. Processor time is measured, and the least of several counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.mcp import ERAS, START_BOUND, measure_starts_on_the_processor
from duetime.cli import command_named
from duetime.cli.main import main
from duetime.terminal.declarations import CommandSet
from tests.support.cli import environment, processor_seconds

HELP_SECONDS = 0.3
COMMAND_SECONDS = 0.2
BARE_PYTHON = 0.015
"""Seconds that an empty program takes on the machine for which these bounds were set; slower ones get more."""


def is_within(bound: float, folder: Path, *command: str) -> bool:
    """Return whether a command takes no longer than its bound, on a machine that may be slower or busy. A virtual
    machine whose host takes its processors away measures that, too, so such tries do not count, up to a number."""
    counted = 0
    for _ in range(64):
        stolen = stolen_seconds()
        bare = min(processor_seconds(folder, "-c", "pass") for _ in range(3))
        if processor_seconds(folder, "-m", "duetime", *command) <= bound * max(1.0, bare / BARE_PYTHON):
            return True
        counted += int(stolen_seconds() - stolen < 0.02)
        if counted == 16:
            break
    return False


def stolen_seconds() -> float:
    """Return the time for which the host gave the processors of this machine to others, as far as the kernel knows."""
    lines = Path("/proc/stat").read_text().splitlines() if Path("/proc/stat").exists() else ["cpu"]
    return float((lines[0].split() + ["0"] * 9)[8]) / 100


def test_help_of_a_command(tmp_path: Path) -> None:
    assert is_within(HELP_SECONDS, tmp_path, "job", "list", "--help")


def modules_of(folder: Path, line: tuple[str, ...]) -> list[str]:
    """Return the modules that a command imports, after the words that it prints."""
    script = f"import sys\nfrom duetime.cli.main import main\nmain({list(line)!r})\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment() | {"DUETIME_DB": "my.db"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


QUICK = (("list",), ("show", "j1"), ("pause", "j1"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one schedule of each of two kinds."""
    monkeypatch.setenv("DUETIME_DB", str(tmp_path / "my.db"))
    for line in ("job add one --task echo --every 1h", "notify add two --every 1h --topic inbox"):
        assert main(line.split()) == 0
    return tmp_path


@pytest.mark.parametrize("line", QUICK, ids=" ".join)
def test_a_quick_command(store: Path, line: tuple[str, ...]) -> None:
    assert is_within(COMMAND_SECONDS, store, *line, "--db", "my.db")


@pytest.mark.parametrize("line", QUICK, ids=" ".join)
def test_a_quick_command_imports_only_what_it_needs(store: Path, line: tuple[str, ...]) -> None:
    """Count what the processor time above is spent on, which no busy machine changes."""
    loaded = modules_of(store, line)
    slow = {"ctypes", "hashlib", "pydantic", "rich", "shutil", "socket", "tomllib", "typer", "tzlocal", "uuid"}
    assert slow.isdisjoint(loaded), slow.intersection(loaded)
    assert sum(name.startswith("duetime.") for name in loaded) <= 155
    kinds = {name.split(".")[2] for name in loaded if name.startswith("duetime.kinds.") and name.endswith(".kind")}
    assert kinds <= {"notifications"}, "a command builds the kinds that it does not use"


@pytest.mark.parametrize("name", ["mcp", "serve", "worker"])
def test_a_server_starts_without_typer_unless_a_list_is_given(name: str) -> None:
    commands = command_named(name)
    assert isinstance(commands, CommandSet)
    command, line = commands.find(["--db", "my.db"])
    assert command is not None
    values = command.read(line)
    assert values is not None
    assert (values["db"], values["tasks"]) == ("my.db", None)
    assert command.read([*line, "--tasks", "a.py"]) is None, "Typer collects the values of an option that is repeated"


_IMPORTED = """
import contextlib, io, sys
from duetime.cli.main import main
for arguments in (["--help"], ["job", "--help"], ["job", "list", "--help"]):
    with contextlib.redirect_stdout(io.StringIO()):
        main(arguments)
print(*sys.modules)
"""


def test_help_imports_neither_the_engine_nor_what_it_does_not_need(tmp_path: Path) -> None:
    """Count what the processor time above is spent on, which no busy machine changes."""
    loaded = subprocess.run(
        [sys.executable, "-c", _IMPORTED], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    ).stdout.split()
    own = {name for name in loaded if name.startswith("duetime.")}
    slow = {
        "duetime.engine.model",
        "duetime.engine.store",
        "duetime.engine.times",
        "duetime.settings",
        "pydantic",
        "rich",
    }
    assert "duetime.kinds.jobs.cli" in own
    assert slow.isdisjoint(loaded)
    assert len(own) <= 40, sorted(own)


@pytest.mark.parametrize(
    "line", [("list", "--limit", "5"), ("pause", "j1", "--note", "x"), ("dead", "dismiss", "1", "2"), ("runs", "list")]
)
def test_no_command_imports_pydantic_for_its_options(tmp_path: Path, line: tuple[str, ...]) -> None:
    loaded = modules_of(tmp_path, line)
    assert "duetime.engine.store" in loaded and "pydantic" not in loaded


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time of a process from /proc")
@pytest.mark.parametrize("era", ERAS)
def test_first_list_of_tools_over_stdio_beside_a_bare_server(tmp_path: Path, era: str) -> None:
    starts = measure_starts_on_the_processor(tmp_path, era, 1)
    for _ in range(3):
        if starts.ratio > START_BOUND:  # the processor may be shared with other machines
            starts = measure_starts_on_the_processor(tmp_path, era, 4)
    assert starts.ratio <= START_BOUND, starts
