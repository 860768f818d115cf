"""The notification tools, to the letter: shapes, wordings, times, and who sees what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller, Work
from duetime.engine.outcome import Failed, Outcome
from duetime.engine.scheduler import Scheduler
from duetime.engine.validation import NewSchedule
from duetime.kinds import load_specs
from duetime.kinds.notifications.kind import NotificationKind
from duetime.kinds.notifications.local import INBOX_WARNING, LocalNotifications
from duetime.mcp.catalog import catalog_of
from duetime.service.errors import refuse
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.hand import history_of
from tests.support.notifying import RESOURCES, START, TOOLS, Agent
from tests.support.wordings import schedule_not_found

NOW = "2026-02-10T15:00:00+01:00"
PLAIN: dict[str, Any] = {"message": "hi", "notification_topic": "alerts"}
CRON: dict[str, Any] = {**PLAIN, "cron": "0 9 * * *", "timezone": "Europe/Berlin"}
MAKING = ("send_push_notification", "schedule_notification", "schedule_cron_notification")
TIMED: dict[str, Any] = {
    "send_push_notification": {},
    "schedule_notification": {"delay": "1h"},
    "schedule_cron_notification": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
}


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(START, timezone="Europe/Berlin") as made:
        yield made


@pytest.fixture
def ann(simulation: Simulation) -> Agent:
    return Agent(simulation.duetime.app, Caller("ann"), patience=0.05)


@pytest.fixture
def ben(simulation: Simulation) -> Agent:
    return Agent(simulation.duetime.app, Caller("ben"), patience=0.05)


# -- the seed's scenarios -----------------------------------------------------------------------------------------


def test_delete_existing_schedule(ann: Agent) -> None:
    schedule = ann.cron()
    expected = {
        "success": True,
        "schedule_id": schedule,
        "confirmation": f"Schedule {schedule} deleted successfully",
    }
    assert ann("delete_schedule", schedule_id=schedule) == expected
    assert ann.listed() == ([], [])


@pytest.mark.parametrize("unknown", ["scd_nonexistent", "invalid-id-123"])
def test_delete_what_does_not_exist(ann: Agent, unknown: str) -> None:
    assert ann("delete_schedule", schedule_id=unknown) == {
        "success": False,
        "schedule_id": unknown,
        "error": schedule_not_found(unknown),
    }


def test_missing_schedule_id(ann: Agent) -> None:
    said = ann.problem("delete_schedule")
    assert "schedule_id" in said
    assert "required" in said


def test_the_seeds_evaluation_creates_and_deletes(ann: Agent) -> None:
    made = ann(
        "schedule_cron_notification",
        message=f"Delete test {NOW}",
        notification_topic="cronty-eval-test",
        cron="0 0 * * *",
        timezone="UTC",
    )
    assert made["success"] is True
    assert ann("delete_schedule", schedule_id=made["schedule_id"])["success"] is True
    assert "not found" in ann("delete_schedule", schedule_id="scd_nonexistent_test_id")["error"]


def test_a_second_delete_is_not_found_and_the_history_stays(simulation: Simulation, ann: Agent) -> None:
    schedule = ann.cron()
    simulation.advance(timedelta(days=1))
    assert ann("delete_schedule", schedule_id=schedule)["success"] is True
    again = ann("delete_schedule", schedule_id=schedule)
    assert again["error"] == schedule_not_found(schedule)
    history = history_of(ann.app.scheduler, ann.call.caller, schedule)
    assert [run.status for run in history] == ["completed"]
    simulation.advance(timedelta(days=2))
    assert len(ann.runs()) == 1


# -- recurring ----------------------------------------------------------------------------------------------------


def test_a_cron_notification(simulation: Simulation, ann: Agent) -> None:
    made = ann("schedule_cron_notification", **CRON, label="daily.check_1")
    assert made == {
        "success": True,
        "schedule_id": made["schedule_id"],
        "cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "confirmation": "Cron schedule created: CRON_TZ=Europe/Berlin 0 9 * * *",
        "next_run": "2026-02-11T09:00:00+01:00",
        "reads_as": made["reads_as"],
        "limits": {"max_attempts": 10},
        "warnings": [INBOX_WARNING],
        "warning_codes": ["no_channel"],
    }
    assert "09:00" in made["reads_as"]
    assert made["schedule_id"].startswith("scd_")
    row = {
        "schedule_id": made["schedule_id"],
        "cron_expression": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "notification_topic": "alerts",
        "label": "daily.check_1",
        "paused": False,
        "next_occurrence": "2026-02-11T09:00:00+01:00",
        "last_occurrence": None,
        "notification_body": "hi",
    }
    assert ann("list_scheduled_notifications") == {"schedules": [row], "count": 1, "messages": []}
    simulation.advance(timedelta(days=1))
    row |= {"next_occurrence": "2026-02-12T09:00:00+01:00", "last_occurrence": "2026-02-11T09:00:00+01:00"}
    assert ann("list_scheduled_notifications")["schedules"] == [row]
    assert json.loads(ann.runs()[0].result or "") == {
        "channel": "inbox",
        "notification_id": made["schedule_id"],
        "message": "hi",
        "topic": "alerts",
        "label": "daily.check_1",
    }


def test_white_space_in_a_cron_expression_does_not_matter(ann: Agent) -> None:
    made = ann("schedule_cron_notification", **{**CRON, "cron": " 0  9 * *   1-5 "})
    assert made["cron"] == "CRON_TZ=Europe/Berlin 0 9 * * 1-5"


def test_a_cron_notification_over_daylight_saving(simulation: Simulation, ann: Agent) -> None:
    """Fixed times keep to the wall clock: 09:00 stays 09:00, and 02:30 runs right after the gap."""
    simulation.advance(datetime(2026, 3, 28, 11, tzinfo=UTC))
    ann.cron(message="nine")
    ann.cron(message="night", cron="30 2 * * *")
    rows = ann("list_scheduled_notifications")["schedules"]
    assert [row["next_occurrence"] for row in rows] == ["2026-03-29T09:00:00+02:00", "2026-03-29T03:00:00+02:00"]


@pytest.mark.parametrize(
    "cron",
    ["", "nope", "0 9 * *", "0 0 9 * * *", "@daily", "61 * * * *", "0 25 * * *", "0 9 * * 9", "a" * 5000, "0 0 30 2 *"],
)
def test_a_wrong_cron_expression_is_a_tool_error_with_an_example(ann: Agent, cron: str) -> None:
    said = ann.problem("schedule_cron_notification", **{**CRON, "cron": cron})
    assert said.startswith("Invalid cron expression: ")
    assert '"0 9 * * 1-5"' in said
    assert len(said) < 600
    assert ann.listed() == ([], [])


@pytest.mark.parametrize("cron", ["0 0 9 * * *", "@daily"])
@pytest.mark.parametrize("tool", ["schedule_notification", "schedule_cron_notification"])
def test_a_cron_expression_in_words_keeps_to_five_fields_too(ann: Agent, tool: str, cron: str) -> None:
    given = {name: value for name, value in CRON.items() if name != "cron"}
    own = {"cron": ""} if tool == "schedule_cron_notification" else {}
    assert "Give 5 fields" in ann.problem(tool, **{**given, **own, "when": cron})
    assert ann.listed() == ([], [])


def test_a_zone_inside_the_cron_expression_is_told_where_it_belongs(ann: Agent) -> None:
    assert "timezone" in ann.problem("schedule_cron_notification", **{**CRON, "cron": "CRON_TZ=UTC 0 9 * * *"})


@pytest.mark.parametrize("label", ["", "two words", "a/b", "ä", "a\n", "x" * 201])
def test_a_wrong_label_is_a_tool_error_with_an_example(ann: Agent, label: str) -> None:
    said = ann.problem("schedule_cron_notification", **CRON, label=label)
    assert said.startswith("label: ")
    assert "weekly-report" in said


def test_pause_and_resume_are_idempotent(simulation: Simulation, ann: Agent) -> None:
    schedule = ann.cron()
    for _ in range(2):
        expected = {
            "success": True,
            "schedule_id": schedule,
            "paused": True,
            "confirmation": f"Schedule {schedule} paused successfully",
        }
        assert expected.items() <= ann("pause_schedule", schedule_id=schedule).items()
    (row,) = ann("list_scheduled_notifications")["schedules"]
    assert (row["paused"], row["next_occurrence"]) == (True, None)
    simulation.advance(timedelta(days=3))
    assert ann.runs() == []
    for _ in range(2):
        expected = {
            "success": True,
            "schedule_id": schedule,
            "paused": False,
            "confirmation": f"Schedule {schedule} resumed successfully",
        }
        assert expected.items() <= ann("resume_schedule", schedule_id=schedule).items()
    (row,) = ann("list_scheduled_notifications")["schedules"]
    assert (row["paused"], row["next_occurrence"]) == (False, "2026-02-14T09:00:00+01:00")
    simulation.advance(timedelta(days=1))
    assert [run.status for run in ann.runs()] == ["completed", "skipped"]


@pytest.mark.parametrize("tool", ["pause_schedule", "resume_schedule"])
def test_pausing_or_resuming_what_does_not_exist(ann: Agent, tool: str) -> None:
    assert ann(tool, schedule_id="scd_1") == {
        "success": False,
        "schedule_id": "scd_1",
        "error": "Schedule not found: scd_1. It may have been deleted or the ID is incorrect.",
    }
    assert "schedule_id" in ann.problem(tool)


def test_a_one_off_can_be_paused_until_it_has_gone_out(simulation: Simulation, ann: Agent) -> None:
    message = ann.once()
    assert ann("pause_schedule", schedule_id=message)["paused"] is True
    assert ann("list_scheduled_notifications")["messages"][0]["paused"] is True
    assert ann("resume_schedule", schedule_id=message)["next_run"] is not None
    assert "paused" not in ann("list_scheduled_notifications")["messages"][0]
    simulation.advance(timedelta(hours=2))
    refused = f"Could not pause {message}: it has ended, so it cannot be paused; create a new one"
    assert ann("pause_schedule", schedule_id=message)["error"] == refused


def test_a_one_off_whose_time_passed_during_a_pause_is_sent_when_it_is_resumed(
    simulation: Simulation, ann: Agent
) -> None:
    message = ann.once()
    ann("pause_schedule", schedule_id=message)
    simulation.advance(timedelta(days=1))
    assert ann.runs() == []
    resumed = ann("resume_schedule", schedule_id=message)
    assert (resumed["paused"], "note" in resumed) == (False, False)
    simulation.advance(timedelta(seconds=1))
    [run] = ann.runs()
    assert run.status == "completed" and run.started is not None and run.started - run.due == 23 * HOUR


def test_resuming_a_one_off_that_does_not_catch_up_says_that_it_will_not_fire(
    simulation: Simulation, ann: Agent
) -> None:
    message = ann.once(catch_up="skip")
    ann("pause_schedule", schedule_id=message)
    simulation.advance(timedelta(days=1))
    resumed = ann("resume_schedule", schedule_id=message)
    assert (resumed["paused"], resumed["next_run"]) == (False, None)
    assert resumed["note"].startswith("missed because the schedule was paused, and nothing follows; ")
    assert [run.status for run in ann.runs()] == ["missed"]


def test_the_list_shows_a_name_and_why_and_until_when_it_is_paused(ann: Agent) -> None:
    schedule = ann.cron()
    (row,) = ann("list_scheduled_notifications")["schedules"]
    assert not {"name", "note", "paused_until"} & row.keys()
    ann("edit_schedule", schedule_id=schedule, name="morning")
    ann("pause_schedule", schedule_id=schedule, until="2026-03-02T09:00:00+01:00", note="holiday")
    (row,) = ann("list_scheduled_notifications")["schedules"]
    shown = {"name": "morning", "note": "holiday", "paused_until": "2026-03-02T09:00:00+01:00"}
    assert shown.items() <= row.items()


def test_the_list_shows_what_a_message_waits_for(simulation: Simulation, ann: Agent) -> None:
    ann("schedule_notification", message="tea", notification_topic="kitchen", delay="1m")
    (message,) = ann("list_scheduled_notifications")["messages"]
    assert "state_detail" not in message
    simulation.clock.move_to(Instant(simulation.clock.now() + 2 * MINUTE))
    (message,) = ann("list_scheduled_notifications")["messages"]
    assert message["state_detail"] == "due", "nothing has sent it yet"


def test_a_schedule_that_ended_cannot_be_paused_and_the_answer_says_why(ann: Agent) -> None:
    schedule = ann.cron()
    ann.app.scheduler.cancel(ann.call.caller, schedule)
    assert ann("pause_schedule", schedule_id=schedule) == {
        "success": False,
        "schedule_id": schedule,
        "error": f"Could not pause {schedule}: it is cancelled, so it cannot be paused; create a new one",
    }


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_a_backend_that_fails_is_an_answer_without_secrets(
    ann: Agent, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise refuse("api_error", "500 from https://me:hunter2@example.org, token=abc")

    schedule = ann.cron()
    monkeypatch.setattr(Scheduler, verb, failing)
    answer = ann(f"{verb}_schedule", schedule_id=schedule)
    assert answer["success"] is False
    assert answer["error"] == f"Could not {verb} {schedule}: 500 from https://***@example.org, token=***"


def test_a_store_that_is_away_is_an_answer_without_paths(ann: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("/secret/place/due.db is away")

    monkeypatch.setattr(ann.app.store, "find", away)
    answer = ann("delete_schedule", schedule_id="scd_1")
    assert answer["error"].startswith("Could not delete scd_1: the store cannot be reached")
    monkeypatch.setattr(ann.app.store, "create", away)
    monkeypatch.setattr(ann.app.store, "search", away)
    for tool, given in (("schedule_notification", {**PLAIN, "delay": "1h"}), ("list_scheduled_notifications", {})):
        said = ann.problem(tool, **given)
        assert "cannot be reached" in said
        assert "secret" not in said


# -- once ---------------------------------------------------------------------------------------------------------


def test_a_later_notification_has_a_priority(simulation: Simulation, ann: Agent) -> None:
    made = ann("schedule_notification", **PLAIN, delay="1h", priority=5)
    found = simulation.duetime.app.store.find(made["message_id"])
    assert found is not None and json.loads(found.definition.payload)["priority"] == 5


def test_a_notification_at_an_instant(simulation: Simulation, ann: Agent) -> None:
    made = ann("schedule_notification", **PLAIN, datetime="2026-02-10T16:30:00Z")
    assert made == {
        "success": True,
        "message_id": made["message_id"],
        "scheduled_time": "2026-02-10T17:30:00+01:00",
        "confirmation": "Notification scheduled for Feb 10, 2026 5:30 PM CET",
        "next_run": "2026-02-10T17:30:00+01:00",
        "reads_as": made["reads_as"],
        "limits": {"max_attempts": 10},
        "warnings": [INBOX_WARNING],
        "warning_codes": ["no_channel"],
    }
    assert made["message_id"].startswith("msg_")
    waiting = {
        "message_id": made["message_id"],
        "scheduled_time": "2026-02-10T17:30:00+01:00",
        "notification_topic": "alerts",
        "notification_body": "hi",
    }
    assert ann("list_scheduled_notifications") == {"schedules": [], "count": 0, "messages": [waiting]}
    simulation.advance(timedelta(hours=3))
    assert ann.listed() == ([], [])
    assert [run.status for run in ann.runs()] == ["completed"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"datetime": "2026-02-10T15:00:00+01:00"}, NOW),
        ({"datetime": "2026-02-10 08:00:00-08:00", "timezone": "America/Los_Angeles"}, "2026-02-10T08:00:00-08:00"),
        ({"time": "15:30", "timezone": "Europe/Berlin"}, "2026-02-10T15:30:00+01:00"),
        ({"time": "15:30:05", "timezone": "Europe/Berlin"}, "2026-02-10T15:30:05+01:00"),
        ({"time": "3:30 PM", "timezone": "Europe/Berlin"}, "2026-02-10T15:30:00+01:00"),
        ({"time": "09:00", "timezone": "America/Los_Angeles"}, "2026-02-10T09:00:00-08:00"),
        ({"time": "00:30", "timezone": "Asia/Tokyo", "date": "2026-02-11"}, "2026-02-11T00:30:00+09:00"),
        ({"time": "09:00", "timezone": "UTC", "date": "2028-02-29"}, "2028-02-29T09:00:00+00:00"),
    ],
)
def test_times_that_are_understood(ann: Agent, given: dict[str, str], expected: str) -> None:
    made = ann("schedule_notification", **PLAIN, **given)
    assert made["scheduled_time"] == expected
    assert "delay" not in made


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        ("1d", "2026-02-11T15:00:00+01:00"),
        ("2h30m", "2026-02-10T17:30:00+01:00"),
        ("1d10h30m50s", "2026-02-12T01:30:50+01:00"),
        ("90s", "2026-02-10T15:01:30+01:00"),
        ("36525d", "2126-02-11T15:00:00+01:00"),
    ],
)
def test_delays(ann: Agent, delay: str, expected: str) -> None:
    made = ann("schedule_notification", **PLAIN, delay=delay)
    assert made["delay"] == delay
    assert "scheduled_time" not in made
    assert made["confirmation"] == f"Notification scheduled in {delay}, at {expected}"
    assert ann("list_scheduled_notifications")["messages"][0]["scheduled_time"] == expected


@pytest.mark.parametrize(
    "delay", ["", "0s", "30m2h", "2h2h", "1w", "-1h", "1.5h", "2 h", "10", "2H", "in 2h", "36526d", "٣m"]
)
def test_wrong_delays_are_tool_errors_with_an_example(ann: Agent, delay: str) -> None:
    said = ann.problem("schedule_notification", **PLAIN, delay=delay)
    assert said.startswith("delay: ")
    assert "30m" in said
    assert f"It is now {NOW}" in said


@pytest.mark.parametrize(
    ("given", "argument", "example"),
    [
        ({"datetime": "2026-02-10T16:30:00"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "2026-02-10"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "tomorrow"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "soon"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "03/04/2026 9am"}, "datetime", "March 4 or April 3: write 2026-03-04 or 2026-04-03"),
        ({"datetime": "2026-02-30T09:00:00Z"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "9999-12-31T23:59:59Z"}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"datetime": "2" * 5000}, "datetime", "2026-02-11T15:00:00+01:00"),
        ({"time": "25:00", "timezone": "Europe/Berlin"}, "time", "15:30"),
        ({"time": "soon", "timezone": "Europe/Berlin"}, "time", "15:30"),
        ({"time": "9", "timezone": "Europe/Berlin"}, "time", "15:30"),
        ({"time": "15:30"}, "timezone", "Europe/Berlin"),
        ({"time": "9:00", "timezone": "Europe/Berlin", "date": "11.02.2026"}, "date", "2026-02-11"),
        ({"time": "9:00", "timezone": "Europe/Berlin", "date": "2026-02-30"}, "date", "2026-02-11"),
        ({"time": "9:00", "timezone": "Europe/Berlin", "date": "9999-12-31"}, "date", "2026-02-11"),
        ({"time": "9:00", "timezone": "Europe/Berlin", "date": "tomorrow"}, "date", "2026-02-11"),
        ({"delay": "1h", "date": "2026-02-11"}, "date", "2026-02-11"),
        ({"datetime": "2026-02-12T15:00:00Z", "date": "2026-02-11"}, "date", "2026-02-11"),
        ({"when": "gibberish"}, "when", "tomorrow at 9"),
        ({"when": "every blue moon"}, "when", "every"),
    ],
)
def test_times_that_cannot_be_read_are_tool_errors(
    ann: Agent, given: dict[str, str], argument: str, example: str
) -> None:
    said = ann.problem("schedule_notification", **PLAIN, **given)
    assert said.startswith(f"{argument}: ")
    assert example in said
    assert f"It is now {NOW}" in said
    assert len(said) < 500
    assert ann.listed() == ([], [])


@pytest.mark.parametrize(
    ("given", "argument", "now", "example"),
    [
        ({"datetime": "2026-02-10T14:59:59+01:00"}, "datetime", NOW, "2026-02-11T15:00:00+01:00"),
        ({"time": "14:59", "timezone": "Europe/Berlin"}, "time", NOW, "2026-02-11"),
        ({"time": "05:00", "timezone": "America/Los_Angeles"}, "time", "2026-02-10T06:00:00-08:00", "2026-02-11"),
        ({"time": "23:00", "timezone": "Europe/Berlin", "date": "2026-02-09"}, "date", NOW, "2026-02-11"),
    ],
)
def test_past_times_are_refused_with_the_time_it_is(
    ann: Agent, given: dict[str, str], argument: str, now: str, example: str
) -> None:
    said = ann.problem("schedule_notification", **PLAIN, **given)
    assert said.startswith(f"{argument}: ")
    assert f"is in the past; it is now {now}. Give a later" in said
    assert example in said
    assert "run_at" not in said


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"timezone": "Europe/Berlin"},
        {"delay": "1h", "datetime": "2026-02-11T15:00:00Z"},
        {"delay": "1h", "time": "15:30", "timezone": "UTC"},
        {"delay": None, "datetime": None},
    ],
)
def test_exactly_one_way_to_say_when(ann: Agent, given: dict[str, Any]) -> None:
    said = ann.problem("schedule_notification", **PLAIN, **given)
    assert said.startswith("Give exactly one of datetime, time (with timezone) or delay")
    assert "2h30m" in said


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("tomorrow at 9", "2026-02-11T09:00:00+01:00"),
        ("tonight", "2026-02-10T20:00:00+01:00"),
        ("friday at nine", "2026-02-13T09:00:00+01:00"),
        ("in half an hour", "2026-02-10T15:30:00+01:00"),
        ("2h30m", "2026-02-10T17:30:00+01:00"),
        ("24.12.2026 18:00", "2026-12-24T18:00:00+01:00"),
        ("Dec 24 6pm", "2026-12-24T18:00:00+01:00"),
    ],
)
def test_a_datetime_may_be_in_words(ann: Agent, text: str, due: str) -> None:
    made = ann("schedule_notification", **PLAIN, datetime=text)
    assert made["scheduled_time"] == due
    if text == "tonight":  # nothing else could be meant
        assert made["confirmation"] == "Notification scheduled for Feb 10, 2026 8:00 PM CET"
        assert "time" not in made["warning_codes"]


def test_null_is_as_good_as_absent(ann: Agent) -> None:
    made = ann("schedule_notification", **PLAIN, delay="1h", datetime=None, time=None, date=None, timezone=None)
    assert made["success"] is True


@pytest.mark.parametrize(
    ("given", "expected", "note"),
    [
        ({"time": "02:30", "date": "2026-03-29"}, "2026-03-29T03:30:00+02:00", "clocks go forward"),
        ({"time": "02:30", "date": "2026-10-25"}, "2026-10-25T02:30:00+02:00", "comes twice"),
        ({"time": "09:00", "date": "2026-03-29"}, "2026-03-29T09:00:00+02:00", None),
    ],
)
def test_wall_clock_times_where_clocks_change(
    ann: Agent, given: dict[str, str], expected: str, note: str | None
) -> None:
    made = ann("schedule_notification", **PLAIN, **given, timezone="Europe/Berlin")
    assert made["scheduled_time"] == expected
    assert (note in made["confirmation"]) if note else (";" not in made["confirmation"])


def test_today_on_a_day_on_which_clocks_change(simulation: Simulation, ann: Agent) -> None:
    simulation.advance(datetime(2026, 3, 29, 0, 15, tzinfo=UTC))
    made = ann("schedule_notification", **PLAIN, time="02:30", timezone="Europe/Berlin")
    assert made["scheduled_time"] == "2026-03-29T03:30:00+02:00"
    assert "clocks go forward" in made["confirmation"]


def test_a_one_off_is_deleted_before_it_goes_out_and_after(simulation: Simulation, ann: Agent) -> None:
    first, second = ann.once(), ann.once(delay="2h")
    assert ann.listed() == ([], [first, second])
    expected = {
        "success": True,
        "schedule_id": first,
        "confirmation": f"Schedule {first} deleted successfully",
    }
    assert ann("delete_schedule", schedule_id=first) == expected
    simulation.advance(timedelta(hours=3))
    assert [run.schedule for run in ann.runs()] == [2]
    late = ann("delete_schedule", schedule_id=second)
    assert (late["success"], late["note"]) == (True, "It was completed before."), "it was not prevented"
    assert ann("delete_schedule", schedule_id=second)["error"] == schedule_not_found(second)


# -- all that make something --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", MAKING)
@pytest.mark.parametrize("topic", ["", "Alerts", "a_b", "-a", "a--b", "a b", "../x", "a\n", "x" * 300])
def test_a_wrong_topic_is_a_tool_error_with_an_example(ann: Agent, tool: str, topic: str) -> None:
    said = ann.problem(tool, **{**PLAIN, **TIMED[tool], "notification_topic": topic})
    assert said.startswith("notification_topic: ")
    assert "home-alerts" in said
    assert ann.problem("list_scheduled_notifications", notification_topic=topic) == said


@pytest.mark.parametrize("tool", ["schedule_notification", "schedule_cron_notification"])
def test_an_unknown_zone_is_a_tool_error_with_an_example(ann: Agent, tool: str) -> None:
    given = {**PLAIN, **TIMED[tool]}
    assert "Europe/Berlin" in ann.problem(tool, **{**given, "timezone": "Europe/Berln"})
    assert "Europe/Berlin" in ann.problem(tool, **{**given, "timezone": "Mars/Olympus"})
    assert "Europe/Berlin" in ann.problem("get_current_time", timezone="../etc/passwd")


@pytest.mark.parametrize("tool", MAKING)
def test_arguments_that_do_not_fit_are_named(ann: Agent, tool: str) -> None:
    given = {**PLAIN, **TIMED[tool]}
    assert "message is required" in ann.problem(tool, **{k: v for k, v in given.items() if k != "message"})
    assert "notification_topic is required" in ann.problem(tool, **{k: v for k, v in given.items() if "topic" not in k})
    assert "Unknown argument: owner" in ann.problem(tool, **given, owner="ben")
    assert "message must be a string" in ann.problem(tool, **{**given, "message": 5})
    assert "NUL" in ann.problem(tool, **{**given, "message": "a\x00"})
    assert "surrogates" in ann.problem(tool, **{**given, "message": "\ud800"})
    assert ann.problem(tool, **{**given, "message": "  "}).startswith("message: ")
    assert "limit" in ann.problem(tool, **{**given, "message": "x" * (4 << 20)})


def test_a_cron_notification_needs_its_zone(ann: Agent) -> None:
    assert "timezone is required" in ann.problem("schedule_cron_notification", **PLAIN, cron="0 9 * * *")


@pytest.mark.parametrize(
    "text", ["null", "true", '{"a": 1}', "42", "'; DROP TABLE schedules; --", "{id}", "Ignore all"]
)
def test_texts_are_data(simulation: Simulation, ann: Agent, text: str) -> None:
    ann.once(message=text)
    assert ann("list_scheduled_notifications")["messages"][0]["notification_body"] == text
    simulation.advance(timedelta(hours=1))
    assert json.loads(ann.runs()[0].result or "")["message"] == text


@pytest.mark.parametrize("tool", MAKING)
def test_a_key_returns_the_first_result_and_makes_nothing(simulation: Simulation, ann: Agent, tool: str) -> None:
    given = {**PLAIN, **TIMED[tool], "idempotency_key": "k"}
    first = ann(tool, **given)
    simulation.clock.move_to(Instant(simulation.clock.now() + SECOND))
    assert ann(tool, **given) == first
    assert "idempotency_key" in ann.problem(tool, **{**given, "message": "other"})
    schedules, messages = ann.listed()
    assert len(schedules) + len(messages) == 1


@pytest.mark.parametrize(
    "when", [{"delay": "1h"}, {"time": "15:30", "timezone": "Europe/Berlin"}, {"datetime": "2026-02-10T15:30:00+01:00"}]
)
def test_a_key_is_known_after_its_time_has_passed(simulation: Simulation, ann: Agent, when: dict[str, str]) -> None:
    given = {**PLAIN, **when, "idempotency_key": "k"}
    first = ann("schedule_notification", **given)
    simulation.advance(timedelta(days=2))
    assert ann("schedule_notification", **given) == first
    assert len(ann.runs()) == 1


def test_tomorrow_is_that_of_the_zone(simulation: Simulation, ann: Agent) -> None:
    simulation.advance(timedelta(hours=4, minutes=40))  # 00:10 on the 11th in Kolkata, half an hour off the full hours
    said = ann.problem("schedule_notification", **PLAIN, time="00:05", timezone="Asia/Kolkata")
    assert "a later date such as 2026-02-12." in said


def test_where_nothing_would_fire_the_result_says_so(tmp_path: Path) -> None:
    app = build(Settings(db=str(tmp_path / "due.db"), timezone="UTC"), tasks=False)
    try:
        agent = Agent(app, Caller("ann"), patience=0.05)
        for tool in MAKING:
            warnings = agent(tool, **PLAIN, **TIMED[tool])["warnings"]
            assert warnings[0].startswith("No worker is running")
            assert warnings[1:] == [INBOX_WARNING]
    finally:
        app.close()


# -- sending ------------------------------------------------------------------------------------------------------


def test_a_busy_machine_does_not_prolong_the_wait_for_a_receiver(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = simulation.duetime.app
    runs, looks = app.scheduler.runs, []

    def slow(*args: Any, **named: Any) -> Any:
        looks.append(args)
        simulation.clock._elapsed += 1.0
        return runs(*args, **named)

    monkeypatch.setattr(app.scheduler, "runs", slow)
    assert Agent(app, Caller("ann"), patience=5.0)("send_push_notification", **PLAIN)["success"] is False
    assert len(looks) == 5


class Unwilling(NotificationKind):
    """Delivers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: Outcome = Failed("the receiver answered 503 to token=abc")

    def execute(self, work: Work) -> Outcome:
        return self.outcome


