"""What fires next: every occurrence of a window, and what is said where a list was cut."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.clock import MINUTE, Instant
from duetime.engine.kind import Caller
from duetime.engine.store import ScheduleQuery
from duetime.mcp.definitions import ToolProblem
from duetime.service.operations import upcoming
from tests.support.stage import Stage

HOURLY = {"trigger_type": "interval", "trigger_config": {"hours": 1}}


def job(stage: Stage, name: str, **given: Any) -> str:
    made = stage.ada.knows("schedule_job", {"name": name, "task": "echo", "args": [1], **HOURLY, **given})
    id: str = made["job_id"]
    return id


def rows(stage: Stage, **given: Any) -> list[tuple[str, str]]:
    """Name and local time of each."""
    asked = {name.rstrip("_"): value for name, value in given.items()}
    return [(row["name"], row["at"][11:16]) for row in stage.ada.knows("list_upcoming", asked)["upcoming"]]


def test_every_occurrence_of_the_window(both: Stage) -> None:
    """It is noon. A frequent schedule is listed with all its times, and hides no other one."""
    job(both, "often", trigger_config={"minutes": 20})
    job(both, "seldom", trigger_type="once", trigger_config={"run_at": "in 50 minutes"})
    whole = both.ada.knows("list_upcoming", until="13:00")
    assert [(row["name"], row["at"][11:16]) for row in whole["upcoming"]] == [
        ("often", "12:20"), ("often", "12:40"), ("seldom", "12:50"), ("often", "13:00"),
    ]  # fmt: skip
    assert whole["more"] is False
    assert rows(both, from_="12:30", until="12:55") == [("often", "12:40"), ("seldom", "12:50")]


def test_what_does_not_fit_is_folded(both: Stage) -> None:
    """A schedule that fires all the time does not hide the others."""
    job(both, "often", trigger_config={"minutes": 1})
    job(both, "seldom", trigger_config={"hours": 2})
    job(both, "never", trigger_config={"hours": 9})
    cut = both.ada.knows("list_upcoming", until="in 3 hours", count=5)
    assert [(row["name"], row["at"][11:16]) for row in cut["upcoming"]] == [("often", "12:01"), ("seldom", "14:00")]
    assert [each[11:16] for each in cut["upcoming"][0]["times"]] == ["12:01", "12:02", "12:03", "12:04", "12:05"]
    assert (cut["upcoming"][0]["more_times"], cut["upcoming"][1]["times"][1:], cut["more"]) == (True, [], False)
    whole = both.ada.knows("list_upcoming", until="in 5 minutes", count=5)
    assert (len(whole["upcoming"]), whole["more"]) == (5, False)
    assert [name for name, _ in rows(both)] == ["often", "seldom", "never"], "there is no end"
    assert both.ada.knows("list_upcoming", count=2)["more"] is True


def test_by_kind_and_topic(both: Stage) -> None:
    job(both, "reporting", deliver_to="kitchen")
    number = both.make(every="1 hour")
    told = both.ada.knows("schedule_notification", message="tea", notification_topic="kitchen", delay="30m")
    other = both.ada.knows("schedule_notification", message="rain", notification_topic="garden", delay="31m")
    assert rows(both, kind="prompt", until="13:00") == [("water the plants", "13:00")]
    assert rows(both, topic="kitchen", until="13:00") == [("tea", "12:30"), ("reporting", "13:00")]
    assert rows(both, topic="garden", kind="job") == []
    assert rows(both, topic="inbox", until="13:00") == [("water the plants", "13:00")], (
        "an agent, as in change_schedules"
    )
    found = both.ada.knows("list_upcoming", until="13:00")["upcoming"]
    by_id = {row["id"]: row for row in found}
    assert number in by_id and type(next(row["id"] for row in found if row["kind"] == "prompt")) is int
    assert by_id[told["message_id"]]["topic"] == "kitchen" and by_id[other["message_id"]]["topic"] == "garden"
    assert "topic" not in by_id[number]
    refused = both.ada.use
    with pytest.raises(ToolProblem, match="kind must be one of job, prompt"):
        refused("list_upcoming", kind="jobs")


def test_paused_ones_on_request(both: Stage) -> None:
    id = job(both, "resting")
    job(both, "working", trigger_config={"hours": 2})
    both.app.scheduler.pause(Caller("ada"), id)
    both.time.advance(timedelta(hours=1, minutes=30))
    assert rows(both, until="15:00") == [("working", "14:00")]
    found = both.ada.knows("list_upcoming", until="15:00", include_paused=True)["upcoming"]
    assert [(row["name"], row["at"][11:16], row.get("paused", False)) for row in found] == [
        ("working", "14:00", False), ("resting", "14:00", True), ("resting", "15:00", True),
    ]  # fmt: skip


def test_one_that_was_paused_while_it_runs(both: Stage) -> None:
    number = both.due(every="1 hour")
    assert both.ada.knows("take_prompt")["id"] == number
    both.app.scheduler.pause(Caller("ada"), str(number))
    found = both.ada.knows("list_upcoming", count=1, include_paused=True)
    assert [(row["id"], row.get("paused")) for row in found["upcoming"]] == [(number, True)]
    assert rows(both) == []


def test_what_runs_now_is_not_read(both: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of one-offs may be due at one instant. None of them fires again, so nothing is missing in the list."""
    monkeypatch.setattr(upcoming, "MOST_READ", 2)
    monkeypatch.setattr(upcoming, "_PAGE", 1)
    for number in range(3):
        both.due(f"water plant {number}")
    assert both.app.store.search(ScheduleQuery(status="running")).total == 3
    job(both, "next")
    found = both.ada.knows("list_upcoming", until="in 1 hour", count=1)
    assert [row["name"] for row in found["upcoming"]] == ["next"]
    assert found["more"] is False and "warnings" not in found


