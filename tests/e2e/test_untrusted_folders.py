"""What somebody else's folder holds does not run because a client, or a person, happens to be in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.agency import CALLING_AGENT
from tests.support.cli import Answer, Output, environment
from tests.support.workers import eventually

RECORDING = "import os, pathlib\npathlib.Path({marker!r}).write_text(os.getcwd())\n"
"""A module that records that it ran, and where."""
TASKS = "from duetime import task\n@task\ndef mine() -> str:\n    return 'done'\n"


class Machine(NamedTuple):
    """A user's machine: their settings and data, an installed module folder, and a repository that they cloned."""

    folder: Path
    cloned: Path
    installed: Path

    @property
    def variables(self) -> dict[str, str]:
        own = environment()
        homes = {name: str(self.folder / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        return own | homes | {"PYTHONPATH": f"{own['PYTHONPATH']}:{self.installed}", "HOME": str(self.folder)}

    @property
    def settings(self) -> Path:
        return self.folder / "xdg_config_home" / "duetime" / "duetime.toml"

    @property
    def ran(self) -> Path:
        """What a module of the cloned repository writes if it runs."""
        return self.folder / "code of the cloned repository ran"

    def configure(self, text: str) -> None:
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(text)

    def plant(self, name: str) -> None:
        (self.cloned / name).write_text(RECORDING.format(marker=str(self.ran)))

    def run(self, *arguments: str, folder: Path | None = None, **variables: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "duetime", *arguments],
            cwd=folder or self.cloned, env=self.variables | variables, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A process in the cloned repository, as an editor starts it."""
        with subprocess.Popen(
            [sys.executable, "-m", "duetime", *arguments],
            cwd=self.cloned, env=self.variables, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def ended_run(self, schedule: str) -> dict[str, Any]:
        """Return the first run of a prompt or job, once it has ended."""

        def ended() -> list[dict[str, Any]]:
            kind = {"p": "prompt", "j": "job"}[schedule[0]]
            runs = self.run(kind, "history", schedule, "--json", folder=self.folder).document["runs"]
            return [run for run in runs if run["status"] in ("completed", "failed", "lost")]

        return eventually(ended, 60.0, "the end of the run")[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, tmp_path / "cloned", tmp_path / "installed")
    made.cloned.mkdir()
    made.installed.mkdir()
    return made


@pytest.mark.parametrize("command", ["mcp", "worker"])
def test_a_users_mcp_server_starts_in_the_folder_of_the_settings_that_name_it(machine: Machine, command: str) -> None:
    started = machine.folder / "the installed server started"
    (machine.installed / "mcp_server_git.py").write_text(RECORDING.format(marker=str(started)))
    machine.plant("mcp_server_git.py")
    machine.configure(
        f'agent = "helper"\n[agents.helper]\ncommand = {json.dumps(CALLING_AGENT)}\nservers = ["git"]\n'
        f'[mcp_servers.git]\ncommand = ["{sys.executable}", "-m", "mcp_server_git"]\n'
        f'env = {{PYTHONPATH = "{machine.installed}"}}\n'
    )
    assert machine.run("prompt", "add", "Look.", "--at", "now", folder=machine.folder).code == 0
    with machine.started(command):
        eventually(lambda: started.exists() or machine.ran.exists(), 60.0, "a server")
    assert not machine.ran.exists()
    assert started.read_text() == str(machine.settings.parent)


def test_the_server_of_a_woken_run_imports_no_task_of_the_folder(machine: Machine) -> None:
    (machine.installed / "my_tasks.py").write_text(TASKS)
    machine.plant("my_tasks.py")
    machine.configure(f'agent = "helper"\n[agents.helper]\ncommand = {json.dumps(CALLING_AGENT)}\n')
    assert machine.run("prompt", "add", "Look.", "--at", "now", folder=machine.folder).code == 0
    with machine.started("mcp", "--tasks", "my_tasks"):
        run = machine.ended_run("p1")
    assert run["status"] == "completed", run
    assert not machine.ran.exists()


@pytest.mark.parametrize("command", [("job", "tasks"), ("doctor",), ("worker", "--json")])
def test_a_task_module_of_the_environment_is_not_the_folders(machine: Machine, command: tuple[str, ...]) -> None:
    (machine.installed / "my_tasks.py").write_text(TASKS)
    machine.plant("my_tasks.py")
    machine.plant("only_here.py")
    if command[0] == "worker":
        with subprocess.Popen(
            [sys.executable, "-m", "duetime", *command],
            cwd=machine.cloned, env=machine.variables | {"DUETIME_TASKS": "my_tasks"}, text=True,
            stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            Output(process).until(lambda line: "mine" in line)
            process.kill()
    else:
        assert "mine" in machine.run(*command, DUETIME_TASKS="my_tasks").out
    alone = machine.run(*command, DUETIME_TASKS="only_here")
    assert alone.code == 1 and "there is no module only_here; install it" in alone.out + alone.err
    alone = machine.run(*command, DUETIME_TASKS="only_here.py")
    assert alone.code == 1 and f"there is no file {machine.settings.parent}/only_here.py" in alone.out + alone.err
    assert not machine.ran.exists()


def test_a_task_module_that_is_typed_is_the_folders(machine: Machine) -> None:
    (machine.cloned / "my_tasks.py").write_text(TASKS)
    assert "mine" in machine.run("job", "tasks", "--tasks", "my_tasks").out


def test_python_finds_nothing_in_the_folder_either(machine: Machine) -> None:
    """Without -P, Python would search the current folder first, also for packages that announce tasks."""
    for name in ("typer.py", "apsw.py", "announced.py"):
        machine.plant(name)
    info = machine.cloned / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[duetime.tasks]\nplanted = announced\n")
    answer = machine.run("job", "tasks")
    assert answer.code == 0 and not machine.ran.exists(), answer


def test_paths_that_were_given_are_those_of_the_folder(machine: Machine) -> None:
    machine.configure('tasks = ["tasks_of_mine.py"]\n[agents.x]\ncommand = ["x"]\n')
    (machine.settings.parent / "tasks_of_mine.py").write_text(
        "import pathlib\nfrom duetime import task\n@task\ndef where() -> str:\n    return str(pathlib.Path.cwd())\n"
    )
    assert machine.run("job", "add", "w", "--task", "where", "--at", "now", "--db", "my.db").code == 0
    with machine.started("worker", "--db", "sqlite:///my.db"):
        eventually(
            lambda: str(machine.settings.parent) in machine.run("job", "history", "w", "--db", "my.db", "--json").out,
            60.0, "the folder of the worker",
        )  # fmt: skip
    assert (machine.cloned / "my.db").exists()
