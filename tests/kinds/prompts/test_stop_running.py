"""`schedule_cancel` with `stop_running`: a prompt that is taken or runs can be stopped by whoever may cancel it."""

from __future__ import annotations

from datetime import timedelta

from duetime.engine.clock import Instant
from duetime.engine.kind import Caller
from tests.support.agent import Agent
from tests.support.stage import Stage
from tests.support.wordings import not_cancelled


def state(stage: Stage, number: int) -> tuple[str, Instant, int]:
    found = stage.app.store.find(str(number))
    assert found is not None
    return found.progress.state, found.definition.updated, found.definition.version


def test_one_that_is_taken_is_cancelled_only_if_asked_for(both: Stage) -> None:
    number = both.make(every="1 hour", at="in 1 minute")
    both.time.advance(timedelta(minutes=1))
    run_id = both.ada.knows("take_prompt")["run_id"]
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)
    assert both.ada.hears("schedule_cancel", id=number, stop_running=True) == f"Cancelled task #{number}."
    assert both.ada.hears("finish_prompt", run_id=run_id, result="done") == f"Run {run_id} is not yours to finish."
    before = state(both, number)
    both.time.advance(timedelta(minutes=5))
    for stop in (True, False):
        assert both.ada.hears("schedule_cancel", id=number, stop_running=stop) == not_cancelled(number)
    assert state(both, number) == before and before[0] == "cancelled"
    both.time.advance(timedelta(hours=3))
    assert both.ada.knows("take_prompt") == {"message": "Nothing is due."}


def test_one_that_a_worker_runs_is_asked_to_stop(both: Stage) -> None:
    """The second call finds it cancelled, although its run has not ended yet."""
    number = both.make(every="3s", at="in 1 minute")
    both.time.clock.move_to(Instant(both.time.clock.now() + 60_000_000))
    both.time.crash()  # a worker has claimed it, and does not end it
    [run] = both.time.runs()
    assert run.status == "running"
    assert both.ada.hears("schedule_cancel", id=number) == not_cancelled(number)
    assert both.ada.hears("schedule_cancel", id=number, stop_running=True) == f"Cancelled task #{number}."
    [run] = both.time.runs()
    assert (run.status, run.stop) == ("running", 1)
    assert both.ada.hears("schedule_cancel", id=number, stop_running=True) == not_cancelled(number)


def test_others_and_what_is_over_stay_as_they_are(stage: Stage) -> None:
    number = stage.due()
    bob: Agent = stage.agent("bob")
    assert bob.hears("schedule_cancel", id=number, stop_running=True) == not_cancelled(number)
    stage.ada.use("finish_prompt", run_id=stage.ada.knows("take_prompt")["run_id"], result="done")
    assert stage.ada.hears("schedule_cancel", id=number, stop_running=True) == not_cancelled(number)
    assert stage.ada.hears("schedule_cancel", id=999, stop_running=True) == not_cancelled(999)
    assert stage.ada.knows("schedule_list", status="completed")["total"] == 1


def test_from_python(stage: Stage) -> None:
    duetime = stage.time.duetime
    duetime.caller = Caller("ada")
    number = stage.due()
    stage.ada.use("take_prompt")
    assert duetime.cancel_scheduled_task(number) == 0
    assert duetime.cancel_scheduled_task(number, stop_running=True) == 1
    assert duetime.cancel_scheduled_task(number, stop_running=True) == 0