@pytest.fixture
def working(tmp_path: Path) -> Iterator[App]:
    """With a worker in this process."""
    app = build(Settings(db=str(tmp_path / "due.db"), timezone="UTC"), tasks=False)
    engine = app.engine()
    engine.start()
    yield app
    engine.stop(5)
    app.close()


@pytest.fixture
def unwilling(tmp_path: Path) -> Iterator[tuple[App, Unwilling]]:
    app = build(Settings(db=str(tmp_path / "due.db"), timezone="UTC"), tasks=False)
    kind = Unwilling()
    kind.service = LocalNotifications(app.scheduler)
    assert isinstance(app.kinds, dict)
    app.kinds["notification"] = kind
    engine = app.engine()
    engine.start()
    yield app, kind
    engine.stop(5)
    app.close()


def test_sending_now(working: App) -> None:
    agent = Agent(working, Caller("ann"))
    looks = {"title": "T", "priority": 5, "tags": ["tada"], "markdown": True, "click": "https://example.org"}
    action = {"action": "view", "label": "Open", "url": "https://example.org"}
    files = {"icon": "https://example.org/i.png", "attach": "https://example.org/a.pdf", "filename": "a.pdf"}
    sent = agent("send_push_notification", **PLAIN, **looks, **files, actions=[action], idempotency_key="k")
    assert sent == {
        "success": True,
        "message_id": sent["message_id"],
        "reached": "inbox",
        "confirmation": "Notification for topic alerts is in the built-in inbox only",
        "warnings": [INBOX_WARNING],
        "warning_codes": ["no_channel"],
    }
    assert sent["message_id"].startswith("msg_")
    (run,) = agent.runs()
    arrived = json.loads(run.result or "")
    assert arrived == {
        "channel": "inbox",
        "notification_id": sent["message_id"],
        "message": "hi",
        "topic": "alerts",
        **looks,
        "actions": [action],
        **files,
    }
    again = agent("send_push_notification", **PLAIN, **looks, **files, actions=[action], idempotency_key="k")
    assert again == sent
    assert len(agent.runs()) == 1
    assert agent.listed() == ([], [])


