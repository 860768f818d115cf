"""`duetime worker` as a real process: the demo of `make run`, and how a worker stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cli import Output, start

DB = ".duetime/demo.db"
NAMES = {"welcome", "heartbeat", "tens", "primes", "flaky"}
FAILS = "unlucky"

TASKS = """
import threading
from pathlib import Path
from duetime.kinds.jobs.registry import task

@task
def gated(gate: str) -> str:
    return Path(gate).read_text()  # a pipe: opens when the test writes into it

@task
def endless() -> None:
    threading.Event().wait()
"""


@contextmanager
def running(*arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Output]]:
    with start(*arguments, folder=folder) as process:
        try:
            yield process, Output(process)
        finally:
            if process.poll() is None:
                process.kill()


def ask(*arguments: str, folder: Path) -> Any:
    with start(*arguments, "--json", folder=folder) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return json.loads(out)


def played(folder: Path, wanted: set[str]) -> str:
    """One demo, until each of these samples has ended a run, or was tried again."""
    with running("worker", "--demo", folder=folder) as (process, output):
        missing = set(wanted)
        while missing:
            line = output.until(lambda line: "  completed  " in line or "  retry  " in line)
            _, word, _, name, *_ = line.split()
            missing.discard(name if word == "completed" else word)
        process.send_signal(signal.SIGINT)
        text = output.rest()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    return text


def test_the_demo_fires_within_seconds_stops_cleanly_and_can_be_repeated(tmp_path: Path) -> None:
    text = played(tmp_path, NAMES | {"retry"})
    assert "Stopped; everything is recorded." in text
    assert "ConnectionError: the other side did not answer" in text
    assert "Try next:" in text
    assert "\x1b" not in text
    jobs = ask("job", "list", "--db", DB, folder=tmp_path)["jobs"]
    assert {job["name"] for job in jobs} == {*NAMES, FAILS}
    assert {job["last_status"] for job in jobs if job["name"] != FAILS} == {"completed"}
    assert "Traceback" in (tmp_path / ".duetime" / "demo.log").read_text()

    played(tmp_path, {"welcome", "heartbeat"})
    again = ask("job", "list", "--db", DB, folder=tmp_path)["jobs"]
    assert [job["id"] for job in again] == [job["id"] for job in jobs]
    counts = {job["name"]: job["run_count"] for job in again}
    assert counts["welcome"] == 2
    assert all(counts[job["name"]] >= job["run_count"] for job in jobs)
    # Not by the count: a run that was claimed when the first one stopped is counted there and executed here.
    last, last_again = (
        next(job["last_run"] for job in listed if job["name"] == "heartbeat") for listed in (jobs, again)
    )
    assert last_again > last
    history = ask(
        "job", "history", next(job["id"] for job in again if job["name"] == "flaky"), "--db", DB, folder=tmp_path
    )
    attempts = [attempt for run in history["runs"] for attempt in run["attempts"]]
    assert "ConnectionError: the other side did not answer" in {attempt["error"] for attempt in attempts}


def prepared(folder: Path, task: str, *arguments: str) -> str:
    (folder / "mine.py").write_text(TASKS)
    given = ("--task", task, *arguments, "--at", "now", "--tasks", "mine.py", "--db", "my.db")
    return str(ask("job", "add", "slow", *given, folder=folder)["id"])


def test_the_first_signal_waits_for_what_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    id = prepared(tmp_path, "gated", "--arg", str(tmp_path / "gate"))
    with running("worker", "--live", "--tasks", "mine.py", "--db", "my.db", folder=tmp_path) as (process, output):
        output.until(lambda line: "  running  " in line)
        process.send_signal(signal.SIGTERM)
        output.until(lambda line: line.startswith("Stopping, waiting at most 10 s for slow"))
        (tmp_path / "gate").write_text("through")
        assert "everything is recorded" in output.rest()
        assert process.wait(30) == 0
    (run,) = ask("job", "history", id, "--db", "my.db", folder=tmp_path)["runs"]
    assert (run["status"], run["result"]) == ("completed", "through")


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    id = prepared(tmp_path, "endless")
    with running("worker", "--live", "--tasks", "mine.py", "--db", "my.db", folder=tmp_path) as (process, output):
        output.until(lambda line: "  running  " in line)
        process.send_signal(signal.SIGINT)
        output.until(lambda line: line.startswith("Stopping"))
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
        assert process.stderr is not None
        assert "Stopped at once. Unfinished runs: 1" in process.stderr.read()
    (run,) = ask("job", "history", id, "--db", "my.db", folder=tmp_path)["runs"]
    assert run["status"] == "running"


def test_a_worker_for_programs_speaks_json_lines(tmp_path: Path) -> None:
    ask("job", "add", "hello", "--task", "echo", "--arg", "hi", "--at", "now", "--db", "my.db", folder=tmp_path)
    with running("worker", "--live", "--json", "--db", "my.db", folder=tmp_path) as (process, output):
        output.until(lambda line: json.loads(line)["event"] == "completed")
        process.send_signal(signal.SIGINT)
        output.rest()
        assert process.wait(30) == 0
    events = [json.loads(line) for line in output.lines]
    assert [event["event"] for event in events] == ["started", "completed", "stopped"]
    assert (events[1]["name"], events[1]["result"]) == ("hello", "hi")
    assert events[2]["unrecorded"] == 0
