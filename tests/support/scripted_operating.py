"""The part of the scripted agent that answers what people ask about work that failed, ended, waits or was removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.scripted import Toolbox


def _change(toolbox: Toolbox, action: str, **arguments: Any) -> dict[str, Any]:
    return toolbox.data("change_schedules", {"action": action, **arguments})


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _restore(toolbox: Toolbox, name: str) -> dict[str, Any]:
    return _change(toolbox, "restore", ids=[name])


def bring_back(name: str) -> Callable[[Toolbox], str]:
    return lambda toolbox: _minute(_restore(toolbox, name)["schedules"][0]["next_run"])


def how_many_can_come_back(toolbox: Toolbox) -> str:
    return str(_change(toolbox, "restore", all=True, dry_run=True)["matched"])


def bring_back_too_late(toolbox: Toolbox) -> str:
    return "Yes" if _restore(toolbox, "call mum")["changed"] else "No"


def what_fails(toolbox: Toolbox) -> str:
    return ", ".join(sorted({each["name"] for each in toolbox.data("status", {})["problems"]}))


def how_runs_ended(toolbox: Toolbox) -> str:
    counts = toolbox.data("history", {"from": "24 hours ago"})["counts"]
    return f"{counts['failed']}/{counts['completed']}"


def resolve(toolbox: Toolbox) -> str:
    [run] = [each["run_id"] for each in toolbox.data("status", {})["problems"] if each["name"] == "invoice import"]
    toolbox.data("mark_runs", {"run_ids": [run], "mark": "dismiss"})
    return str(sum(each["status"] == "open" for each in toolbox.data("status", {})["problems"]))


def what_waits(toolbox: Toolbox) -> str:
    return ", ".join(each["name"] for each in toolbox.data("status", {})["waiting"]) or "nothing"


def missed_or_failed(toolbox: Toolbox) -> str:
    return str(toolbox.data("history", {"status": "failed,missed", "from": "2026-01-03"})["total"])


def how_many_fire(toolbox: Toolbox) -> str:
    return str(toolbox.data("list_upcoming", {"from": "2031-01-01", "until": "2031-01-07"})["count"])


def half_an_hour_later(toolbox: Toolbox) -> str:
    rows = _change(toolbox, "shift", shift="30m", kind="notification")["schedules"]
    return _minute(next(row["next_run"] for row in rows if row["name"] == "retro"))


def delete_what_ended(toolbox: Toolbox) -> str:
    chosen = {"status": "finished", "older_than": "1d"}
    number = _change(toolbox, "delete", dry_run=True, **chosen)["matched"]
    return str(_change(toolbox, "delete", expected_count=number, **chosen)["changed"])


def delete_one_that_ended(toolbox: Toolbox) -> str:
    return "Yes" if toolbox.data("delete_schedule", {"schedule_id": "old import"})["success"] else "No"


def what_would_be_held(toolbox: Toolbox) -> str:
    rows = _change(toolbox, "pause", all=True, until="2031-03-04 08:00", dry_run=True)["schedules"]
    return ", ".join(row["name"] for row in rows if "held" in row["falls_into_pause"])


def create_in_a_pause(toolbox: Toolbox) -> str:
    created = toolbox.data(
        "schedule_notification",
        {"message": "Buy milk", "notification_topic": "family", "name": "milk", "datetime": "2031-01-05T09:00+01:00"},
    )
    return "Yes" if "all_paused" in created.get("warning_codes", []) else "No"


def report_failures(toolbox: Toolbox) -> str:
    options = {"deliver_to": "ops", "notify_on": "failure"}
    toolbox.data("edit_schedule", {"schedule_id": "nightly report", "options": options})
    return str(toolbox.data("job_status", {"job_id": "nightly report"})["options"]["deliver_to"])


def no_alerts(toolbox: Toolbox) -> str:
    toolbox.data("edit_schedule", {"schedule_id": "queue check", "options": {"alert": "off"}})
    return str(toolbox.data("job_status", {"job_id": "queue check"})["options"]["alert"])


def until_christmas(toolbox: Toolbox) -> str:
    when = "on weekdays at half past eight until christmas 2031"
    created = toolbox.data(
        "schedule_notification",
        {
            "message": "Take the pills", "notification_topic": "family", "name": "pills", "when": when,
            "options": {"start": "2031-01-01"},
        },
    )  # fmt: skip
    return _minute(created["next_run"])


def last_fridays(toolbox: Toolbox) -> str:
    rule = "FREQ=MONTHLY;INTERVAL=2;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0"
    times = {"rrule": rule, "options": {"start": "2031-01-01"}}
    toolbox.data(
        "schedule_notification", {"message": "Pay the rent", "notification_topic": "family", "name": "rent", **times}
    )
    [row] = toolbox.data("list_upcoming", {"from": "2031-02-01", "until": "2031-04-30"})["upcoming"]
    return str(row["at"])[:10]


def last_in_january(toolbox: Toolbox) -> str:
    times = {"when": "every monday at noon", "start": "2031-01-01", "end": "2031-01-31", "count": 10}
    return str(toolbox.data("preview_schedule", times)["next"][-1]["local"])[:10]


SCRIPTS: dict[str, Callable[[Toolbox], str]] = {
    'The notification "retro" was deleted': bring_back("retro"),
    'The job "queue check" was cancelled': bring_back("queue check"),
    "could be brought back": how_many_can_come_back,
    "call mum": bring_back_too_late,
    "Is everything all right?": what_fails,
    "how many were completed": how_runs_ended,
    "mark it as resolved": resolve,
    "that nobody has taken": what_waits,
    "missed or failed since": missed_or_failed,
    "fire at least once": how_many_fire,
    "half an hour later": half_an_hour_later,
    "ended more than a day ago": delete_what_ended,
    "Delete the finished job": delete_one_that_ended,
    "would be held back": what_would_be_held,
    "Buy milk": create_in_a_pause,
    "only if it fails": report_failures,
    "Nobody should be told": no_alerts,
    "Take the pills": until_christmas,
    "Pay the rent": last_fridays,
    "every monday at noon": last_in_january,
}
"""Keyed by words that only one question contains."""
