"""Kinds of other packages on the command line, and what the commands of all kinds share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from duetime.settings.locations import store_file
from duetime.terminal.typer_ext import TypedCommand
from tests.support.cli import Cli

TOY = Path(__file__).parents[1] / "toykind"


def duetime(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TOY)}
    command = [sys.executable, "-m", "duetime", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def document(folder: Path, *arguments: str) -> Any:
    done = duetime(folder, *arguments, "--db", "my.db", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.later
def test_a_kind_of_another_package_gets_a_command(tmp_path: Path) -> None:
    payload = ("--text", "5", "--file", "lines", "--times", "2", "--loud")
    added = document(tmp_path, "beep", "add", "morning", *payload, "--cron", "0 9 * * *")
    assert added["payload"] == {"text": "5", "file": "lines", "times": 2, "loud": True}
    assert (added["kind"], added["created"]) == ("beep", True)
    edited = document(tmp_path, "beep", "edit", "morning", "--no-loud", "--every", "2h")
    assert edited["payload"] == {"text": "5", "file": "lines", "times": 2, "loud": False}
    assert [each["id"] for each in document(tmp_path, "beep", "list")["beeps"]] == [added["id"]]
    shown = duetime(tmp_path, "show", "morning", "--db", "my.db").stdout
    assert shown.startswith("beep  ") and "\ntext    5" in shown and "\ntimes   2" in shown
    assert document(tmp_path, "beep", "pause", added["id"])["status"] == "paused"
    assert document(tmp_path, "cancel", added["id"])["status"] == "cancelled"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nothing_like_it", "cannot be loaded (ModuleNotFoundError"),
        (
            "from duetime.service.kind_spec import KindSpec\nSPEC = KindSpec(name='job', plural='jobs', build='x:y')",
            "'job'",
        ),
        (
            "from duetime.service.kind_spec import KindSpec\nSPEC = KindSpec(name='a:b', plural='x', build='x:y')",
            "'a:b'",
        ),
    ],
)
def test_a_kind_that_cannot_be_used_is_named(tmp_path: Path, code: str, message: str) -> None:
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[duetime.kinds]\nbroken = broken_kind:SPEC\n")
    (tmp_path / "broken_kind.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "duetime", "job", "list", "--db", "my.db"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "broken_kind:SPEC (entry point broken of the group duetime.kinds)" in done.stderr and message in done.stderr


def test_without_such_packages_their_metadata_is_not_parsed(tmp_path: Path) -> None:
    script = (
        "import sys; from duetime.app import build; from duetime.settings import Settings\n"
        "build(Settings(db=':memory:'), tasks=False).close(); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


def test_what_does_not_fit_the_payload_model_is_refused(tmp_path: Path) -> None:
    done = duetime(tmp_path, "beep", "add", "x", "--text", "a", "--file", "b", "--times", "often", "--at", "now")
    assert done.returncode == 2
    assert "times" in done.stderr
    assert duetime(tmp_path, "beep", "add", "x", "--file", "b", "--at", "now").returncode == 2, "text is required"


def test_help_names_the_command_among_those_of_kinds(tmp_path: Path, cli: Cli) -> None:
    listed = duetime(tmp_path, "--help").stdout
    assert listed.index("  job ") < listed.index("  prompt ") < listed.index("  beep ") < listed.index("  dead ")
    assert "  beep " not in cli("--help").out


def test_another_task_does_not_get_the_hidden_arguments(cli: Cli) -> None:
    added = cli("job", "add", "a", "--task", "echo", "--arg", "token=abcdefghijklmnop0123", "--every", "2h")
    assert added.code == 0
    refused = cli("job", "edit", "a", "--task", "shorten")
    assert refused.code == 2
    assert "hidden values" in refused.err
    assert cli("job", "edit", "a", "--task", "shorten", "--arg", "some text").code == 0


def test_a_prompt_that_wakes_nobody_warns(cli: Cli) -> None:
    texts = cli("prompt", "add", "Water the plants", "--every", "2h", "--json").document["warnings"]
    assert len(texts) == 2
    assert "agent" in texts[1]


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("my.db", "my.db"),
        ("sqlite:///my.db", "my.db"),
        ("sqlite:////tmp/my.db", "/tmp/my.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        (":memory:", None),
        ("postgresql://host/name", None),
    ],
)
def test_the_file_of_a_store(url: str, file: str | None) -> None:
    assert store_file(url) == (None if file is None else Path(file))


def test_a_number_with_a_maximum_alone(capsys: pytest.CaptureFixture[str]) -> None:
    commands = typer.Typer(rich_markup_mode=None)

    @commands.command(cls=TypedCommand)
    def command(count: int = typer.Option(1, max=5)) -> None:
        typer.echo(count)

    with pytest.raises(SystemExit):
        commands(["--count", "6"])
    assert "must be at most 5, not 6" in capsys.readouterr().err
