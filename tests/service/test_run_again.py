"""A run can be run again with an edited input, which is checked as at creation; its schedule keeps its own."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds.jobs.registry import Registry
from duetime.testing import Simulation
from tests.support.agent import Agent
from tests.support.api import Api, Client
from tests.support.cli import Cli
from tests.support.stage import NOON
from tests.support.workers import eventually


@pytest.fixture
def failed(api: Api, ada: Client) -> dict[str, Any]:
    made = ada.job(payload={"task": "fail"}, trigger={"type": "once", "run_at": "in 5 minutes"})
    api.pass_time(hours=1)
    [run] = ada.get(f"/schedules/{made['id']}/runs")["runs"]
    return dict(run)


def test_a_failed_run_tells_why(api: Api, ada: Client, failed: dict[str, Any]) -> None:
    whole = api.client("root", "operator").get(f"/runs/{failed['run_id']}")
    assert whole["traceback"].endswith("RuntimeError: as always") and "Traceback" in whole["traceback"]
    assert (whole["payload"]["task"], whole["own_payload"], whole["payload_changed"]) == ("fail", False, False)
    assert (whole["previous_run"], whole["following_run"], whole["next_attempt"]) == (None, None, None)
    whole = ada.get(f"/runs/{failed['run_id']}")
    assert whole["late_seconds"] >= 0 and whole["error"] == "RuntimeError: as always"
    assert (whole["worker"], whole["traceback"]) == (None, None), "workers and source code are the operator's"


def test_it_runs_with_the_edited_input_alone(api: Api, ada: Client, failed: dict[str, Any]) -> None:
    job = ada.job(payload={"task": "echo", "args": ["usual"]})["id"]
    api.pass_time(hours=1)
    first = ada.get(f"/schedules/{job}/runs")["runs"][0]
    again = ada.post(f"/runs/{first['run_id']}/again", {"fields": {"args": ["edited"]}}, 202)
    assert (again["cause"], again["schedule"], again["run_id"] > first["run_id"]) == ("manual", job, True)
    api.pass_time(minutes=1)
    done = ada.get(f"/runs/{again['run_id']}")
    assert done["own_payload"] and done["payload"]["args"] == ["edited"]
    assert "edited" in json.dumps(done["result"])
    assert ada.get(f"/schedules/{job}")["payload"]["args"] == ["usual"]
    repeated = ada.post(f"/runs/{again['run_id']}/again", {}, 202)
    api.pass_time(minutes=1)
    assert ada.get(f"/runs/{repeated['run_id']}")["payload"]["args"] == ["edited"], "that of the run it repeats"


def test_it_is_checked_as_at_creation(api: Api, ada: Client, failed: dict[str, Any]) -> None:
    path = f"/runs/{failed['run_id']}/again"
    before = ada.get("/runs")["total"]
    assert ada.refused("POST", path, 422, json={"fields": {"colour": "red"}})["field"] == "colour"
    ada.refused("POST", path, 422, json={"payload": {"task": "nothing"}})
    other = ada.refused("POST", path, 422, json={"payload": {"task": "echo", "args": ["x"]}})
    assert "create a schedule" in other["detail"]
    ada.refused("POST", path, 422, json={"payload": {"task": "fail"}, "fields": {"args": []}})
    api.client("bob").refused("POST", path, 404, json={})
    assert ada.get("/runs")["total"] == before, "what is refused leaves no run"


def test_it_is_run_again_from_a_terminal_and_from_python(cli: Cli, tmp_path: Path) -> None:
    assert (
        cli("job", "add", "cut", "--task", "shorten", "--arg", "a long text", "--arg", "0", "--every", "2h").code == 0
    )
    assert cli("job", "run", "cut").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.schedules("failed"), 20, "a failed run")
        id = duetime.history("cut")[0].run_id
        assert "Traceback (most recent call last)" in (duetime.run(id).traceback or "")
        shown = cli("run", "show", str(id))
        assert "Traceback (most recent call last)" in shown.out
        assert cli("run", "show", str(id), "--json").document["traceback"] == duetime.run(id).traceback
        for wrong in (("--set", "nonsense"), ("--payload", "[]"), ("--set", "colour=red"), ("--set", "task=echo")):
            refused = cli("run", "again", str(id), *wrong)
            assert refused.code == 2 and "Traceback" not in refused.err, (wrong, refused)
        assert cli("run", "again", "987").code == 3
        made = cli("run", "again", str(id), "--set", 'args=["a long text", 2]', "--json").document
        assert made["payload"]["args"] == ["a long text", 2]
        assert duetime.wait_for_run(made["run_id"], 20).status == "completed"
        again = duetime.run_again(id, fields={"args": ["a long text", 1]}, wait=20)
        assert (again.status, again.cause) == ("completed", "manual")
        assert "2" not in str(duetime.get("cut").payload["args"]), "the schedule keeps its own"


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_run_now_says_what_it_waits_for(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A run that failed waits for its next attempt; while its schedule is paused, it waits for the resume."""
    url = request.getfixturevalue("clean_postgres_url") if store == "postgres" else str(tmp_path / "my.db")
    registry = Registry()

    @registry.task
    def fails() -> None:
        raise RuntimeError("as always")

    with closing(Simulation(NOON, url=url, registry=registry)) as time:
        duetime = time.duetime
        ids = {
            overlap: duetime.schedule("fails", every="1h", name=overlap, overlap=overlap, max_attempts=3).id
            for overlap in ("skip", "queue")
        }
        agent = Agent(duetime.app.services, Caller(LOCAL), "UTC")

        def answer(overlap: str) -> str:
            told = agent.knows("run_now", schedule_id=ids[overlap])
            return str(told.get("error") or told["reason"])

        for id in ids.values():
            duetime.run_now(id)
        assert "an earlier run has not started yet" in answer("skip")
        assert answer("queue") == "it is queued behind an earlier run"
        time.settle()
        assert "an earlier run failed and is about to be retried" in answer("skip")
        for id in ids.values():
            duetime.pause(id)
        assert "its schedule is paused; resume it, or stop that run" in answer("skip")
        assert answer("queue") == "it is queued behind an earlier run, which waits until the schedule is resumed"
