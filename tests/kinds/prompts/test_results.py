"""What came of a prompt, as an agent that did not do it learns of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from duetime.engine.kind import Caller
from duetime.engine.outcome import Completed
from tests.support.stage import PACIFIC, Stage
from tests.support.wordings import ID_OR_RUN

ANSWER = {
    "text": "Two of them failed.",
    "agent": "coder",
    "outcome": {"failed": 2},
    "tool_calls": [{"name": "list_jobs", "arguments": {}, "result": "..."}],
    "usage": {"input_tokens": 7},
}
"""As it is kept of an agent that was woken."""


def done(stage: Stage, answer: dict[str, Any] | None = None) -> int:
    """The prompt that waits is done; as an agent that was woken leaves it where there is an answer."""
    run_id: int = stage.ada.knows("take_prompt")["run_id"]
    if answer is None:
        stage.ada.use("finish_prompt", run_id=run_id, result="Watered.")
    else:
        stage.app.scheduler.finish(Caller("ada"), run_id, Completed(json.dumps(answer)))
    return run_id


def test_the_latest_run_by_the_number_of_its_task(both: Stage) -> None:
    number = both.due("say how many jobs failed")
    run_id = done(both, ANSWER)
    assert both.ada.knows("prompt_result", id=number) == {
        "id": number,
        "run_id": run_id,
        "status": "completed",
        "due": "2026-02-10T12:01:00-08:00",
        "finished": "2026-02-10T12:01:00-08:00",
        "result": "Two of them failed.",
        "outcome": {"failed": 2},
        "agent": "coder",
        "name": "say how many jobs failed",
        "prompt": "say how many jobs failed",
        "timezone": PACIFIC,
    }
    when = "Feb 10, 2026 12:01 PM PST"
    assert both.ada.hears("prompt_result", id=number) == (
        f"Run {run_id} of task #{number}, due {when}: completed on {when}.\n"
        "The prompt, as data: say how many jobs failed\n"
        "What was answered, as data:\n\nTwo of them failed."
    )


def test_credentials_in_an_answer_are_not_shown(stage: Stage) -> None:
    """As in every other face: whoever asks what came of it may be another agent."""
    number = stage.due()
    said = "The key is api_key=hunter2, as you asked."
    run_id = done(stage, {**ANSWER, "text": said, "outcome": {"password": "hunter2", "failed": 2}})
    known = stage.ada.knows("prompt_result", id=number)
    assert known["result"] == "The key is api_key=*** as you asked."
    assert known["outcome"] == {"password": "***", "failed": 2}
    whole = stage.ada.reads(f"prompts://runs/{run_id}")
    assert "hunter2" not in f"{stage.ada.hears('prompt_result', id=number)}{whole}"
    assert whole is not None and whole["result"]["usage"] == {"input_tokens": 7}


def test_a_run_by_its_own_number_in_another_zone(stage: Stage) -> None:
    stage.due()
    run_id = done(stage)
    told = stage.ada.knows("prompt_result", run_id=run_id, timezone="UTC")
    assert (told["result"], told["finished"], told["timezone"]) == ("Watered.", "2026-02-10T20:01:00+00:00", "UTC")
    assert "agent" not in told and "earlier" not in told


def test_the_runs_before_it_can_be_asked_for(both: Stage) -> None:
    number = both.make(every="1 hour", at="in 1 minute")
    runs = []
    for wait in (1, 60, 60):
        both.time.advance(timedelta(minutes=wait))
        runs.append(done(both))
    both.time.advance(timedelta(hours=1))
    told = both.ada.knows("prompt_result", id=number)
    assert told["status"] == "waiting" and "result" not in told and "finished" not in told
    assert [each["run_id"] for each in told["earlier"]] == runs[::-1]
    assert told["earlier"][0] == {"run_id": runs[-1], "due": "2026-02-10T14:01:00-08:00", "status": "completed"}
    first, prompt, second = both.ada.hears("prompt_result", id=number).split("\n")
    assert prompt == "The prompt, as data: water the plants"
    assert first == f"Run {told['run_id']} of task #{number}, due Feb 10, 2026 3:01 PM PST: waiting."
    assert second.startswith(f"Earlier runs: {runs[2]} (completed, due Feb 10, 2026 2:01 PM PST), {runs[1]} (")
    assert both.ada.knows("prompt_result", run_id=runs[0])["result"] == "Watered."


def test_why_it_failed(stage: Stage) -> None:
    number = stage.due(max_attempts=2)
    run_id = stage.ada.knows("take_prompt")["run_id"]
    stage.ada.use("finish_prompt", run_id=run_id, error="no\nwater")
    told = stage.ada.use("prompt_result", id=number)
    assert told.structured["status"] == "pending" and told.structured["reason"] == "no\nwater"
    assert told.text is not None and told.text.endswith("plants\nWhy: no\ufffdwater"), "in one line"
    stage.time.advance(timedelta(minutes=1))
    stage.ada.use("finish_prompt", run_id=stage.ada.knows("take_prompt")["run_id"], error="none")
    assert stage.ada.knows("prompt_result", id=number)["status"] == "failed"


def test_credentials_in_the_reason_are_not_shown(stage: Stage) -> None:
    number = stage.due()
    stage.ada.use("finish_prompt", run_id=stage.ada.knows("take_prompt")["run_id"], error="no entry: api_key=hunter2")
    told = stage.ada.use("prompt_result", id=number)
    assert told.structured["reason"] == "no entry: api_key=***"
    assert told.text is not None and told.text.endswith("Why: no entry: api_key=***")


def test_the_prompt_is_that_of_the_run(both: Stage) -> None:
    """Only the words of now are kept: those of another time are not passed off as what was done."""
    number = both.make(every="1 hour", at="in 1 minute")
    both.time.advance(timedelta(minutes=1))
    before = done(both)
    both.time.advance(timedelta(minutes=5))
    both.ada.use("schedule_edit", id=number, prompt="feed the cat")
    told = both.ada.knows("prompt_result", id=number)
    assert (told["name"], told["edited_since"]) == ("water the plants", "2026-02-10T12:06:00-08:00")
    assert "prompt" not in told
    kept = both.ada.reads(f"prompts://runs/{before}")
    assert kept is not None and (kept["name"], kept["prompt"]) == ("water the plants", None)
    both.time.advance(timedelta(hours=1))
    told = both.ada.knows("prompt_result", run_id=done(both))
    assert (told["prompt"], told["name"]) == ("feed the cat", "feed the cat") and "edited_since" not in told


def test_what_is_deleted_is_still_told_of(stage: Stage) -> None:
    number = stage.due()
    run_id = done(stage)
    stage.app.scheduler.delete(Caller("ada"), str(number), "prompt")
    for asked in ({"id": number}, {"run_id": run_id}):
        told = stage.ada.knows("prompt_result", asked)
        assert (told["result"], told["name"]) == ("Watered.", "water the plants") and "prompt" not in told


def test_what_there_is_not(stage: Stage) -> None:
    number = stage.make(at="15:00")
    assert stage.ada.hears("prompt_result", id=number) == (
        f"Task #{number} has not run yet; it is set for Feb 10, 2026 3:00 PM PST."
    )
    for missing in (4711, 0, -1, 2**70):
        assert stage.ada.hears("prompt_result", id=missing) == f"Task #{missing} not found."
        assert stage.ada.hears("prompt_result", run_id=missing) == f"Run {missing} not found."
    for given in ({}, {"id": 1, "run_id": 1}):
        assert stage.ada.hears("prompt_result", given) == ID_OR_RUN


def test_what_is_no_prompt_or_somebody_elses(stage: Stage) -> None:
    trigger = {"trigger_type": "interval", "trigger_config": {"hours": 1}}
    stage.ada.use("schedule_job", trigger, name="x", task="echo", kwargs={"value": 1})
    stage.time.advance(timedelta(hours=1))
    [job_run] = stage.time.runs()
    assert stage.ada.hears("prompt_result", run_id=job_run.id) == f"Run {job_run.id} not found."
    assert stage.ada.hears("prompt_result", id=job_run.schedule) == f"Task #{job_run.schedule} not found."
    number = stage.due()
    run_id = done(stage)
    bob = stage.agent("bob")
    assert bob.hears("prompt_result", id=number) == f"Task #{number} not found."
    assert bob.hears("prompt_result", run_id=run_id) == f"Run {run_id} not found."


def test_a_list_says_which_have_run(stage: Stage) -> None:
    stage.make(at="15:00")
    stage.make("feed the cat", every="1 hour", at="in 1 minute")
    stage.time.advance(timedelta(minutes=1))
    done(stage)
    rows = {row["prompt"]: row for row in stage.ada.knows("schedule_list")["tasks"]}
    assert not {"last_run", "last_status"} & set(rows["water the plants"])
    assert (rows["feed the cat"]["last_status"], rows["feed the cat"]["last_run"]) == (
        "completed",
        "2026-02-10T12:01:00-08:00",
    )


def test_a_notification_names_the_run_that_it_tells_of(stage: Stage) -> None:
    """Whoever answers it can be asked about, and the agent finds what was meant."""
    number = stage.due(deliver_to="garden")
    run_id = done(stage)
    stage.time.settle()
    [message] = [json.loads(run.result or "") for run in stage.time.runs() if run.kind == "notification"]
    assert (message["topic"], message["tags"]) == ("garden", ["white_check_mark", f"run-{run_id}"])
    assert stage.ada.knows("prompt_result", run_id=run_id)["id"] == number


def test_a_run_is_preferred_to_occurrences_that_did_not_run(both: Stage) -> None:
    number = both.make(every="1 hour", at="in 1 minute")
    both.time.advance(timedelta(minutes=1))
    run_id = both.ada.knows("take_prompt")["run_id"]
    both.time.advance(timedelta(minutes=5))
    both.app.scheduler.pause(Caller("ada"), str(number))
    both.time.advance(timedelta(hours=2))
    both.app.scheduler.resume(Caller("ada"), str(number))
    told = both.ada.knows("prompt_result", id=number)
    assert told["run_id"] == run_id and "earlier" not in told
    assert [(each["status"], each["due"]) for each in told["not_run_since"]] == [
        ("skipped", "2026-02-10T13:01:00-08:00")
    ]
    assert "Since then it did not run: " in both.ada.hears("prompt_result", id=number)
