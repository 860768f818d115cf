"""Stopping what runs or waits, while its schedule goes on; as the tool `stop_run` and the command line answer it."""

from __future__ import annotations

from datetime import timedelta

from tests.support.stage import Stage

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


def test_all_that_waits_of_one_schedule(both: Stage) -> None:
    number = both.make(every="1h", overlap="queue", untaken="keep")
    both.time.advance(timedelta(hours=3))
    assert len(both.ada.knows("history", status="live")["runs"]) == 3
    assert len(both.ada.knows("stop_run", schedule_id=number)["stopped"]) == 3
    assert both.ada.knows("history", status="live")["runs"] == []
    assert both.ada.knows("take_prompt")["message"] == "Nothing is due."


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
    assert ada.knows("stop_run", run_id=run) == {"error": "it is completed, so it cannot be cancelled"}
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
