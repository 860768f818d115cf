"""The history of runs over all kinds: by schedule, time and status, with what came of each."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from duetime.engine.clock import HOUR, Instant
from duetime.engine.kind import Caller
from duetime.engine.outcome import Completed
from tests.support.stage import Stage

HOURLY = {"trigger_type": "interval", "trigger_config": {"hours": 1}}


def job(stage: Stage, name: str, **given: Any) -> str:
    made = stage.ada.knows("schedule_job", {"name": name, "task": "echo", "args": ["hi"], **HOURLY, **given})
    id: str = made["job_id"]
    return id


def seen(stage: Stage, **given: Any) -> list[dict[str, Any]]:
    asked = {name.rstrip("_"): value for name, value in given.items()}
    found: list[dict[str, Any]] = stage.ada.knows("history", asked)["runs"]
    return found


BROKEN: dict[str, Any] = {"task": "shorten", "args": ["hi"], "kwargs": {"words": 0}}
"""Fails: a text has to keep some words."""


def test_of_one_schedule_with_its_results(both: Stage) -> None:
    id = job(both, "hello")
    job(both, "other")
    both.time.advance(timedelta(hours=2))
    [latest, first] = seen(both, schedule_id=id)
    assert (latest["result"], latest["status"], latest["attempts"], latest["id"]) == ("hi", "completed", 1, id)
    assert (first["due"], latest["due"]) == ("2026-02-10T13:00:00-08:00", "2026-02-10T14:00:00-08:00")
    assert latest["duration_seconds"] == 0 and "error" not in latest and "deliveries" not in latest
    assert seen(both, run_id=first["run_id"]) == [first]
    assert len(seen(both)) == 4


def test_failures_of_a_day(both: Stage) -> None:
    """It is noon on February 10."""
    job(both, "failing", **BROKEN)
    job(both, "fine")
    both.time.advance(timedelta(hours=1))
    both.time.advance(timedelta(days=1, minutes=-30))
    yesterday = seen(both, status="failed", from_="yesterday", to="yesterday", limit=100)
    assert {row["name"] for row in yesterday} == {"failing"} and all(row["error"] for row in yesterday)
    assert {row["due"][:10] for row in yesterday} == {"2026-02-10"} and len(yesterday) == 10, "then it was paused"
    assert seen(both, status="failed", from_="today") == []
    assert seen(both, status="failed", kind="prompt") == []
    assert len(seen(both, status="failed", from_="26 hours ago", limit=100)) == 10


def test_runs_of_deleted_schedules(both: Stage) -> None:
    id = job(both, "short-lived")
    both.time.advance(timedelta(hours=1))
    both.app.scheduler.delete(Caller("ada"), id)
    for rows in (seen(both), seen(both, schedule_id=id)):
        assert [(row["id"], row["name"], row["result"]) for row in rows] == [(id, "short-lived", "hi")]


def test_attempts_deliveries_and_cost(both: Stage) -> None:
    failing = both.due("water the plants", max_attempts=2, deliver_to="kitchen")
    for _ in range(2):
        both.ada.use("finish_prompt", run_id=both.ada.knows("take_prompt")["run_id"], error="no water")
        both.time.advance(timedelta(minutes=1))
    [failed] = seen(both, schedule_id=failing)
    assert failed["error"] == "no water" and failed["status"] == "failed"
    assert failed["attempts"] == 2 and [each["attempt"] for each in failed["earlier_attempts"]] == [1]
    [delivery] = failed["deliveries"]
    assert (delivery["topic"], delivery["status"], delivery["reached"]) == ("kitchen", "completed", "inbox")
    assert delivery["message_id"] in {row["id"] for row in seen(both, kind="notification")}

    number = both.due("say it")
    run_id = both.ada.knows("take_prompt")["run_id"]
    answer = {"text": "Two of them. password=hunter2", "tool_calls": [], "usage": {"input_tokens": 7, "dollars": 0.5}}
    both.app.scheduler.finish(Caller("ada"), run_id, Completed(json.dumps(answer)))
    [row] = seen(both, schedule_id=number)
    assert row["id"] == number and row["cost"] == {"input_tokens": 7, "dollars": 0.5}
    assert row["result"] == "Two of them. password=***"


def test_times_have_no_microseconds(both: Stage) -> None:
    """A run that was started by hand is due at a free microsecond; a measured time is shown to the millisecond."""
    both.time.advance(timedelta(microseconds=1_234_567))
    id = job(both, "hello")
    both.ada.knows("run_now", schedule_id=id)
    both.time.advance(timedelta(seconds=1))
    [run] = seen(both, schedule_id=id)
    assert run["due"] == "2026-02-10T12:00:01-08:00"
    assert (run["started"], run["finished"]) == ("2026-02-10T12:00:01.234-08:00", "2026-02-10T12:00:01.234-08:00")
    both.time.clock.move_to(Instant(both.time.clock.now() + 3 * HOUR))
    both.time.settle()
    [missed] = seen(both, schedule_id=id, status="missed")
    assert (missed["due"], missed["last"]) == ("2026-02-10T13:00:01-08:00", "2026-02-10T14:00:01-08:00")


def test_pages_and_limits(both: Stage) -> None:
    id = job(both, "hello", args=["x" * 5000])
    both.time.advance(timedelta(hours=5))
    first = both.ada.knows("history", schedule_id=id, limit=3)
    assert first["total"] == 5 and len(first["runs"]) == 3
    second = both.ada.knows("history", schedule_id=id, limit=3, cursor=first["next_cursor"])
    assert len(second["runs"]) == 2 and "next_cursor" not in second
    assert len({row["run_id"] for row in [*first["runs"], *second["runs"]]}) == 5
    [row, *_] = first["runs"]
    assert row["result"].startswith("x" * 1000) and row["result"].endswith("... (cut: 5000 characters in total)")
    assert seen(both, run_id=row["run_id"])[0]["result"] == "x" * 5000


def test_what_is_refused(stage: Stage) -> None:
    assert "Unknown status: bad." in stage.ada.knows("history", status="bad")["error"]
    assert "Not found: job_9_9." in stage.ada.knows("history", schedule_id="job_9_9")["error"]
    assert stage.ada.knows("history", run_id=99) == {"error": "Run not found: 99"}
    assert stage.ada.knows("history", {"from": "soonish"})["error"].startswith("from: could not parse")


def test_of_others_nothing_is_told(stage: Stage) -> None:
    id = job(stage, "mine")
    stage.time.advance(timedelta(hours=1))
    [run] = seen(stage)
    bob = stage.agent("bob")
    assert bob.knows("history")["runs"] == []
    assert "Not found" in bob.knows("history", schedule_id=id)["error"]
    assert "not found" in bob.knows("history", run_id=run["run_id"])["error"]
