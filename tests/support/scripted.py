"""A scripted agent that knows which calls answer each question of the evaluation, as a good model would find out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

HOURLY = {"trigger_type": "interval", "trigger_config": {"hours": 1}}
DAILY = {"trigger_type": "cron", "trigger_config": {"expression": "0 6 * * *"}}
STANDUP = {
    "message": "Standup",
    "notification_topic": "work-standup",
    "cron": "0 9 * * 1-5",
    "timezone": "Europe/Berlin",
}


class Toolbox(Protocol):
    """The actions of the agent: call a tool, and ask again until something exists."""

    def text(self, tool: str, given: dict[str, Any]) -> str: ...

    def data(self, tool: str, given: dict[str, Any]) -> dict[str, Any]: ...

    def is_refused(self, tool: str, given: dict[str, Any]) -> bool: ...

    def until(self, ask: Callable[[], bool]) -> None: ...


def _yes(holds: bool) -> str:
    return "Yes" if holds else "No"


def _job(toolbox: Toolbox, name: str = "a job", **more: Any) -> dict[str, Any]:
    return toolbox.data("schedule_job", {"name": name, "task": "echo", **HOURLY, **more})


def create_then_delete(toolbox: Toolbox) -> str:
    now = toolbox.data("get_current_time", {})["datetime"]
    made = toolbox.data(
        "schedule_cron_notification",
        {
            "message": f"Delete test {now}",
            "notification_topic": "cronty-eval-test",
            "cron": "0 0 * * *",
            "timezone": "UTC",
        },
    )
    deleted = toolbox.data("delete_schedule", {"schedule_id": made["schedule_id"]})
    return _yes(made["success"] and deleted["success"])


def delete_unknown(toolbox: Toolbox) -> str:
    answer = toolbox.data("delete_schedule", {"schedule_id": "scd_nonexistent_test_id"})
    return _yes(not answer["success"] and "not found" in answer["error"])


def job_pending(toolbox: Toolbox) -> str:
    return str(_job(toolbox, "nightly_backup")["status"])


def unknown_task(toolbox: Toolbox) -> str:
    return str(_job(toolbox, "cleanup", task="cleanup_temp_files")["error"])


def three_jobs(toolbox: Toolbox) -> str:
    for name in ("first", "second", "third"):
        _job(toolbox, name, **DAILY)
    return str(toolbox.data("list_jobs", {"status": "pending"})["total"])


def cancel_twice(toolbox: Toolbox) -> str:
    job_id = _job(toolbox)["job_id"]
    toolbox.data("cancel_job", {"job_id": job_id})
    return _yes(toolbox.data("cancel_job", {"job_id": job_id})["cancelled"])


def runs_of(toolbox: Toolbox) -> str:
    shown = toolbox.data("job_status", {"job_id": _job(toolbox, max_runs=24)["job_id"]})
    return f"{shown['run_count']}/{shown['max_runs']}"


def which_task(toolbox: Toolbox) -> str:
    tasks = toolbox.data("list_tasks", {})["tasks"]
    return next(str(task["name"]) for task in tasks if "number of words" in task["description"])


def never_fires(toolbox: Toolbox) -> str:
    shown = toolbox.data("preview_schedule", {"trigger_type": "cron", "trigger_config": {"expression": "0 0 30 2 *"}})
    return _yes("error" not in shown and bool(shown["next"]))


def either_day(toolbox: Toolbox) -> str:
    shown = toolbox.data("preview_schedule", {"trigger_type": "cron", "trigger_config": {"expression": "0 9 13 * 5"}})
    return _yes(not any("either" in warning for warning in shown["warnings"]))


def abbreviation(toolbox: Toolbox) -> str:
    said = toolbox.text("schedule", {"prompt": "water the plants", "at": "2031-07-10 3:00 PM"})
    found = re.search(r"3:00 PM (\w+)\.", said)
    assert found is not None, said
    return found[1]


def prompts_in_march(toolbox: Toolbox) -> str:
    for prompt, at in (
        ("prepare taxes", "2031-03-01"),
        ("file taxes", "2031-03-31 18:00"),
        ("celebrate", "2031-04-01"),
    ):
        toolbox.data("schedule", {"prompt": prompt, "at": at})
    return str(toolbox.data("schedule_list", {"from": "2031-03-01", "to": "2031-03-31"})["total"])


def moved(toolbox: Toolbox) -> str:
    made = toolbox.data("schedule", {"prompt": "feed the cat", "at": "2031-02-10T15:00"})
    edited = toolbox.data("schedule_edit", {"id": made["id"], "at": "2031-02-10T16:00"})
    return str(edited["fire_at"])[11:16]


def edit_cancelled(toolbox: Toolbox) -> str:
    made = toolbox.data("schedule", {"prompt": "book a table", "at": "tomorrow 9am"})
    toolbox.data("schedule_cancel", {"id": made["id"]})
    return _yes("error" not in toolbox.data("schedule_edit", {"id": made["id"], "prompt": "book two tables"}))


def is_due(toolbox: Toolbox) -> str:
    return _yes("run_id" in toolbox.data("take_prompt", {}))


def take_and_finish(toolbox: Toolbox) -> str:
    return str(_finished(toolbox, "say hello", "hello")["status"])


def what_came_of_it(toolbox: Toolbox) -> str:
    number = _finished(toolbox, "count the sheep", "41 sheep")["id"]
    return str(toolbox.data("prompt_result", {"id": number})["result"])


def _finished(toolbox: Toolbox, prompt: str, result: str) -> dict[str, Any]:
    toolbox.data("schedule", {"prompt": prompt, "at": "now"})
    taken: dict[str, Any] = {}

    def there() -> bool:
        taken.update(toolbox.data("take_prompt", {}))
        return "run_id" in taken

    toolbox.until(there)
    return toolbox.data("finish_prompt", {"run_id": taken["run_id"], "result": result})


def send_now(toolbox: Toolbox) -> str:
    given = {"message": "Dinner is ready", "notification_topic": "family-dinner"}
    return str(toolbox.data("send_push_notification", given)["reached"])


def in_the_past(toolbox: Toolbox) -> str:
    given = {
        "message": "Happy new year",
        "notification_topic": "family-news",
        "datetime": "2020-01-01T00:00:00+00:00",
    }
    return _yes(not toolbox.is_refused("schedule_notification", given))


def delayed(toolbox: Toolbox) -> str:
    given = {"message": "Take out the bins", "notification_topic": "home-alerts", "delay": "2h30m"}
    return str(toolbox.data("schedule_notification", given)["delay"])


def on_a_topic(toolbox: Toolbox) -> str:
    topic = {"message": "Water the plants", "notification_topic": "garden-tips"}
    for cron in ("0 8 * * *", "0 9 * * 1"):
        toolbox.data("schedule_cron_notification", {**topic, "cron": cron, "timezone": "Europe/Berlin"})
    toolbox.data("schedule_notification", {**topic, "delay": "1d"})
    found = toolbox.data("list_scheduled_notifications", {"notification_topic": "garden-tips"})
    return f"{found['count']}/{len(found['messages'])}"


def paused(toolbox: Toolbox) -> str:
    made = toolbox.data("schedule_cron_notification", STANDUP)
    toolbox.data("pause_schedule", {"schedule_id": made["schedule_id"]})
    [row] = toolbox.data("list_scheduled_notifications", {"notification_topic": "work-standup"})["schedules"]
    return _yes(row["next_occurrence"] is not None)


def resumed(toolbox: Toolbox) -> str:
    made = toolbox.data("schedule_cron_notification", STANDUP)
    toolbox.data("pause_schedule", {"schedule_id": made["schedule_id"]})
    return _yes(toolbox.data("resume_schedule", {"schedule_id": made["schedule_id"]})["paused"])


def offset(toolbox: Toolbox) -> str:
    return str(toolbox.data("get_current_time", {"timezone": "Asia/Tokyo"})["datetime"])[-6:]


def what_fires_next(toolbox: Toolbox) -> str:
    _job(toolbox, trigger_type="once", trigger_config={"run_at": "in 2 days"})
    toolbox.data("schedule", {"prompt": "water the plants", "at": "in 1 day"})
    given = {"message": "Call mother", "notification_topic": "family-news", "delay": "3d"}
    toolbox.data("schedule_notification", given)
    return ", ".join(row["kind"] for row in toolbox.data("list_upcoming", {})["upcoming"])


SCRIPTS: dict[str, Callable[[Toolbox], str]] = {
    "Delete test {current_time}": create_then_delete,
    "scd_nonexistent_test_id": delete_unknown,
    "nightly_backup": job_pending,
    "cleanup_temp_files": unknown_task,
    "Create three jobs": three_jobs,
    "a second time": cancel_twice,
    "at most 24 times": runs_of,
    "cuts a text": which_task,
    "0 0 30 2 *": never_fires,
    "Friday the 13th": either_day,
    "10 July 2031": abbreviation,
    "prepare taxes": prompts_in_march,
    "feed the cat": moved,
    "book a table": edit_cancelled,
    "waits for an agent to take it right now": is_due,
    "say hello": take_and_finish,
    "count the sheep": what_came_of_it,
    "Dinner is ready": send_now,
    "Happy new year": in_the_past,
    "Take out the bins": delayed,
    "garden-tips": on_a_topic,
    "still show a next occurrence": paused,
    "pause it and resume": resumed,
    "Asia/Tokyo": offset,
    "what fires next over all of them": what_fires_next,
}
"""Keyed by words that only one question contains."""
