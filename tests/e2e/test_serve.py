"""`duetime serve` as a real process, and real clients of it."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from duetime.app import build
from duetime.engine.store import ScheduleQuery
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from tests.support.agents import ERAS, call, cut_off, over_http, serving, talk, until
from tests.support.cli import Output, start
from tests.support.workers import eventually

CLIENTS = ("Claude Code", "Claude Desktop", "Cursor", "VS Code", "Codex", "Gemini CLI", "opencode", "Windsurf", "Zed")
TASKS = """
import threading
from pathlib import Path
from duetime.kinds.jobs.registry import task

@task
def endless() -> None:
    Path("begun").touch()
    threading.Event().wait()
"""


SOON = {"trigger_type": "once", "trigger_config": {"run_at": "in 1 second"}}


async def schedule(client: Client, name: str, task: str = "echo") -> dict[str, Any]:
    args = {"args": [name]} if task == "echo" else {}
    made = await call(client, "schedule_job", name=name, task=task, **SOON, **args)
    assert "job_id" in made, made
    return made


async def fired(client: Client, job_id: str) -> None:
    async def done() -> bool:
        return str((await call(client, "job_status", job_id=job_id))["status"]) == "completed"

    await until(done, 30, f"{job_id} fires")


@pytest.mark.parametrize("era", ERAS)
def test_a_client_schedules_and_it_fires(era: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served:

        async def say(client: Client) -> None:
            assert "schedule_job" in {tool.name for tool in (await client.list_tools()).tools}
            made = await schedule(client, "hello")
            assert "warnings" not in made, "a worker lives in the server"
            await fired(client, made["job_id"])

        talk(over_http(served.url, served.token, era), say)
        served.process.send_signal(signal.SIGTERM)
        assert "Stopped; everything is recorded." in served.output.rest()
        assert served.process.wait(30) == 0
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""


def test_what_was_acknowledged_survives_kill_9_and_fires(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    with serving(tmp_path) as served:

        async def say(client: Client) -> None:
            made.update(await schedule(client, "survivor"))
            os.kill(served.process.pid, signal.SIGKILL)

        cut_off(over_http(served.url, served.token, "2026-07-28"), say)
        assert served.process.wait(30) == -signal.SIGKILL
    with serving(tmp_path) as served:

        async def look(client: Client) -> None:
            await fired(client, made["job_id"])

        talk(over_http(served.url, served.token, "legacy"), look)


def test_ctrl_c_with_a_client_that_listens(tmp_path: Path) -> None:
    """A stream that never ends by itself keeps nobody from stopping, and leaves no complaint behind."""
    with serving(tmp_path) as served:

        async def say(client: Client) -> None:
            await client.list_tools()
            served.process.send_signal(signal.SIGINT)
            await until(_ended, 30, "the server ends")

        async def _ended() -> bool:
            return served.process.poll() is not None

        cut_off(over_http(served.url, served.token, "legacy"), say)
        assert served.process.wait(30) == 0
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TASKS)
    with serving(tmp_path, "--tasks", "mine.py") as served:

        async def say(client: Client) -> None:
            await schedule(client, "slow", "endless")

        talk(over_http(served.url, served.token, "2026-07-28"), say)
        eventually((tmp_path / "begun").exists, 30, "it runs")
        served.process.send_signal(signal.SIGINT)
        served.output.until(lambda line: line.startswith("Stopping, waiting at most 10 s for slow"))
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(5) == 130


def test_the_demo_begins_with_the_link_that_signs_in(tmp_path: Path) -> None:
    with start("serve", "--demo", "--port", "0", folder=tmp_path) as process:
        out, _ = _until_fired(process)
        assert process.returncode == 0
    first = out.splitlines()[0]
    assert re.fullmatch(r"Dashboard: http://127\.0\.0\.1:[0-9]+/login\?token=[0-9a-f.]+", first)
    assert "To connect an agent: " in out
    assert " connect claude-code --db .duetime/demo.db (or claude-desktop, " in out, "to the store that is served"
    assert "serve --print-config all --port " in out
    assert "Bearer" not in out
    assert "Hello, Duetime!" in out


def test_every_client_is_told_what_to_paste(tmp_path: Path) -> None:
    out = _printed(tmp_path, "all")
    for client in CLIENTS:
        assert f"{client}: " in out
    token = (tmp_path / "data" / "duetime" / "auth" / "local.token").read_text().strip()
    assert out.count(token) == len(CLIENTS) - 1  # Claude Code is given a command that prints the header when asked
    assert out.count("or, over stdio: ") == len(CLIENTS)


def _until_fired(process: Any) -> tuple[str, None]:
    output = Output(process)
    try:
        output.until(lambda line: "welcome" in line and "completed" in line)
        process.send_signal(signal.SIGINT)
        text = output.rest()
        process.wait(30)
        return text, None
    finally:
        if process.poll() is None:
            process.kill()


def test_a_live_server_shows_runs_and_a_quiet_one_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from duetime.kinds.jobs.registry import task\n\n@task\ndef fails():\n    raise ValueError('no luck')\n"
    )
    with serving(tmp_path, "--live", "--tasks", "mine.py") as served:
        added = (
            "job",
            "add",
            "unlucky",
            "--task",
            "fails",
            "--tasks",
            "mine.py",
            "--at",
            "in 1 second",
            "--db",
            "my.db",
        )
        with start(*added, folder=tmp_path) as process:
            assert process.wait(30) == 0
        served.output.until(lambda line: "failed" in line and "unlucky" in line and "ValueError: no luck" in line)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0
        assert served.process.stderr is not None and served.process.stderr.read() == ""
    with (
        start("serve", "--quiet", "--port", "0", "--db", "my.db", "--tasks", "mine.py", folder=tmp_path) as process,
        closing(build(Settings(db=str(tmp_path / "my.db")), tasks=False)) as app,
    ):
        [job] = app.scheduler.search(OPERATOR, ScheduleQuery()).items
        app.scheduler.run_now(OPERATOR, job.definition.public_id)
        assert process.stderr is not None and process.stdout is not None
        line = process.stderr.readline()
        assert line.rstrip().endswith("attempt 1 failed: ValueError: no luck (mine.py:5 in fails)")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_a_quiet_server_prints_no_token_and_uses_the_same_again(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-link") as served:
        served.process.send_signal(signal.SIGTERM)
        text = served.output.rest()
        assert served.process.wait(30) == 0
    assert "Bearer" not in text
    assert "token=" not in text
    tokens = {_printed(tmp_path, "codex"), _printed(tmp_path, "codex")}
    assert len(tokens) == 1


def _printed(folder: Path, client: str) -> str:
    with start("serve", "--print-config", client, "--port", "8765", folder=folder) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out
