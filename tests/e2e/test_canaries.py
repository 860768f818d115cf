"""Secrets that are planted wherever a user may put one turn up in no log, answer, page, alert or metric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.agents import Served, serving
from tests.support.cli import start
from tests.support.receiver import Behaviour, Receiver, Request
from tests.support.settings import write_trusted
from tests.support.workers import eventually

MARK = "C4N4RY"
TASKS = """
import os
from duetime.kinds.jobs.registry import task

@task
def sign_in(api_key: str, url: str) -> None:
    raise RuntimeError(f"cannot sign in at {url} with {api_key}")

@task(isolation="process")
def sign_in_apart(api_key: str) -> None:
    raise RuntimeError(f"cannot sign in with {api_key!r}")

@task
def quote_environment() -> None:
    raise RuntimeError(f"{os.environ['CRM_API_KEY']} {os.environ['DUETIME_SECRET']}")

@task
def quote_header(headers: dict) -> None:
    raise RuntimeError(f"refused: {headers}")
"""
SECRET = f"{MARK}-the-secret-that-signs-tokens-and-is-at-least-64-bytes-long-{MARK}"
ENVIRONMENT = {"DUETIME_SECRET": SECRET, "CRM_API_KEY": f"{MARK}-of-the-environment"}
ONCE = {"max_attempts": 1}


def echoing(request: Request) -> Behaviour:
    """Answers with whatever it was sent, as careless services do."""
    said = (
        f"you sent {request.headers.get('authorization')} {request.headers.get('x-api-key')} ".encode() + request.body
    )
    return Behaviour(400, {"X-Seen": request.headers.get("authorization", "-")}, said)


class Planted(NamedTuple):
    served: Served
    token: str
    log: Path
    wanted: int

    @property
    def url(self) -> str:
        return self.served.url.removesuffix("/mcp")

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.request(method, self.url + path, headers=headers, timeout=20, **more)

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", "/api/v1/runs?limit=200").json()["runs"]
        return found


def settings(receiver: Receiver) -> str:
    return f"""
tasks = ["tasks.py"]
allowed_hosts = ["127.0.0.1"]
[notifications]
alerts = "inbox"
[channels.phone]
url = "{receiver.url}/hooks/{MARK}-of-the-channel?token={MARK}-in-the-query"
headers = {{ Authorization = "Bearer {MARK}-of-the-channel-header" }}
[agents.script]
command = ["sh", "-c", "cat >&2; echo token={MARK}-of-the-program >&2; exit 3"]
"""


def schedules(receiver: Receiver) -> list[dict[str, Any]]:
    def job(task: str, **kwargs: Any) -> dict[str, Any]:
        return {"kind": "job", "payload": {"task": task, "kwargs": kwargs}, "policy": {**ONCE, "deliver_to": "told"}}

    headers = {"Authorization": f"Bearer {MARK}-of-a-request", "X-Api-Key": f"{MARK}-of-a-header"}
    body = json.dumps({"password": f"{MARK}-of-a-body"})
    request = {"url": f"{receiver.url}/?api_key={MARK}-of-a-url", "headers": headers, "body": body, "retries": 0}
    return [
        job("sign_in", api_key=f"{MARK}-of-an-argument", url=f"https://ada:{MARK}-user@crm.example.org/?sig={MARK}"),
        job("sign_in_apart", api_key=f"{MARK}-of-a-process"),
        job("quote_environment"),
        job("quote_header", headers=headers),
        {"kind": "request", "payload": request},
        {"kind": "notification", "payload": {"message": "hi", "topic": "phone"}, "policy": ONCE},
        {
            "kind": "prompt",
            "payload": {"prompt": f"use password={MARK}-of-a-prompt", "agent": "script"},
            "policy": ONCE,
        },
    ]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """Everything has run and failed."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "tasks.py").write_text(TASKS)
    with Receiver(echoing) as receiver:
        write_trusted(folder, settings(receiver))
        wanted = schedules(receiver)
        with serving(folder, "--verbose", env=ENVIRONMENT) as served:
            there = Planted(served, served.token, folder / "log", len(wanted))
            for number, each in enumerate(wanted):
                given = {"name": f"number {number}", "trigger": {"type": "once", "run_at": "now"}, **each}
                made = there.ask("POST", "/api/v1/schedules", json=given)
                assert made.status_code == 201, made.text
            eventually(lambda: _failed(there) >= there.wanted, 30, "all have failed")
            yield there


def _failed(there: Planted) -> int:
    return sum(run["status"] == "failed" for run in there.runs())


def refused(shown: str) -> None:
    place = shown.find(MARK)
    assert place < 0, shown[max(0, place - 300) : place + 100]


def test_every_run_failed_and_says_why(planted: Planted) -> None:
    errors = " ".join(str(run["error"]) for run in planted.runs())
    assert "cannot sign in at https://" in errors
    assert "***" in errors
    refused(errors)


@pytest.mark.parametrize(
    "path", ["/schedules", "/runs", "/dead", "/inbox", "/upcoming", "/health", "/agents", "/channels", "/workers"]
)
def test_no_answer_of_the_api_holds_one(planted: Planted, path: str) -> None:
    refused(planted.ask("GET", f"/api/v1{path}").text)


def test_no_run_and_no_attempt_holds_one(planted: Planted) -> None:
    for run in planted.runs():
        refused(planted.ask("GET", f"/api/v1/runs/{run['run_id']}").text)
        refused(planted.ask("GET", f"/api/v1/runs/{run['run_id']}/attempts").text)


def test_no_metric_holds_one(planted: Planted) -> None:
    refused(planted.ask("GET", "/metrics").text)


def test_no_page_holds_one(planted: Planted) -> None:
    link = _command(planted, "token", "link", "--db", "my.db", "--port", planted.url.rpartition(":")[2]).strip()
    with httpx2.Client(base_url=planted.url, follow_redirects=True, timeout=20) as browser:
        assert browser.get(link).status_code == 200
        pages = ["/", "/timeline", "/schedules", "/runs", "/inbox", "/dead-letters"]
        pages += [f"/runs/{run['run_id']}" for run in planted.runs()]
        pages += [f"/schedules/{run['schedule']}" for run in planted.runs()]
        pages += [f"/schedules/{run['schedule']}/edit" for run in planted.runs()]
        seen = [browser.get(page) for page in pages]
    assert sum(page.status_code == 200 for page in seen) > 20
    refused("".join(page.text for page in seen))


@pytest.mark.parametrize(
    "command",
    [
        ("job", "list", "--json"),
        ("run", "list", "--json"),
        ("dead", "list", "--json"),
        ("notify", "list", "--json"),
        ("doctor",),
    ],
)
def test_no_command_prints_one(planted: Planted, command: tuple[str, ...]) -> None:
    refused(_command(planted, *command, "--db", "my.db"))


def test_what_followed_tells_of_the_failures_without_them(planted: Planted) -> None:
    arrived = planted.ask("GET", "/api/v1/inbox").text
    assert "cannot sign in" in arrived
    refused(arrived)


def test_the_log_holds_none(planted: Planted) -> None:
    """Last: the server ends here."""
    planted.served.process.terminate()
    planted.served.process.wait(30)
    assert planted.served.process.stderr is not None
    log = planted.served.process.stderr.read() + planted.served.output.rest()
    assert "Traceback" in log
    refused(log)


def _command(planted: Planted, *arguments: str) -> str:
    process = start(*arguments, folder=planted.served.folder, env=ENVIRONMENT)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, 1), err
    return out + err
