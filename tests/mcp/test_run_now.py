"""`run_now` over real transports: the outcome is in the answer and in the history, and waiting blocks nobody else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from duetime.engine.store import RunQuery
from tests.support.agents import ERAS, call, over_http, over_stdio, serving, talk
from tests.support.web import Reply, Site, site

DAILY = {"trigger_type": "cron", "trigger_config": {"expression": "0 3 * * *"}}
SLOW = """
import threading
from pathlib import Path
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import task

@task
def slow() -> str:
    while not Path(__file__).with_name("done").exists():
        threading.Event().wait(0.02)
    return "slow is done"

@task
def patient(context: TaskContext) -> None:
    if context.cancelled.wait(60):
        raise RuntimeError("stopped")

@task
def broken() -> None:
    raise RuntimeError("no water, token=hunter2hunter2")
"""


async def check_outcomes(client: Client) -> None:
    made = await call(client, "schedule_job", name="hello", task="echo", args=["hi"], **DAILY)
    answer = await call(client, "run_now", schedule_id=made["job_id"], wait_seconds=20)
    assert set(answer) == {"run", "ended"} and answer["ended"] is True
    ran = answer["run"]
    assert (ran["status"], ran["result"], ran["attempts"]) == ("completed", "hi", 1)
    assert (ran["id"], ran["kind"], ran["cause"]) == (made["job_id"], "job", "manual")
    assert ran["duration_seconds"] >= 0
    kept = await call(client, "history", schedule_id=made["job_id"])
    assert kept["total"] == 1 and kept["runs"][0]["run_id"] == ran["run_id"] and kept["runs"][0]["result"] == "hi"

    for which in ({"schedule_id": made["job_id"]}, {"run_id": ran["run_id"]}):
        edited = await call(client, "run_now", **which, fields={"args": ["edited"]}, wait_seconds=20)
        assert edited["run"]["result"] == "edited" and edited["run"]["run_id"] != ran["run_id"]
    wrong = await call(client, "run_now", schedule_id=made["job_id"], fields={"colour": "red"})
    assert "colour" in wrong["error"]

    failing = await call(client, "schedule_job", name="failing", task="broken", **DAILY)
    ran = (await call(client, "run_now", schedule_id=failing["job_id"], wait_seconds=20))["run"]
    assert ran["status"] == "failed" and "no water" in ran["error"] and "hunter2" not in json.dumps(ran)
    failed = await call(client, "history", status="failed", **{"from": "yesterday"})  # midnight may have passed
    assert [row["run_id"] for row in failed["runs"]] == [ran["run_id"]]


@pytest.mark.later
@pytest.mark.parametrize("era", ERAS)
def test_over_stdio(era: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SLOW)

    async def say(client: Client) -> None:
        await check_outcomes(client)
        tea = {"message": "tea", "notification_topic": "kitchen", "cron": "0 3 * * *", "timezone": "UTC"}
        told = await call(client, "schedule_cron_notification", **tea)
        ran = (await call(client, "run_now", schedule_id=told["schedule_id"], wait_seconds=20))["run"]
        assert (ran["kind"], ran["status"], ran["result"]["topic"]) == ("notification", "completed", "kitchen")
        prompt = await call(client, "schedule", prompt="water the plants", cron="0 3 * * *")
        answer = await call(client, "run_now", schedule_id=prompt["id"], wait_seconds=0.3)
        ran = answer["run"]
        assert (answer["ended"], answer["reason"]) == (False, "no agent has taken it")
        assert f"run_id {ran['run_id']}" in answer["note"] and ran["id"] == prompt["id"]

    talk(over_stdio(tmp_path, era, "--tasks", "mine.py"), say)


def test_a_client_that_waits_can_ask_for_other_things(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SLOW)

    async def say(client: Client) -> None:
        made = await call(client, "schedule_job", name="slow", task="slow", **DAILY)
        answers: list[str] = []
        patient = await call(client, "schedule_job", name="patient", task="patient", **DAILY)
        run = (await call(client, "run_now", schedule_id="patient"))["run"]["run_id"]
        while (await call(client, "history", run_id=run))["runs"][0]["status"] != "running":
            await anyio.sleep(0.05)
        stopped = await call(client, "stop_run", schedule_id="patient")
        assert stopped["confirmation"].startswith(f"Run {run} of patient was asked to stop. Its schedule runs next at ")
        while (ended := (await call(client, "history", run_id=run))["runs"][0])["status"] == "running":
            await anyio.sleep(0.05)
        assert ended["status"] == "cancelled"
        assert (await call(client, "job_status", job_id=patient["job_id"]))["status"] == "pending"

        async def wait() -> None:
            ran = await call(client, "run_now", schedule_id=made["job_id"], wait_seconds=30)
            answers.append(ran["run"]["result"])

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while (await call(client, "history", status="live"))["total"] != 1:
                await anyio.sleep(0.05)
            busy = await call(client, "run_now", schedule_id=made["job_id"], wait_seconds=30)
            assert "already running" in busy["error"]
            assert (await call(client, "history", status="live"))["total"] == 1, "only the slow one runs"
            answers.append("other things")
            (tmp_path / "done").touch()
        assert answers == ["other things", "slow is done"]

    talk(over_stdio(tmp_path, "2026-07-28", "--tasks", "mine.py"), say)


def test_over_http(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SLOW)
    with serving(tmp_path, "--tasks", "mine.py") as served:
        talk(over_http(served.url, served.token, "2026-07-28"), check_outcomes)


def test_what_is_refused_starts_nothing(tmp_path: Path) -> None:
    async def say(client: Client) -> None:
        assert "error" in await call(client, "run_now", schedule_id="job_9_9")
        made = await call(client, "schedule_job", name="hello", task="echo", args=["hi"], **DAILY)
        for seconds in (61, -1):
            refused = await client.call_tool("run_now", {"schedule_id": made["job_id"], "wait_seconds": seconds})
            assert refused.is_error and "wait_seconds must be at" in refused.content[0].text  # type: ignore[union-attr]
        await call(client, "cancel_job", job_id=made["job_id"])
        assert "cancelled" in (await call(client, "run_now", schedule_id=made["job_id"]))["error"]
        assert (await call(client, "history"))["runs"] == []

    talk(over_stdio(tmp_path, "2026-07-28"), say)


# -- shares of owners ---------------------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Site]:
    """A server without a worker: whoever waits for a run waits in vain."""
    with site(tmp_path) as made:
        yield made


def job(there: Site, headers: dict[str, str]) -> str:
    body = {
        "kind": "job",
        "name": "hello",
        "trigger": {"type": "interval", "hours": 1},
        "payload": {"task": "echo", "args": [1]},
        "policy": {"overlap": "allow"},
    }
    sent = {**headers, "Content-Type": "application/json"}
    id: str = there.ask("POST", "/api/v1/schedules", sent, json.dumps(body).encode()).json["id"]
    return id


def test_an_owner_has_a_share_of_waits(there: Site) -> None:
    headers = there.bearer("ada")
    id = job(there, headers)
    entered = threading.Barrier(12)

    def run(_: int) -> Reply:
        entered.wait(30)
        return there.ask("POST", f"/api/v1/schedules/{id}/run?wait_seconds=5", headers)

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(run, range(12)))
    assert sorted(answer.status for answer in answers) == [202] * 8 + [429] * 4
    assert there.room.store.runs(RunQuery()).total == 8, "what was refused started nothing"
    [refused, *_] = [answer.json for answer in answers if answer.status == 429]
    assert "Nothing was started" in refused["detail"]
    late = there.ask("POST", f"/api/v1/schedules/{id}/run?wait_seconds=0.1", headers)
    assert (late.status, late.json["ended"], late.json["reason"]) == (202, False, "no worker is running")


def test_whoever_waits_occupies_no_thread(there: Site) -> None:
    """More callers wait than there are threads for their owner, and others of theirs are answered."""
    headers = there.bearer("local")
    id = job(there, headers)
    waiting = 40

    def run(_: int) -> Any:
        return there.ask("POST", f"/api/v1/schedules/{id}/run?wait_seconds=6", headers).status

    with ThreadPoolExecutor(waiting) as threads:
        statuses = threads.map(run, range(waiting))
        while there.room.store.runs(RunQuery()).total < waiting:
            threading.Event().wait(0.05)
        before = there.room.clock.monotonic()
        assert there.ask("GET", "/api/v1/runs", headers).json["total"] == waiting
        assert there.room.clock.monotonic() - before < 4, "before the first of them had waited long enough"
        assert list(statuses) == [202] * waiting
