"""What an agent is told of jobs: what they run, by which rule, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.store import ScheduleQuery
from duetime.kinds.jobs.kind import JobKind
from duetime.mcp import standard_tools
from duetime.mcp.definitions import ToolProblem
from duetime.service.lookup import find_schedule
from duetime.service.presenters import schedule_shape
from duetime.service.services import Call
from duetime.service.vocabulary import Schedule
from tests.support.stage import Stage

HOUR = timedelta(hours=1)


def job(stage: Stage, task: str = "echo", **given: Any) -> dict[str, Any]:
    asked = {"name": "say", "task": task, "trigger_type": "interval", "trigger_config": {"hours": 1}, **given}
    return dict(stage.ada.knows("schedule_job", **asked))


def test_a_create_answers_with_the_next_time_the_rule_and_the_limits(stage: Stage) -> None:
    made = job(stage, args=["hi"], max_attempts=3, max_runs=5, timeout_seconds=30)
    assert made["next_run"] == "2026-02-10T13:00:00-08:00"
    assert made["reads_as"].startswith("every hour")
    assert made["limits"] == {"max_attempts": 3, "timeout_seconds": 30, "max_runs": 5}


def test_a_job_shows_what_it_runs_and_its_results(stage: Stage) -> None:
    made = job(
        stage,
        args=[
            "hello",
        ],
        kwargs={},
        trigger_type="cron",
        trigger_config={"expression": "0 * * * *"},
    )
    stage.time.advance(HOUR)
    [row] = stage.ada.knows("list_jobs")["jobs"]
    shown = stage.ada.knows("job_status", job_id=made["job_id"])
    for each in (row, shown):
        assert (each["task"], each["args"], each["kwargs"]) == ("echo", ["hello"], {})
        assert each["trigger_config"]["expression"] == "0 * * * *"
        assert each["timezone"] == "America/Los_Angeles"
        assert each["reads_as"] == made["reads_as"]
        assert (each["status"], each["state_detail"], each["error"]) == ("pending", None, None)
    assert row["result"] == "hello"
    [run] = shown["history"]
    assert (run["status"], run["result"]) == ("completed", "hello")


def test_a_long_rule_is_read_out_in_at_most_300_characters(stage: Stage) -> None:
    """An agent pays for each character, in each answer that names the schedule."""
    rule = f"FREQ=YEARLY;BYYEARDAY={','.join(map(str, range(1, 365)))}"
    created = job(stage, trigger_type="rrule", trigger_config={"rrule": rule})
    [row] = stage.ada.knows("list_jobs")["jobs"]
    shown = stage.ada.knows("job_status", job_id=created["job_id"])
    for answer in (created, row, shown):
        assert "18th and 346 more days of the year" in answer["reads_as"] and len(answer["reads_as"]) <= 300


@pytest.mark.process
def test_a_paused_job_says_why_and_has_no_next_time(stage: Stage) -> None:
    drafter = stage.time.duetime.app.scheduler.drafter
    drafter.limits = replace(drafter.limits, pause_after=2)
    made = job(stage, task="fetch", args=["http://127.0.0.1:1/"])
    for _ in range(2):
        stage.time.advance(HOUR)
    [row] = stage.ada.knows("list_jobs", status="paused")["jobs"]
    assert (row["job_id"], row["next_run"]) == (made["job_id"], None)
    assert "failures in a row" in row["note"]
    assert row["error"]


def test_instants_have_no_microseconds(stage: Stage) -> None:
    stage.time.advance(timedelta(microseconds=464_540))
    assert job(stage)["next_run"] == "2026-02-10T13:00:00-08:00"


def test_an_unknown_task_names_those_there_are(stage: Stage) -> None:
    refused = job(stage, task="ekko")
    assert refused["error"] == "Unknown task: ekko"
    assert "echo" in refused["known_tasks"]


def test_a_cron_configuration_without_expression_names_the_field(stage: Stage) -> None:
    refused = job(stage, trigger_type="cron", trigger_config={})
    assert refused["error"].startswith("expression: is missing")


@pytest.mark.parametrize("task", ["echo('a') | shorten('b', 1, 2, 3)", "echo('a') | shorten(text='b', words=5)"])
def test_the_error_of_a_pipeline_says_where_the_first_argument_came_from(stage: Stage, task: str) -> None:
    refused = job(stage, task=task)
    assert "the first argument of shorten is the result of the step before it" in refused["error"]


def test_a_run_that_nobody_has_begun_is_not_counted(stage: Stage) -> None:
    stage.due(every="1h", at="in 1 minute")
    [found] = stage.app.scheduler.store.search(ScheduleQuery()).items
    shape = schedule_shape(found, "UTC")
    assert (shape["run_count"], shape["last_run"]) == (0, None)


def test_a_run_now_that_is_the_last_of_max_runs_says_so(stage: Stage) -> None:
    made = job(stage, args=["hi"], max_runs=2)
    assert "max_runs" not in stage.ada.knows("run_now", schedule_id=made["job_id"])["note"]
    stage.time.settle()
    last = stage.ada.knows("run_now", schedule_id=made["job_id"])["note"]
    assert last.startswith("It is the last of 2 that max_runs allows, so that nothing follows; ")


def test_the_error_of_an_attempt_is_shown_while_its_retry_waits(stage: Stage) -> None:
    def fail() -> None:
        raise RuntimeError("no water")

    stage.app.services.kind(JobKind).registry.task(fail)
    made = job(stage, task="fail", max_attempts=2)
    stage.time.clock.move_to(Instant(stage.time.clock.now() + 3600 * SECOND))
    stage.time.settle()
    shown = stage.ada.knows("job_status", job_id=made["job_id"])
    assert shown["history"][0]["status"] == "pending"
    assert "no water" in shown["error"]


def test_the_same_key_gives_the_first_result_again(stage: Stage) -> None:
    first = job(stage, args=["hi"], idempotency_key="k")
    stage.time.advance(3 * HOUR)
    assert job(stage, args=["hi"], idempotency_key="k") == first
    stage.ada.knows("cancel_job", job_id=first["job_id"])
    again = job(stage, args=["hi"], idempotency_key="k")
    assert again == first | {"warnings": again["warnings"], "warning_codes": ["cancelled"]}


def test_a_single_time_is_shown_in_the_zone_of_the_caller(stage: Stage) -> None:
    at = {"run_at": "2026-12-24T15:00:00"}
    id = job(stage, args=["hi"], trigger_type="once", trigger_config=at, timezone="Europe/Berlin")["job_id"]
    shown = stage.ada.knows("job_status", job_id=id, timezone="Europe/Berlin")
    assert shown["trigger_config"] == {"run_at": "2026-12-24T15:00:00+01:00"}
    [listed] = stage.ada.knows("list_jobs", timezone="Asia/Tokyo")["jobs"]
    assert listed["trigger_config"] == {"run_at": "2026-12-24T23:00:00+09:00"}


def test_tools_for_all_kinds_take_the_number_of_a_prompt(stage: Stage) -> None:
    number = stage.make(at="15:00")
    assert stage.ada.knows("job_status", job_id=number)["hint"].endswith(": history takes it.")
    assert stage.ada.knows("history", schedule_id=number)["total"] == 0
    assert stage.ada.knows("edit_schedule", schedule_id=number, name="garden")["name"] == "garden"
    for tool in ("pause_schedule", "resume_schedule", "delete_schedule"):
        done = stage.ada.knows(tool, schedule_id=str(number) if tool == "delete_schedule" else number)
        assert done["success"] and done["schedule_id"] == str(number), done
    gone = stage.ada.knows("pause_schedule", schedule_id=number)
    assert gone["error"].startswith(f"Schedule not found: {number}.")
    with pytest.raises(ToolProblem, match="kind must be one of job, "):
        stage.ada.knows("change_schedules", action="cancel", kind="jobs")


def test_every_answer_to_a_cancel_says_whether_it_was_cancelled(stage: Stage) -> None:
    """Clients check answers against the schema of the tool, which requires it."""
    id = job(stage)["job_id"]
    refused = stage.agent("ada", scopes=("write",)).knows("cancel_job", job_id=id)
    assert refused["cancelled"] is False and refused["error"].startswith("this needs the scope delete")


@pytest.mark.parametrize("gone", [True, False])
def test_a_job_that_ends_while_it_is_cancelled_is_described_as_it_is_then(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """It was pending when it was found: "already pending" would contradict itself, and name a job that is deleted."""
    id = job(stage, trigger_type="once", trigger_config={"run_at": "2026-02-10T15:00:00-08:00"})["job_id"]

    def find_slowly(call: Call, reference: str, kind: str) -> Schedule:
        schedule = find_schedule(call, reference, kind)
        if gone:
            assert stage.ada.knows("delete_schedule", schedule_id=id)["success"]
        else:
            stage.time.advance(4 * HOUR)
        return schedule

    monkeypatch.setattr(standard_tools, "find_schedule", find_slowly)
    refused = {} if gone else {"job_id": id, "error": f"Job already completed: {id}"}
    assert stage.ada.knows("cancel_job", job_id=id) == {"cancelled": False, **refused}
