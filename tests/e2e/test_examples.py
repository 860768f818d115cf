"""What `examples/` shows works as it stands: each is run as people run it, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.agents import serving
from tests.support.cli import ROOT, Output, environment, start
from tests.support.model_server import ModelServer, call, say
from tests.support.receiver import Receiver
from tests.support.settings import remote_agent, write_trusted
from tests.support.workers import eventually

EXAMPLES = ROOT / "examples"
SECONDS = 60
SECRET = "known to both sides"


def variables(folder: Path) -> dict[str, str]:
    return environment() | {"XDG_DATA_HOME": str(folder / "data")}


def shown(name: str, *arguments: str, folder: Path, **more: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=variables(folder) | more,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def asked(*arguments: str, folder: Path) -> str:
    """What a command answers."""
    with start(*arguments, folder=folder) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    return out


@contextmanager
def working(*arguments: str, folder: Path) -> Iterator[None]:
    with start("worker", "--json", *arguments, folder=folder) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_can_be_read_at_a_glance(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def test_the_guide_names_every_example() -> None:
    guide = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    examples = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in examples if f"[`{name}`]({name})" not in guide} == set()


def test_declared_schedules_are_created_and_run(tmp_path: Path) -> None:
    with working("--tasks", str(EXAMPLES / "declared_tasks.py"), folder=tmp_path):
        listed = ("run", "list", "--status", "completed", "--json")
        eventually(lambda: results(asked(*listed, folder=tmp_path)) == ["counted"] * 3, SECONDS, "they ran")
        assert {"greet", "clean_up"} <= set(asked("list", folder=tmp_path).split())


def test_tasks_of_a_file_are_scheduled_and_run(tmp_path: Path) -> None:
    tasks = ("--tasks", str(EXAMPLES / "tasks.py"))
    folder = tmp_path / "counted"
    (folder / "more").mkdir(parents=True)
    for name in ("one", "two", "more/three"):
        (folder / name).touch()
    for task, argument in (("greet", "Ann"), ("files.count", str(folder)), ("factorial", "5")):
        asked("job", "add", task, "--task", task, "--arg", argument, "--delay", "1s", *tasks, folder=tmp_path)
    with working(*tasks, folder=tmp_path):
        listed = ("run", "list", "--status", "completed", "--json")
        eventually(lambda: len(results(asked(*listed, folder=tmp_path))) == 3, SECONDS, "they ran")
        assert set(map(str, results(asked(*listed, folder=tmp_path)))) == {"Hello Ann", "3", "120"}


def test_a_week_is_simulated(tmp_path: Path) -> None:
    assert shown("simulated_week.py", folder=tmp_path) == [
        "every day at 02:30 (Europe/Berlin)",
        "2026-03-27T02:30:00+01:00  completed",
        "2026-03-28T02:30:00+01:00  completed",
        "2026-03-29T03:00:00+02:00  completed",
        "2026-03-30T02:30:00+02:00  missed and 1 more",
        "2026-04-01T02:30:00+02:00  completed",
    ]


def test_a_prompt_wakes_the_agent_behind_a_webhook(tmp_path: Path) -> None:
    add = ("prompt", "add", "water the plants", "--agent", "remote", "--delay", "1s", "--json")
    with webhook_agent(tmp_path) as url:
        write_trusted(tmp_path, remote_agent(url, SECRET))
        id = str(json.loads(asked(*add, folder=tmp_path))["id"])
        with working(folder=tmp_path):
            eventually(
                lambda: "Done for local: water the plants" in asked("prompt", "history", id, "--json", folder=tmp_path),
                SECONDS,
                "it is done",
            )


@contextmanager
def webhook_agent(folder: Path) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "webhook_agent.py"), "0"],
        env=variables(folder) | {"AGENT_SECRET": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            port = Output(process).until(lambda line: line.startswith("listening")).split()[-1]
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()


def test_a_web_application_schedules_its_own_work(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "web_application.py"), "0"],
        cwd=tmp_path,
        env=variables(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            line = Output(process).until(lambda line: "running on http://" in line)
            url = f"http://{line.partition('http://')[2].split()[0]}/greetings"
            created = httpx.post(url, params={"name": "Ann"}).json()
            assert created["id"].startswith("job_") and "T" in created["next_run"]
            eventually(lambda: httpx.get(url).json() == ["Hello Ann"], SECONDS, "she was greeted")
            assert "clean_up" in asked("list", "--db", "web_application.db", folder=tmp_path)
        finally:
            process.kill()


def test_an_agent_of_a_framework_schedules_over_mcp(tmp_path: Path) -> None:
    script = [
        call("schedule", prompt="water the plants", at="2031-02-10 3:00 PM", timezone="Europe/Berlin"),
        say(lambda seen: f"I come back at {seen.data('schedule')['fire_at']}."),
    ]
    with ModelServer(script) as model:
        lines = shown("agent_framework.py", "Remind me", "on 10 February 2031", folder=tmp_path, **model.environment)
    assert lines == ["I come back at 2031-02-10T15:00:00+01:00."]
    assert json.loads(asked("prompt", "list", "--json", folder=tmp_path))["total"] == 1


def test_a_qstash_client_talks_to_duetime(tmp_path: Path) -> None:
    write_trusted(tmp_path, 'allowed_hosts = ["127.0.0.1"]\n')
    with Receiver() as receiver, serving(tmp_path) as served:
        where = {"QSTASH_URL": served.url.removesuffix("/mcp"), "QSTASH_TOKEN": served.token}
        published, scheduled, listed = shown("qstash_client.py", f"{receiver.url}/hook", folder=tmp_path, **where)
        assert json.loads(receiver.wait_for(1, SECONDS)[0].body) == {"hello": "now"}
    assert published.startswith("published msg_") and scheduled.startswith("scheduled scd_")
    assert listed == "schedules: ['CRON_TZ=Europe/Berlin 0 9 * * 1-5']"


def test_a_crontab_becomes_jobs_once_and_they_run(tmp_path: Path) -> None:
    write_trusted(tmp_path, 'tasks = ["duetime.kinds.command"]\n')
    bring = ("import", "crontab", str(EXAMPLES / "crontab"), "--yes", "--json")
    first = json.loads(asked(*bring, folder=tmp_path))["schedules"]
    assert [f"{each['name']}: {each['reads_as'].removesuffix(' (Europe/Berlin)')}" for each in first] == [
        "echo backing up: every day at 02:30",
        "echo looking at the queue: every 15 minutes from 08:00 through 18:59 on Monday through Friday",
        "echo tidying: at 00:00 on Sunday",
    ]
    asked(*bring, folder=tmp_path)
    assert json.loads(asked("job", "list", "--json", folder=tmp_path))["total"] == len(first), "nothing is made twice"
    asked("job", "run", first[0]["id"], folder=tmp_path)
    with working(folder=tmp_path):
        history = ("job", "history", first[0]["id"], "--json")
        eventually(lambda: "backing up" in json.dumps(results(asked(*history, folder=tmp_path))), SECONDS, "it ran")


def results(document: str) -> list[object]:
    return [run["result"] for run in json.loads(document)["runs"]]
