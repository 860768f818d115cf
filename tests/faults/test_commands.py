"""`run_command`: what it starts is bounded in output and time, and nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duetime.engine.kind import StopReason, StopSignal
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.kinds.jobs import shell_task
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry, Task
from duetime.kinds.jobs.shell_task import KEPT, CommandFailed, run_command
from tests.support.cli import start
from tests.support.jobs import make_work
from tests.support.settings import write_trusted
from tests.support.workers import eventually

HANG = "echo $$ >> {told}; sleep 1000 & echo $! >> {told}; echo ready > {told}.ready; wait"


@pytest.fixture
def kind() -> Iterator[JobKind]:
    made = JobKind(Registry([Task(run_command, isolation="process", local=True)]), grace=5.0)
    yield made
    made.close()


def run(kind: JobKind, argv: list[str], **more: Any) -> Outcome:
    return kind.execute(make_work("run_command", argv=argv, **more))


def result(kind: JobKind, argv: list[str], **more: Any) -> dict[str, Any]:
    outcome = run(kind, argv, **more)
    assert isinstance(outcome, Completed) and outcome.result is not None, outcome
    found: dict[str, Any] = json.loads(outcome.result)
    return found


def lives(process: int) -> bool:
    """One that is dead and not yet collected by whoever adopted it does not live."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(told: Path) -> None:
    pids = [int(number) for number in told.read_text().split()]
    assert len(pids) == 2
    eventually(lambda: not any(map(lives, pids)), 30, f"{pids} are gone")


def test_its_output_its_input_and_its_surroundings(
    kind: JobKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_SECRET", "s" * 64)
    monkeypatch.setenv("MY_API_KEY", "abc")
    assert result(kind, ["cat"], stdin="a\nb\n") == {"exit_code": 0, "output": "a\nb\n"}
    assert result(kind, ["echo", "$HOME; rm -rf *"])["output"] == "$HOME; rm -rf *\n"
    both = result(kind, ["sh", "-c", "echo out; echo err >&2"])["output"]
    assert sorted(both.split()) == ["err", "out"]
    seen = result(kind, ["env"], env={"MINE": "x y"})["output"].splitlines()
    assert "MINE=x y" in seen
    assert not [line for line in seen if line.startswith(("DUETIME_", "MY_API_KEY"))]
    assert result(kind, ["pwd"], folder=str(tmp_path))["output"] == f"{tmp_path}\n"
    assert result(kind, ["sh", "-c", "pwd -P"], env={"HOME": str(tmp_path)})["output"] == f"{tmp_path}\n"


def test_only_the_end_of_much_output_is_kept(kind: JobKind) -> None:
    script = "import sys; sys.stdout.write('x' * 50_000_000 + 'é the end')"
    made = result(kind, [sys.executable, "-c", script], env={"PYTHONIOENCODING": "utf-8"})
    assert made["output"].endswith("é the end")
    assert len(made["output"].encode()) == KEPT
    assert made["bytes_cut"] == 50_000_000 + len("é the end".encode()) - KEPT


@pytest.mark.parametrize(
    ("argv", "error", "permanent"),
    [
        (["sh", "-c", "echo wrong; exit 3"], "CommandFailed: exit code 3: wrong", False),
        (["sh", "-c", "kill -9 $$"], "CommandFailed: ended by signal 9", False),
        (["/no/such/program"], "PermanentError: /no/such/program cannot be started: No such file or directory", True),
        ([], "PermanentError: argv: names no program", True),
    ],
)
def test_how_it_fails(kind: JobKind, argv: list[str], error: str, permanent: bool) -> None:
    assert run(kind, argv) == Failed(error, permanent=permanent)


def test_input_that_nobody_reads_is_no_trouble(kind: JobKind) -> None:
    assert result(kind, ["true"], stdin="x" * 1_000_000)["exit_code"] == 0


def test_what_it_leaves_in_the_background_ends_with_it(kind: JobKind, tmp_path: Path) -> None:
    told = tmp_path / "told"
    made = result(kind, ["sh", "-c", f"echo $$ > {told}; sleep 1000 & echo $! >> {told}; echo done"])
    assert made["output"] == "done\n"
    all_gone(told)


def test_a_command_that_takes_too_long_ends_by_itself(kind: JobKind, tmp_path: Path) -> None:
    told = tmp_path / "told"
    outcome = run(kind, ["sh", "-c", HANG.format(told=told)], seconds=2.0)
    assert outcome == Failed("CommandFailed: it took longer than 2 s")
    all_gone(told)


def test_the_time_of_a_command_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy or sleeps looks at it more rarely; that must not give it more time."""
    clock = iter([0.0, 1.0])
    monkeypatch.setattr(shell_task, "_clock", SimpleNamespace(monotonic=lambda: next(clock, 3600.0)))
    with pytest.raises(CommandFailed, match="it took longer than 3600 s"):
        run_command(JobKind()._context(make_work("run_command")), ["sleep", "600"], seconds=3600)


@pytest.mark.parametrize(
    ("reason", "words"),
    [(StopReason.TIMEOUT, "timed out"), (StopReason.CANCELLED, "stopped on request"), (StopReason.LEASE, "lease")],
)
def test_a_command_that_is_stopped_is_killed_with_all_that_it_started(
    kind: JobKind, tmp_path: Path, reason: StopReason, words: str
) -> None:
    told, stop = tmp_path / "told", StopSignal()
    work = make_work("run_command", argv=["sh", "-c", HANG.format(told=told)], stop=stop, policy='{"timeout": 1500000}')
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(kind.execute(work)))
    thread.start()
    eventually((tmp_path / "told.ready").exists, 30, "it runs")
    stop.set(reason)
    thread.join(30)
    (outcome,) = outcomes
    assert words in str(outcome)
    all_gone(told)


def test_it_dies_with_its_worker(tmp_path: Path) -> None:
    """By the whole command line: a crontab is imported, a worker runs a line, and is killed in the middle of it."""
    told = tmp_path / "told"
    (tmp_path / "hang").write_text(f"#!/bin/sh\n{HANG.format(told=told)}\n")
    (tmp_path / "hang").chmod(0o755)
    (tmp_path / "tab").write_text(f"@yearly {tmp_path}/hang\n")
    write_trusted(tmp_path, 'tasks = ["duetime.kinds.command"]\n')

    def duetime(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "duetime", *arguments, "--db", "my.db"],
            cwd=tmp_path, env=os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout.decode()

    duetime("import", "crontab", "tab", "--yes")
    (job,) = json.loads(duetime("job", "list", "--json"))["jobs"]
    duetime("job", "run", job["id"])
    worker = start("worker", "--db", "my.db", folder=tmp_path)
    try:
        eventually((tmp_path / "told.ready").exists, 30, "it runs")
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=30)
    all_gone(told)