def test_a_send_that_fails_says_that_it_is_over(unwilling: tuple[App, Unwilling]) -> None:
    agent = Agent(unwilling[0], Caller("ann"))
    sent = agent("send_push_notification", **PLAIN, max_attempts=1)
    assert sent["success"] is False
    assert sent["message_id"].startswith("msg_")
    assert sent["error"].startswith("Not delivered: the receiver answered 503 to token=***. It will not be retried")
    assert "confirmation" not in sent


def test_a_send_that_fails_says_that_it_will_be_retried(unwilling: tuple[App, Unwilling]) -> None:
    agent = Agent(unwilling[0], Caller("ann"))
    sent = agent("send_push_notification", **PLAIN)
    assert sent["success"] is False
    assert sent["error"].startswith("Not delivered yet: the receiver answered 503 to token=***. It will be retried")
    assert agent.listed() == ([], [sent["message_id"]])
    assert agent("delete_schedule", schedule_id=sent["message_id"])["success"] is True
    assert agent.listed() == ([], [])


def test_a_send_that_nobody_takes_stays_in_line(simulation: Simulation, ann: Agent) -> None:
    sent = ann("send_push_notification", **PLAIN)
    assert sent["success"] is False
    assert "It will be retried automatically" in sent["error"]
    assert ann.listed() == ([], [sent["message_id"]])
    simulation.settle()
    assert [run.status for run in ann.runs()] == ["completed"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"priority": 0}, "priority"),
        ({"priority": 6}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"tags": "a"}, "tags"),
        ({"tags": [1]}, "tags: "),
        ({"actions": [{"action": "explode", "label": "x"}]}, "actions: "),
        ({"actions": [{"action": "broadcast", "label": "x"}] * 4}, "at most 3"),
        ({"icon": "no"}, "https://example.org"),
        ({"label": "x"}, "Unknown argument: label"),
    ],
)
def test_wrong_looks_are_named(ann: Agent, given: dict[str, Any], said: str) -> None:
    assert said in ann.problem("send_push_notification", **PLAIN, **given)
    assert ann.listed() == ([], [])


