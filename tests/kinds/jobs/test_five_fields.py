"""Jobs take cron expressions with five fields. Those with seconds that were stored before go on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime import DuetimeError
from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.triggers.cron import WITHOUT_SECONDS
from duetime.engine.validation import NewSchedule
from tests.support.api import serving_api
from tests.support.cli import Cli
from tests.support.refusals import refusal_of
from tests.support.stage import Stage

SECONDS = "*/10 * * * * *"
JOB = {"name": "x", "task": "echo", "args": ["hi"], "trigger_type": "cron"}
REFUSED = {"error": f"Invalid cron expression: {SECONDS}", "hint": WITHOUT_SECONDS}


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage(":memory:")
    yield stage
    stage.time.close()


def stored(stage: Stage) -> str:
    """Store a job as an earlier version did, which is how an import restores it."""
    now = stage.app.clock.now()
    new = NewSchedule("job", "old", "cron", {"expression": SECONDS}, {"task": "echo", "args": ["hi"]})
    made = stage.app.scheduler.create(Caller("ada"), new._replace(first=Instant(now + 10 * SECOND)))
    return made.definition.public_id


def test_a_new_job_is_refused_with_the_error_of_the_contract_and_a_hint(stage: Stage) -> None:
    assert stage.ada.knows("schedule_job", {**JOB, "trigger_config": {"expression": SECONDS}}) == REFUSED
    shown = stage.ada.knows("preview_schedule", trigger_type="cron", trigger_config={"expression": SECONDS})
    assert shown == REFUSED
    in_words = stage.ada.knows("schedule_job", {**JOB, "trigger_config": {}, "when": SECONDS})
    assert in_words == {**REFUSED, "error": f"when: {REFUSED['error']}"}
    spaced = stage.ada.knows("schedule_job", {**JOB, "trigger_config": {"expression": f" {SECONDS}  "}})
    assert spaced["error"] == f"Invalid cron expression:  {SECONDS}  "
    assert stage.ada.knows("list_jobs")["total"] == 0


def test_other_malformed_expressions_have_the_error_alone(stage: Stage) -> None:
    answer = stage.ada.knows("schedule_job", {**JOB, "trigger_config": {"expression": "0 */2 * *"}})
    assert answer == {"error": "Invalid cron expression: 0 */2 * *"}


@pytest.mark.parametrize("given", [{"cron": SECONDS}, {"when": SECONDS}])
def test_an_edit_is_refused_in_the_same_way(stage: Stage, given: dict[str, Any]) -> None:
    made = stage.ada.knows("schedule_job", {**JOB, "trigger_config": {"expression": "0 9 * * *"}})
    answer = stage.ada.knows("edit_schedule", schedule_id=made["job_id"], **given)
    assert answer["error"].endswith(REFUSED["error"]) and answer["hint"] == WITHOUT_SECONDS
    assert stage.ada.knows("job_status", job_id=made["job_id"])["trigger_config"] == {"expression": "0 9 * * *"}


def test_one_that_was_stored_before_fires_and_can_be_edited_in_everything_else(stage: Stage) -> None:
    id = stored(stage)
    stage.time.advance(timedelta(seconds=35))
    assert stage.ada.knows("job_status", job_id=id)["run_count"] == 3
    edits: list[dict[str, Any]] = [
        {"name": "another"},
        {"args": ["bye"]},
        {"max_attempts": 2},
        {"max_attempts": 3, "args": ["again"]},
        {"cron": SECONDS},
        {"end": "2027-01-01T00:00:00Z"},
        {"cron": SECONDS, "timezone": "UTC"},
    ]
    for edit in edits:
        assert "error" not in stage.ada.knows("edit_schedule", schedule_id=id, **edit), edit
    assert stage.ada.knows("edit_schedule", schedule_id=id, cron="*/5 * * * * *")["hint"] == WITHOUT_SECONDS
    assert stage.ada.knows("job_status", job_id=id)["trigger_config"]["expression"] == SECONDS
    stage.time.advance(timedelta(seconds=20))
    assert stage.ada.knows("job_status", job_id=id)["run_count"] == 5


def test_a_key_that_created_one_before_returns_it(stage: Stage) -> None:
    scheduler, caller = stage.app.scheduler, Caller("ada")
    new = NewSchedule("job", "old", "cron", {"expression": SECONDS}, {"task": "echo"}, idempotency_key="k")
    before = scheduler.create(caller, new._replace(first=Instant(stage.app.clock.now() + 10 * SECOND)))
    assert scheduler.create(caller, new) == before
    refusal_of(lambda: scheduler.create(caller, new._replace(idempotency_key="other")))


def test_prompts_may_have_seconds(stage: Stage) -> None:
    assert "id" in stage.ada.knows("schedule", prompt="water the plants", cron=SECONDS)


def test_the_command_line_and_python_say_what_to_do_instead(stage: Stage, cli: Cli) -> None:
    answer = cli("job", "add", "x", "--task", "echo", "--cron", SECONDS)
    assert answer.code == 2 and f"{REFUSED['error']}; {WITHOUT_SECONDS}" in answer.err
    with pytest.raises(DuetimeError, match="Invalid cron expression") as caught:
        stage.time.duetime.schedule("echo", args=["hi"], cron=SECONDS)
    assert caught.value.__notes__ == [WITHOUT_SECONDS]


def test_http_says_what_to_do_instead(tmp_path: Path) -> None:
    trigger = {"type": "cron", "expression": SECONDS}
    body = {"kind": "job", "name": "x", "trigger": trigger, "payload": {"task": "echo"}}
    with serving_api(tmp_path) as api:
        problem = api.client().refused("POST", "/schedules", 422, json=body)
    assert problem["detail"] == f"{REFUSED['error']}; {WITHOUT_SECONDS}"
