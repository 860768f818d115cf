"""Recurring prompts that wait in the inbox: found, changed and described as what they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.stage import Stage
from tests.support.wordings import not_editable

MINUTE = timedelta(minutes=1)


def row(stage: Stage, status: str = "all") -> dict[str, Any]:
    [found] = stage.ada.knows("schedule_list", status=status)["tasks"]
    return dict(found)


def test_it_is_listed_as_pending_with_what_it_waits_for(both: Stage) -> None:
    both.due(every="1h", at="in 1 minute")
    listed = row(both, "pending")
    assert (listed["status"], listed["state_detail"]) == ("pending", "waiting_for_agent")
    assert listed["fire_at"] == "2026-02-10T13:01:00-08:00", "its next time"
    assert both.ada.knows("schedule_list", status="running")["tasks"] == []
    both.ada.knows("take_prompt")
    assert both.ada.knows("schedule_list")["tasks"] == []
    assert (row(both, "running")["status"], row(both)["state_detail"]) == ("running", "taken")


def test_it_can_be_edited_and_whoever_takes_it_reads_the_new_text(stage: Stage) -> None:
    number = stage.due(every="1h", at="in 1 minute")
    edited = stage.ada.knows("schedule_edit", id=number, prompt="feed the cat", at="in 2 hours")
    assert (edited["status"], edited["state_detail"]) == ("pending", "waiting_for_agent")
    assert edited["next_run"] == edited["fire_at"] == "2026-02-10T14:01:00-08:00"
    assert stage.ada.knows("take_prompt")["prompt"] == "feed the cat"
    assert stage.ada.hears("schedule_edit", id=number, prompt="too late") == not_editable(number)


def test_it_can_be_cancelled(stage: Stage) -> None:
    number = stage.due(every="1h", at="in 1 minute")
    assert stage.ada.hears("schedule_cancel", id=number) == f"Cancelled task #{number}."
    assert stage.ada.hears("take_prompt") == "Nothing is due."


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ({}, "2026-02-10T12:03:00-08:00"),
        ({"untaken": "replace"}, "2026-02-10T12:03:00-08:00"),
        ({"untaken": "keep"}, "2026-02-10T12:01:00-08:00"),
        ({"untaken": "expire", "expire_after": "90s"}, "2026-02-10T12:03:00-08:00"),
        ({"untaken": "expire", "expire_after": "30 seconds"}, None),
    ],
)
def test_what_waits_after_three_times(both: Stage, policy: dict[str, str], waits: str | None) -> None:
    both.due(every="1 minute", at="in 1 minute", **policy)
    both.time.advance(2 * MINUTE)
    both.time.advance(MINUTE / 2)
    assert both.ada.knows("take_prompt").get("due") == waits


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"untaken": "expire"}, "untaken"),
        ({"expire_after": "2h"}, "expire_after"),
        ({"untaken": "keep", "expire_after": "2h"}, "expire_after"),
        ({"untaken": "expire", "expire_after": "soon"}, "expire_after"),
        ({"untaken": "expire", "expire_after": "800d"}, "expire_after"),
    ],
)
def test_policies_that_do_not_fit_are_refused(stage: Stage, policy: dict[str, Any], field: str) -> None:
    said = stage.ada.hears("schedule", prompt="look", every="1h", **policy)
    assert said.startswith(f"Error: {field}: ")
    assert stage.ada.knows("schedule_list")["tasks"] == []


def test_held_by_a_limit(stage: Stage) -> None:
    stage.due(every="1h", at="in 1 minute", max_runs_per_day=1, untaken="keep")
    run = stage.ada.knows("take_prompt")["run_id"]
    stage.ada.knows("finish_prompt", run_id=run, result="done")
    stage.time.advance(timedelta(hours=1))
    held = row(stage)
    assert (held["status"], held["state_detail"]) == ("running", "held_by_limit")
    assert "limit of 1 runs a day" in held["held"]


def test_the_limits_in_force_are_the_tightest(stage: Stage) -> None:
    made = stage.ada.knows("schedule", prompt="look", cron="0 9 * * *", max_runs_per_day=3, max_attempts=2)
    assert made["limits"] == {"max_attempts": 2, "timeout_seconds": 900.0, "max_runs_per_day": 3}
    assert made["reads_as"] == made["repeats"]
    assert made["next_run"] == made["fire_at"] == "2026-02-11T09:00:00-08:00"


def test_what_nobody_took_uses_up_no_limit(stage: Stage) -> None:
    stage.due(every="1 minute", at="in 1 minute", max_runs_per_day=2)
    stage.time.advance(5 * MINUTE)
    assert row(stage)["state_detail"] == "waiting_for_agent"
    for _ in range(2):
        run = stage.ada.knows("take_prompt")["run_id"]
        stage.ada.knows("finish_prompt", run_id=run, result="done")
        stage.time.advance(MINUTE)
    assert row(stage)["state_detail"] == "held_by_limit"


def test_the_policy_can_be_edited_and_its_span_goes_with_it(stage: Stage) -> None:
    number = stage.make(every="1 minute", untaken="expire", expire_after="30s")
    stage.ada.knows("edit_schedule", schedule_id=str(number), untaken="keep")
    stage.time.advance(3 * MINUTE)
    assert stage.ada.knows("take_prompt")["due"] == "2026-02-10T12:01:00-08:00"
    refused = stage.ada.knows("edit_schedule", schedule_id=str(number), untaken="expire")
    assert refused["error"].startswith("untaken: ")