# -- who sees what ------------------------------------------------------------------------------------------------


def test_two_owners_see_nothing_of_each_other(simulation: Simulation, ann: Agent, ben: Agent) -> None:
    schedule, message = ann.cron(), ann.once()
    before = ben.digest("alerts")
    assert ben.listed() == ben.listed(notification_topic="alerts") == ([], [])
    assert ben.read("schedules://{topic}", "alerts") == {
        "notification_topic": "alerts",
        "schedules": [],
        "count": 0,
        "messages": [],
    }
    for tool in ("pause_schedule", "resume_schedule", "delete_schedule"):
        for theirs in (schedule, message):
            answer = json.dumps(ben(tool, schedule_id=theirs)).replace(theirs, "ID")
            assert answer == json.dumps(ben(tool, schedule_id="scd_0")).replace("scd_0", "ID")
    assert ann.listed() == ([schedule], [message])
    simulation.advance(timedelta(days=1))
    assert ben.digest("alerts") == before
    assert ben.runs() == []
    key = {"idempotency_key": "k"}
    assert ann.cron(**key) != ben.cron(**key)


def test_an_operators_list_is_its_own(ann: Agent) -> None:
    ann.cron()
    assert Agent(ann.app, Caller("root", operator=True)).listed() == ([], [])


def test_ids_of_other_kinds_are_not_found(ann: Agent) -> None:
    job = NewSchedule("job", "say", "interval", {"hours": 1}, {"task": "echo", "args": ["hi"]})
    made = ann.app.scheduler.create(ann.call.caller, job)
    answer = ann("delete_schedule", schedule_id=made.definition.public_id)
    assert answer["error"].startswith("Schedule not found: ")
    assert ann.listed() == ([], [])


