"""`duetime mcp` as a real process, and real clients of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from duetime.app import build
from duetime.engine.clock import SystemClock
from duetime.engine.model import WorkerRow
from duetime.engine.store import ScheduleQuery
from duetime.settings import Settings
from tests.support.agents import ERAS, call, over_stdio, talk, until
from tests.support.cli import Output, environment, start
from tests.support.wordings import SESSION_WARNING
from tests.support.workers import eventually, quickest

CLOCK = SystemClock()
LEASE = 2.0
QUICK = {"DUETIME_LEASE": str(LEASE)}
TASKS = """
print("printed while it is imported")
import os, subprocess, sys, threading
from pathlib import Path
from duetime.kinds.jobs.registry import task

@task
def noisy() -> str:
    print("printed, and not flushed")
    sys.__stdout__.write("past the replacement")
    os.write(1, b"past Python\\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    return "quiet again"

@task
def endless() -> None:
    Path(__file__).with_name("begun").touch()
    while True:
        threading.Event().wait(60)
"""


class Wire:
    """A client that sees every byte."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.output = process, Output(process)
        self._number = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._number += 1
        number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        answer = json.loads(self.output.until(lambda line: json.loads(line).get("id") == number))
        assert "error" not in answer, answer
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    def schedule(self, task: str, trigger_type: str = "interval", **config: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.call(
            "schedule_job", name=task, task=task, trigger_type=trigger_type, trigger_config=config or {"seconds": 1}
        )
        assert "error" not in made, made
        return made

    def runs_of(self, job_id: str) -> int:
        return int(self.call("job_status", job_id=job_id)["run_count"])


@contextmanager
def wired(folder: Path, *more: str, **variables: str) -> Iterator[Wire]:
    with subprocess.Popen(
        [sys.executable, "-m", "duetime", "mcp", "--db", "my.db", *more],
        cwd=folder,
        env=environment() | {"XDG_DATA_HOME": str(folder / "data"), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Wire(process)
        finally:
            if process.poll() is None:
                process.kill()


def workers(folder: Path) -> list[WorkerRow]:
    app = build(Settings(db=str(folder / "my.db")), tasks=False)
    try:
        return app.store.workers()
    finally:
        app.close()


# -- clients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_client_schedules_it_fires_and_it_stays(era: str, tmp_path: Path) -> None:
    made: dict[str, Any] = {}

    async def say(client: Client) -> None:
        assert "schedule_job" in {tool.name for tool in (await client.list_tools()).tools}
        made.update(
            await call(
                client,
                "schedule_job",
                name="tick",
                task="echo",
                args=["hi"],
                trigger_type="interval",
                trigger_config={"seconds": 1},
            )
        )

        async def ran() -> bool:
            return int((await call(client, "job_status", job_id=made["job_id"]))["run_count"]) > 0

        await until(ran, 30, "the session's own worker runs it")

    talk(over_stdio(tmp_path, era), say)
    assert made["warnings"] == [SESSION_WARNING]
    app = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    try:
        (kept,) = app.store.search(ScheduleQuery()).items
        assert (kept.definition.public_id, kept.definition.owner) == (made["job_id"], "local")
        assert app.store.workers() == [], "it signed off"
    finally:
        app.close()


def test_nothing_but_protocol_is_written(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TASKS)
    with wired(tmp_path, "--tasks", "mine.py", PYTHONUNBUFFERED="") as wire:
        job = wire.schedule("noisy")
        eventually(lambda: wire.call("job_status", job_id=job["job_id"])["last_status"] == "completed", 30, "it ran")
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        wire.output.rest()
        assert wire.process.wait(30) == 0
        for line in wire.output.lines:
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert wire.process.stderr is not None
        said = wire.process.stderr.read()
    for words in ("printed while it is imported", "printed, and not flushed", "past Python", "by a child"):
        assert words in said


# -- stopping ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with a task that hangs"])
def test_a_client_that_stops_it_waits_less_than_a_second(busy: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert quickest(lambda: seconds_to_stop(busy, tmp_path_factory.mktemp("stopped")), 1.0) < 1.0


def seconds_to_stop(busy: bool, folder: Path) -> float:
    (folder / "mine.py").write_text(TASKS)
    with wired(folder, "--tasks", "mine.py") as wire:
        if busy:
            wire.schedule("endless")
            eventually((folder / "begun").exists, 30, "it runs")
        else:
            eventually(lambda: workers(folder), 30, "its worker lives")
        began = CLOCK.monotonic()
        wire.process.send_signal(signal.SIGINT)
        try:
            wire.process.wait(0.1)
        except subprocess.TimeoutExpired:
            wire.process.send_signal(signal.SIGTERM)
        assert wire.process.wait(30) == 0
        took = CLOCK.monotonic() - began
        assert wire.process.stderr is not None
        assert "Traceback" not in wire.process.stderr.read()
    return took


def test_a_signal_is_heard_while_it_starts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, threading\nos.kill(os.getpid(), 2)\nthreading.Event().wait(30)\n"  # a module that takes its time
    )
    with start("mcp", "--db", "my.db", "--tasks", "mine.py", folder=tmp_path) as process:
        assert process.wait(30) == 0


def test_a_store_that_cannot_be_used_is_said_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "my.db").write_text("no database at all, but a longer text that looks like a file of some other kind")
    with start("mcp", "--db", "my.db", folder=tmp_path) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (5, "")
    assert "is not a SQLite database" in err


# -- who works --------------------------------------------------------------------------------------------------


def test_it_stands_in_within_one_lease_when_the_worker_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Half a second for this machine: the lease is counted from the last beat, which came before the kill.
    bound = LEASE + 0.5
    assert quickest(lambda: seconds_to_stand_in(tmp_path_factory.mktemp("killed")), bound) < bound


def seconds_to_stand_in(folder: Path) -> float:
    with start("worker", "--db", "my.db", "--lease", str(LEASE), "--json", folder=folder) as worker:
        Output(worker).until(lambda line: '"started"' in line)
        eventually(lambda: workers(folder), 30, "the worker lives")
        with wired(folder, **QUICK) as wire:
            job = wire.schedule("echo")
            assert "warnings" not in job, "a worker that stays is there"
            assert [row.session for row in workers(folder)] == [0]
            eventually(lambda: wire.runs_of(job["job_id"]) > 0, 30, "the worker runs it")
            worker.kill()
            worker.wait(30)
            before = wire.runs_of(job["job_id"])
            killed = CLOCK.monotonic()
            eventually(lambda: [row.session for row in workers(folder)] == [1], 30, "it stands in")
            took = CLOCK.monotonic() - killed
            eventually(lambda: wire.runs_of(job["job_id"]) > before, 30, "it fires")
            assert wire.schedule("echo")["warnings"] == [SESSION_WARNING]
    return took


def test_it_gives_way_when_a_worker_comes(tmp_path: Path) -> None:
    with wired(tmp_path, **QUICK) as wire:
        eventually(lambda: [row.session for row in workers(tmp_path)] == [1], 30, "it works")
        with start("worker", "--db", "my.db", "--lease", str(LEASE), "--json", folder=tmp_path) as worker:
            try:
                eventually(lambda: [row.session for row in workers(tmp_path)] == [0], 30, "it gave way")
                assert "warnings" not in wire.schedule("echo")
            finally:
                worker.terminate()


def test_of_two_sessions_one_works_and_the_other_follows(tmp_path: Path) -> None:
    with wired(tmp_path, **QUICK) as second_to_go:
        eventually(lambda: len(workers(tmp_path)) == 1, 30, "the first one works")
        (row,) = workers(tmp_path)
        with wired(tmp_path, **QUICK) as other:
            assert other.schedule("echo")["warnings"] == [SESSION_WARNING]
            assert [each.id for each in workers(tmp_path)] == [row.id], "the other one waits"
            assert second_to_go.process.stdin is not None
            second_to_go.process.stdin.close()
            eventually(lambda: [each.id > row.id for each in workers(tmp_path)] == [True], 30, "the other one follows")
