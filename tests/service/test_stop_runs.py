"""Stopping what runs or waits, while its schedule goes on; as the tool `stop_run` and the command line answer it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duetime.kinds.jobs.registry import Registry
from duetime.service.operations import dead_letters
from duetime.service.operations import run as operations
from duetime.service.operations.declaration import Answer
from duetime.service.services import Call
from duetime.testing import Simulation
from tests.support.stage import NOON, PACIFIC, Stage

HOURLY = {"trigger_type": "interval", "trigger_config": {"hours": 1}}


def test_a_prompt_that_waits_or_was_taken_is_stopped_and_goes_on(both: Stage) -> None:
    number = both.make(cron="0 * * * *", name="hourly look")
    run = None
    for is_taken in (False, True):
        both.time.advance(timedelta(hours=1))
        run = both.ada.knows("take_prompt")["run_id"] if is_taken else None
        answer = both.ada.knows("stop_run", schedule_id="hourly look")
        [stopped] = answer["stopped"]
        assert stopped["status"] == "cancelled" and (run is None or stopped["run_id"] == run)
        following = f"2026-02-10T{14 + is_taken}:00:00-08:00"
        assert (answer["schedule_id"], answer["kind"], answer["next_run"]) == (str(number), "prompt", following)
        said = f"Run {stopped['run_id']} of hourly look is cancelled. Its schedule runs next at {following}."
        assert answer["confirmation"] == said
        assert both.ada.knows("take_prompt")["message"] == "Nothing is due."
    assert both.ada.hears("finish_prompt", run_id=run, result="done") == f"Run {run} is not yours to finish."
    both.time.advance(timedelta(hours=1))
    assert both.ada.knows("take_prompt")["id"] == number


def test_all_that_waits_of_one_schedule(both: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    number = both.make(every="1h", overlap="queue", untaken="keep")
    both.time.advance(timedelta(hours=3))
    assert len(both.ada.knows("history", status="live")["runs"]) == 3
    monkeypatch.setattr("duetime.mcp.run_tools._SHOWN", 2)
    answer = both.ada.knows("stop_run", schedule_id=number)
    assert (len(answer["stopped"]), answer["stopped_count"]) == (2, 3)
    assert both.ada.knows("history", status="live")["runs"] == []
    assert both.ada.knows("take_prompt")["message"] == "Nothing is due."


def test_what_runs_is_stopped_however_long_the_queue_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_PAGE", 30)
    registry, queued, ids = Registry(), 130, list[str]()
    answers: list[Answer[operations.StoppedRuns]] = []

    @registry.task
    def work() -> None:
        if not answers:
            for _ in range(queued):
                time.duetime.run_now(ids[0])
            call = Call(time.duetime.app.services, time.duetime.caller, PACIFIC)
            answers.append(operations.stop(call, operations.Stop(schedule=ids[0])))

    with Simulation(NOON, registry=registry) as time:
        ids.append(time.duetime.schedule("work", every=timedelta(hours=1), overlap="queue", queue_limit=500).id)
        time.advance(timedelta(hours=1))
        [answer] = answers
        said = " ".join(answer.notes)
        active, *rest = answer.value.runs
        assert (active.status, active.stop) == ("running", 1) and said.startswith(f"Run {active.id} of work was asked")
        assert {run.status for run in rest} == {"cancelled"}
        assert len(rest) == queued and len(said) < 1_500
        ended = {run.id: run.status for run in time.runs()}
        assert all(ended[run.id] == "cancelled" for run in rest)
        assert len(ended) == queued + 1


def test_a_one_off_and_one_that_is_paused(both: Stage) -> None:
    once = both.due()
    assert both.ada.knows("stop_run", schedule_id=once)["confirmation"].endswith("Its schedule does not run again.")
    recurring = both.make(every="1h")
    both.time.advance(timedelta(hours=1))
    both.ada.knows("pause_schedule", schedule_id=str(recurring))
    answer = both.ada.knows("stop_run", schedule_id=recurring)
    assert answer["confirmation"].endswith("Its schedule is paused.") and answer["next_run"] is None


def test_what_is_refused(both: Stage) -> None:
    ada, bob = both.ada, both.agent("bob")
    job = ada.knows("schedule_job", {"name": "hello", "task": "echo", "args": ["hi"], **HOURLY})["job_id"]
    nothing = "none of its runs is in progress or waits, so there is nothing to stop"
    assert ada.knows("stop_run", schedule_id=job) == {"error": nothing}
    both.time.advance(timedelta(hours=1))
    run = ada.knows("history")["runs"][0]["run_id"]
    assert ada.knows("stop_run", run_id=run) == {"error": f"run {run} is completed, so there is nothing to stop"}
    both_given = "Give exactly one of schedule_id and run_id."
    assert ada.knows("stop_run", schedule_id=job, run_id=run) == {"error": both_given} == ada.knows("stop_run")
    due = both.due()
    waiting = ada.knows("history", status="live")["runs"][0]["run_id"]
    assert bob.knows("stop_run", run_id=waiting) == {"error": f"Run not found: {waiting}"}
    assert bob.knows("stop_run", run_id=999) == {"error": "Run not found: 999"}
    assert "Not found" in bob.knows("stop_run", schedule_id=due)["error"]
    assert bob.knows("run_now", run_id=run) == {"error": f"Run not found: {run}"}
    assert len(ada.knows("history", status="live")["runs"]) == 1


def test_a_failed_run_is_tried_again(both: Stage) -> None:
    both.due("say it")
    run = both.ada.knows("take_prompt")["run_id"]
    both.ada.use("finish_prompt", run_id=run, error="no voice")
    again = both.ada.knows("run_now", run_id=run)
    assert again["run"]["run_id"] == run and again["ended"] is False
    both.time.settle()
    assert both.ada.knows("take_prompt")["run_id"] == run
    assert "cannot be" in both.ada.knows("run_now", run_id=run)["error"]