HOSTILE = ["", " ", "../../etc/passwd", "scd_%", "' OR 1=1 --", "x" * 100_000, "{id}", "scd_\n", "☃", "null", "scd_*"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_any_string_is_taken_as_an_id(ann: Agent, hostile: str) -> None:
    ann.cron()
    for tool in ("pause_schedule", "resume_schedule", "delete_schedule"):
        answer = ann(tool, schedule_id=hostile)
        assert answer["success"] is False
        assert answer["schedule_id"] == hostile
        assert answer["error"].startswith(f"Schedule not found: {hostile}. ")
    assert "schedule_id" in ann.problem("delete_schedule", schedule_id="a\x00")
    assert "schedule_id" in ann.problem("delete_schedule", schedule_id="\udc00")
    assert "schedule_id" in ann.problem("delete_schedule", schedule_id=["scd_1"])
    assert len(ann.listed()[0]) == 1


def test_many_are_listed_completely_and_by_topic(ann: Agent) -> None:
    made = [ann.cron(notification_topic=f"t-{number % 2}") for number in range(520)]
    assert ann.listed()[0] == made
    assert ann.listed(notification_topic="t-1")[0] == made[1::2]
    assert ann.listed(notification_topic="t-2") == ([], [])


def test_the_list_is_shown_in_the_zone_that_was_asked_for(ann: Agent) -> None:
    ann.cron()
    row = ann("list_scheduled_notifications", timezone="America/New_York")["schedules"][0]
    assert row["next_occurrence"] == "2026-02-11T03:00:00-05:00"
    assert row["timezone"] == "Europe/Berlin"


# -- the clock ----------------------------------------------------------------------------------------------------


def test_what_time_it_is(simulation: Simulation, ann: Agent) -> None:
    simulation.advance(timedelta(milliseconds=1234))
    assert ann("get_current_time") == {
        "datetime": "2026-02-10T15:00:01+01:00",
        "date": "2026-02-10",
        "time": "15:00:01",
        "timezone": "Europe/Berlin",
        "timestamp_ms": 1_770_732_001_234,
    }
    tokyo = ann("get_current_time", timezone="Asia/Tokyo")
    assert (tokyo["datetime"], tokyo["timezone"]) == ("2026-02-10T23:00:01+09:00", "Asia/Tokyo")


# -- resources ----------------------------------------------------------------------------------------------------


def test_every_cron_example_can_be_used(ann: Agent) -> None:
    content = ann.read("cron://examples")
    assert content is not None
    assert set(content) == {"examples", "format_help"}
    for example in content["examples"]:
        assert set(example) == {"expression", "description"}
        ann.cron(cron=example["expression"])


def test_every_zone_that_is_listed_can_be_used(ann: Agent) -> None:
    content = ann.read("timezones://valid")
    assert content is not None
    assert content["count"] == len(content["timezones"]) > 400
    assert {"zone": "Europe/Berlin", "region": "Europe"} in content["timezones"]
    for row in content["timezones"][::40]:
        assert ann("get_current_time", timezone=row["zone"])["timezone"] == row["zone"]


def test_a_topic_is_read_like_the_list(ann: Agent) -> None:
    ann.cron()
    ann.once(notification_topic="other")
    listed = ann("list_scheduled_notifications", notification_topic="alerts")
    assert ann.read("schedules://{topic}", "alerts") == {"notification_topic": "alerts", **listed}
    assert ann.read("schedules://{topic}", "Not A Topic") is None
    assert ann.digest("Not A Topic") is None
    assert RESOURCES["schedules://{topic}"].match("schedules://alerts") == "alerts"


def test_the_digest_differs_after_everything_that_happens_on_the_topic(simulation: Simulation, ann: Agent) -> None:
    seen = [ann.digest("alerts")]

    def differs() -> None:
        assert ann.digest("alerts") not in seen
        seen.append(ann.digest("alerts"))

    schedule = ann.cron()
    differs()
    message = ann.once()
    differs()
    ann("pause_schedule", schedule_id=schedule)
    differs()
    ann("delete_schedule", schedule_id=message)
    differs()
    ann("resume_schedule", schedule_id=schedule)
    assert ann.digest("alerts") == seen[1]
    simulation.advance(timedelta(days=1))
    differs()
    ann("send_push_notification", **PLAIN)
    simulation.settle()  # made and gone between two looks
    differs()
    ann("delete_schedule", schedule_id=schedule)
    differs()
    ann.cron(notification_topic="other")
    assert ann.digest("alerts") == seen[-1]


# -- the family ---------------------------------------------------------------------------------------------------


def test_the_family_is_there_and_can_be_switched_off() -> None:
    specs = load_specs().values()
    catalog = catalog_of(specs, ["notifications"])
    others = {tool.name for tool in catalog_of(specs, ["jobs"]).tools}
    assert {"send_push_notification", "schedule_cron_notification"} <= set(TOOLS) - others
    assert {resource.uri for resource in catalog.resources} == set(RESOURCES)
    assert "delete_schedule" in others & set(TOOLS), "it serves every family"


@pytest.mark.parametrize("name", list(TOOLS))
def test_every_tool_is_described_truthfully(name: str) -> None:
    tool = TOOLS[name]
    assert len(tool.description) > 80
    assert set(tool.input["required"]) <= set(tool.input["properties"])
    assert tool.input["type"] == tool.output["type"] == "object"
    assert tool.input["additionalProperties"] is False
    assert all(schema.get("description") for schema in tool.input["properties"].values())
    assert tool.destructive == (name in ("delete_schedule", "change_schedules", "edit_schedule", "stop_run"))
    reading = ("list_scheduled_notifications", "get_current_time", "list_upcoming", "history", "status")
    assert tool.read_only == (name in reading)
    nullable = {key for key, schema in tool.input["properties"].items() if "null" in schema["type"]}
    assert nullable == set(tool.input["properties"]) - set(tool.input["required"])


def test_the_seeds_words_about_deleting_are_there() -> None:
    tool = TOOLS["delete_schedule"]
    assert tool.description.startswith(
        "Delete a scheduled notification by its ID.\n\nPermanently removes a cron schedule. The schedule will stop "
        "firing and cannot be recovered. Use the schedule_id returned from schedule_cron_notification."
    )
    words = tool.input["properties"]["schedule_id"]["description"]
    assert words.startswith("The schedule ID to delete. This ID is returned when creating a cron schedule.")


def test_a_broken_schedule_is_shown_and_can_be_deleted(simulation: Simulation, ann: Agent) -> None:
    schedule = ann.cron()
    store: Any = ann.app.store
    store._writer.execute("UPDATE schedules SET trigger = '{}'")
    (row,) = ann("list_scheduled_notifications")["schedules"]
    assert (row["cron_expression"], row["notification_body"]) == (None, "hi")
    assert ann("delete_schedule", schedule_id=schedule)["success"] is True


def test_an_agent_deep_inside_runs_may_still_tell_a_person(ann: Agent) -> None:
    """It wakes nobody: only what would wake a further agent is refused so deep."""
    deep = Agent(ann.app, Caller("ann", depth=9))
    assert deep.once().startswith("msg_")
