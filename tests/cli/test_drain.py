"""`duetime worker --drain` takes nothing new after SIGTERM, finishes what runs, however long that takes, and exits
with 0."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Cli, Output, start
from tests.support.workers import eventually

TASKS = """
import threading
from pathlib import Path
from duetime import task

@task
def hold(name: str):
    \"\"\"Work until the test says so.\"\"\"
    Path(f"{name}.begun").touch()
    while not Path("gate").exists():
        threading.Event().wait(0.02)
        if Path("say").exists():
            Path("say").unlink()
            print("still at it", flush=True)
"""
OPTIONS = ("--tasks", "./held.py", "--db", "store.db")
PATIENCE = 30.0


@pytest.mark.process
def test_a_worker_that_drains_finishes_what_runs_and_takes_nothing_new(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(TASKS)
    add_job(cli, "long")
    short = {"DUETIME_DRAIN": "0.1"}  # which the option overrides
    with start("worker", "--drain", *OPTIONS, folder=tmp_path, env=short) as process:
        output = Output(process)
        try:
            eventually((tmp_path / "long.begun").exists, PATIENCE, "it runs")
            process.send_signal(signal.SIGTERM)
            output.until(lambda line: line == "Stopping, waiting for long ...")
            add_job(cli, "late")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.0)
            (tmp_path / "say").touch()
            said = "what it writes can be read meanwhile"
            eventually(lambda: "still at it" in cli("logs", "1", "--db", "store.db").out, PATIENCE, said)
            (tmp_path / "gate").touch()
            assert "everything is recorded" in output.rest()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert not (tmp_path / "late.begun").exists()


def add_job(cli: Cli, name: str) -> None:
    assert cli("job", "add", name, "--task", "hold", "--arg", name, "--at", "now", *OPTIONS).code == 0