def test_a_pause_that_ends_by_itself(both: Stage) -> None:
    """What fires after its end is planned, and so it is listed in any case."""
    id = job(both, "resting")
    now = both.time.clock.now()
    both.app.scheduler.pause(Caller("ada"), id, until=Instant(now + 90 * MINUTE))
    assert rows(both, until="14:30") == [("resting", "14:00")]
    found = both.ada.knows("list_upcoming", until="14:30", include_paused=True)["upcoming"]
    assert [(row["at"][11:16], row.get("paused", False)) for row in found] == [("13:00", True), ("14:00", False)]
    both.time.advance(timedelta(hours=2))
    assert len(both.ada.knows("history", schedule_id=id, status="completed")["runs"]) == 1
    assert rows(both, count=1) == [("resting", "15:00")]


def test_a_one_off_that_is_held_is_listed_at_the_end_of_its_pause(both: Stage) -> None:
    id = both.ada.knows("schedule", at="13:00", prompt="call the dentist")["id"]
    both.app.scheduler.pause(Caller("ada"), str(id), until=Instant(both.time.clock.now() + 90 * MINUTE))
    assert rows(both) == rows(both, from_="13:30", until="13:30") == [("call the dentist", "13:30")]
    assert rows(both, until="13:29") == rows(both, from_="13:31") == []
    both.time.advance(timedelta(hours=2))
    assert both.ada.knows("take_prompt")["due"][11:16] == "13:00"


def test_an_end_after_some_runs(stage: Stage) -> None:
    job(stage, "three times", max_runs=3)
    assert rows(stage) == [("three times", "13:00"), ("three times", "14:00"), ("three times", "15:00")]
    assert rows(stage, from_="13:30") == [("three times", "14:00"), ("three times", "15:00")]
    assert rows(stage, from_="15:30") == []
    stage.time.advance(timedelta(hours=1))
    assert rows(stage, from_="14:30") == [("three times", "15:00")]


def test_what_a_pause_skips_does_not_count_towards_max_runs(stage: Stage) -> None:
    id = job(stage, "three times", max_runs=3)
    stage.app.scheduler.pause(Caller("ada"), id, until=Instant(stage.time.clock.now() + 300 * MINUTE))
    assert rows(stage) == [("three times", "17:00"), ("three times", "18:00"), ("three times", "19:00")]
    assert rows(stage, from_="17:30") == [("three times", "18:00"), ("three times", "19:00")]
    stage.time.advance(timedelta(hours=10))
    ran = stage.ada.knows("history", schedule_id=id, status="completed")["runs"]
    assert sorted(run["due"][11:16] for run in ran) == ["17:00", "18:00", "19:00"]


def test_one_that_is_overdue_is_listed_once(stage: Stage) -> None:
    job(stage, "late")
    stage.time.clock.jump(timedelta(hours=3, minutes=30))
    [row] = stage.ada.knows("list_upcoming")["upcoming"]
    assert [each[11:16] for each in row["times"][:2]] == ["13:00", "16:00"]


def test_another_owner_sees_nothing(stage: Stage) -> None:
    job(stage, "mine")
    assert stage.agent("bob").knows("list_upcoming", include_paused=True)["upcoming"] == []


def test_more_schedules_that_wait_for_events_than_are_named(stage: Stage) -> None:
    for number in range(20):
        job(stage, f"waits {number}", trigger_type="event", trigger_config={"event": "a.b"}, deliver_to="kitchen")
    whole = stage.ada.knows("list_upcoming", count=5, topic="kitchen")
    assert (len(whole["on_events"]), whole["more"], "warnings" in whole) == (20, False, False)
    job(stage, "waits, too", trigger_type="event", trigger_config={"event": "a.b"})
    cut = stage.ada.knows("list_upcoming")
    assert (len(cut["on_events"]), cut["more"]) == (20, True)
    assert cut["warnings"] == ["More schedules wait for events than the 20 in on_events. Ask for one kind or topic."]
